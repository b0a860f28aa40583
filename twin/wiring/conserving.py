"""Where the law of conserved work says how long tuples stay: on a core, or less, of operators that pass tuples on."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from twin.engine.compute.conservation import Conservation
from twin.engine.compute.processor import Processor
from twin.engine.station.task import Task
from twin.job import Component, Edge, Job
from twin.kinds.mechanism import Collecting, Reading, Selecting

SIMPLE = (Collecting, Reading, Selecting)
"""What operators do of which each tuple is served by itself, and passed on at once."""


def conservation(
    job: Job, replicas: Callable[[str], int], processor: Processor, here: Mapping[str, Sequence[Task]]
) -> Conservation | None:
    """Of the tasks on a processor; None where tuples do not come one by one to single replicas of such operators.

    What goes to another host and comes back counts as what comes from elsewhere.
    """
    components = [each for each in job.components if here.get(each.name)]  # in data-flow order
    if processor.capacity > 1.0 or not all(_simple(job, replicas, each) for each in components):
        return None
    place = {each.name: i for i, each in enumerate(components)}
    feeds: list[list[tuple[float, int]]] = [[] for _ in components]
    for each in components:
        for edge in job.inputs(each.name):
            producer = job.components[edge.producer]
            if producer.name in place:
                feeds[place[producer.name]].append((_passed(producer) * edge.share, place[each.name]))
    tasks = [here[each.name][0] for each in components]
    return Conservation(processor.capacity, [task.hidden for task in tasks], feeds, [task.share for task in tasks])


def _simple(job: Job, replicas: Callable[[str], int], component: Component) -> bool:
    if len(component.operators) != 1 or replicas(component.name) != 1 or _passed(component) > 1.0:
        return False
    return isinstance(component.operator.mechanism, SIMPLE) and all(
        _one_by_one(job, replicas, each) for each in job.inputs(component.name)
    )


def _one_by_one(job: Job, replicas: Callable[[str], int], edge: Edge) -> bool:
    """Whether tuples come on a stream as a single replica of a simple operator made them, and not together."""
    producer = job.components[edge.producer]
    batched = job.engine.flush_s is not None and job.engine.batch_of(edge.bytes_each) > 1
    return (
        edge.blocks
        and not batched
        and _passed(producer) <= 1.0
        and all(isinstance(each.mechanism, SIMPLE) for each in producer.operators)
        and replicas(producer.name) == 1
    )


def _passed(component: Component) -> float:
    """Tuples that leave for one that comes."""
    return component.operator.gain
