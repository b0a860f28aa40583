"""Limits of a run: its processor time and its memory. A run that no machine can hold is refused beforehand."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from twin.errors import BadInput
from twin.events import AnyEvent, RateChange, Scale
from twin.job import Edge, Job
from twin.query import AnyOperator, Windowed
from twin.scenario import Scenario
from twin.workload import ArrivalLaw

LONG_S = 20.0
"""CPU seconds beyond which a waiting user should be told."""
MOST_S = 5000.0
"""CPU seconds beyond which a run is refused."""
MOST_BYTES = 4e9
"""Memory beyond which a run is refused."""


@dataclass(frozen=True, slots=True)
class CostPart:
    """One part of the cost of a run: its size in bytes or CPU seconds, its name, and what makes it smaller."""

    size: float
    what: str
    remedy: str


def arriving(scenario: Scenario) -> dict[str, float]:
    """Number of records that arrive until the horizon, by source, with changes of rates."""
    horizon_s, laws = scenario.run.horizon_s, scenario.workload.arrivals
    return {
        name: law.mean_rate_per_s * horizon_s * _factor(name, law, scenario.events, horizon_s)
        for name, law in laws.items()
    }


def _factor(source: str, law: ArrivalLaw, events: Sequence[AnyEvent], horizon_s: float) -> float:
    """Mean factor over the run by which events raise a source's rate."""
    changes = [event for event in events if isinstance(event, RateChange) and event.source == source]
    mean, factor, since_s = 0.0, 1.0, 0.0
    for change in sorted(changes, key=lambda event: event.at_s):
        until_s = min(change.at_s, horizon_s)
        mean += factor * (until_s - since_s) / horizon_s
        factor = change.factor or (change.rate_per_s or 1.0) / law.mean_rate_per_s
        since_s = until_s
    return mean + factor * (horizon_s - since_s) / horizon_s


RECORD, UNREAD, OPEN, KEY, REPLICA, PAIR, ROW, SUBTASK_ROW = 100.0, 8.0, 500.0, 16.0, 5000.0, 150.0, 2000.0, 600.0
"""Bytes of a waiting record, an unread record, an open session, a key group, a replica, a pair of connected replicas,
and a row of statistics of an operator and of a subtask."""


def require_memory(job: Job, scenario: Scenario, taken_per_s: Mapping[str, float]) -> None:
    """Raises BadInput, naming the largest part, if a run would hold more than `MOST_BYTES`.

    taken_per_s: tuples a second that each operator takes, with backpressure.
    """
    held = list(parts(job, scenario, taken_per_s))
    total, largest = sum(part.size for part in held), max(held, key=lambda part: part.size)
    if total > MOST_BYTES:
        raise BadInput(
            f"the run would hold {largest.what}: about {total / 1e9:,.1f} GB in all, and the limit is "
            f"{MOST_BYTES / 1e9:g} GB; {largest.remedy}"
        )


def parts(job: Job, scenario: Scenario, taken_per_s: Mapping[str, float]) -> Iterator[CostPart]:
    """Parts of the memory of a run."""
    settings, replicas = scenario.run, most_replicas(job, scenario.events)
    periods, operators = settings.horizon_s / settings.period_s, job.query.operators
    rows, subtasks = (
        periods * each for each in (len(operators), sum(job.deployment.plan.replicas(each.name) for each in operators))
    )
    yield CostPart(
        ROW * rows + SUBTASK_ROW * subtasks,
        f"{rows + subtasks:.1e} rows of statistics",
        f"make run.period_s ({settings.period_s:g}) longer",
    )
    for name, come in arriving(scenario).items():
        unread = come - min(come, taken_per_s[name] * settings.horizon_s)
        yield CostPart(
            UNREAD * unread, f"{unread:.1e} records that {name!r} has not read", "lower its rate or run.horizon_s"
        )
    for edge in job.edges:
        yield from _stream(job, edge, replicas, settings.horizon_s)
    for component in job.components:
        count = replicas[component.name]
        yield CostPart(REPLICA * count, f"the {count:,} replicas of {component.name!r}", "use fewer replicas")
        groups = component.key_groups or 0
        yield CostPart(KEY * groups, f"the {groups:,} key groups of {component.name!r}", "use fewer")
        for stage in component.stages:
            if isinstance(stage.operator, Windowed):
                yield from _window(
                    job, stage.operator, stage.service_s, taken_per_s[stage.operator.name], settings.horizon_s
                )
            elif sessions := open_sessions(job, stage.operator, taken_per_s, settings.horizon_s):
                what = f"{sessions:.1e} open sessions of {stage.operator.name!r}"
                yield CostPart(OPEN * sessions, what, "make its gap shorter or its keys fewer")


def most_replicas(job: Job, events: Sequence[AnyEvent]) -> dict[str, int]:
    """Largest number of replicas of each operator at any time, without changes by policies."""
    most = {component.name: component.replicas for component in job.components}
    for event in events:
        if isinstance(event, Scale):
            most[event.operator] = max(most[event.operator], len(event.placement))
    return most


def open_sessions(job: Job, operator: AnyOperator, taken_per_s: Mapping[str, float], horizon_s: float) -> float:
    """Number of sessions that an operator has open at the end; 0 for an operator without sessions."""
    return min(job.rates[operator.name].state_tuples, taken_per_s[operator.name] * horizon_s)


def _stream(job: Job, edge: Edge, replicas: dict[str, int], horizon_s: float) -> Iterator[CostPart]:
    """Memory of one stream: its connections, and the records in its channels, at most as many as ever come."""
    producer, consumer = job.components[edge.producer].name, job.components[edge.consumer].name
    pairs = replicas[producer] * (1 if edge.how.paired else replicas[consumer])
    what = f"the {pairs:,} pairs of replicas that stream {producer} -> {consumer} connects"
    yield CostPart(PAIR * pairs, what, "use fewer replicas")
    come = job.rates[job.components[edge.producer].operators[-1].name].out_per_s * edge.share * horizon_s
    held = min(edge.room * replicas[consumer], come * edge.how.count_of_copies(replicas[consumer]))
    what = f"up to {held:.1e} tuples in the channels {producer} -> {consumer}"
    room = "channel_tuples" if job.engine.network_memory is None else "network_memory"
    yield CostPart(RECORD * held, what, f"make engine.{room} or the rates smaller")


def _window(job: Job, operator: Windowed, stage_s: float, taken_per_s: float, horizon_s: float) -> Iterator[CostPart]:
    """Memory of one window: the records it holds, and the results of its largest evaluation (all combinations)."""
    usual = job.rates[operator.name]
    share = min(1.0, taken_per_s / max(usual.in_per_s, 1e-300))
    content = min(usual.state_tuples * share, taken_per_s * horizon_s)
    yield CostPart(RECORD * content, f"{content:.1e} tuples in the windows of {operator.name!r}", "make them shorter")
    first = min(
        1.0, job.component(operator.name).replicas / max(stage_s * usual.in_per_s, 1e-300)
    )  # nothing blocks yet
    full = first * min(1.0, usual.in_per_s * horizon_s / max(usual.state_tuples, 1e-300))
    results = usual.out_per_s / max(usual.fires_per_s, 1e-300) * full ** max(1, len(job.query.inputs(operator.name)))
    what = f"{results:.1e} results of one evaluation of the window of {operator.name!r}"
    yield CostPart(RECORD * results, what, "make the window shorter or its results fewer")
