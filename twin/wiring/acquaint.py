"""Tells tasks who shares their processor, and how much of what reaches them comes from tasks there."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from twin.engine.compute.bursts import Bursts
from twin.engine.compute.crowd import FEW, SMALL, Crowd
from twin.engine.compute.neighbours import Neighbours
from twin.engine.compute.pace import Pace
from twin.engine.compute.processor import Processor
from twin.engine.station.task import Task
from twin.job import Job
from twin.wiring.conserving import conservation
from twin.wiring.passing import passed_by_bursts

Here = Mapping[str, Sequence[Task]]
"""The tasks on one processor, by component."""


def acquaint(job: Job, replicas: Callable[[str], int], processor: Processor, here: Here) -> None:
    """Tells the tasks on a processor. replicas: that a component has, here and elsewhere."""
    neighbours, conserved, paces = None, None, {}
    if processor.shared:
        neighbours = Neighbours(task.hidden for tasks in here.values() for task in tasks)
        conserved = conservation(job, replicas, processor, here)
        paces = _paces(job, replicas, processor, here)
    processor.crowd = _crowd(job, processor, here, paces)
    for name, tasks in here.items():
        for task in tasks:
            task.hidden.neighbours = neighbours
            task.hidden.conservation = conserved
            task.hidden.know_pace(paces.get(name))


def _paces(job: Job, replicas: Callable[[str], int], processor: Processor, here: Here) -> dict[str, Pace]:
    """Of each component, knowing which of them feed it here, and for which part."""
    now_s: float = processor.env.now
    paces = {
        name: Pace(processor.tally, [task.share for task in tasks], now_s) for name, tasks in here.items() if tasks
    }
    for name, pace in paces.items():
        inputs = [
            (job.components[each.producer].name, job.rates[each.stream.producer].out_per_s * each.share)
            for each in job.inputs(name)
        ]
        per_s = sum(rate for _, rate in inputs)
        if per_s > 0.0:
            known = [(producer, rate / per_s) for producer, rate in inputs if producer in paces]
            pace.feeds = [
                (part * len(here[producer]) / replicas(producer), paces[producer]) for producer, part in known
            ]
    return paces


def _crowd(job: Job, processor: Processor, here: Here, paces: Mapping[str, Pace]) -> Crowd | None:
    """Of few tasks on a small processor, who are told apart."""
    tasks = [(name, task) for name, each in here.items() for task in each]
    if not processor.shared or processor.capacity > SMALL or len(tasks) > FEW:
        return None
    fed = {name: sum(part for part, _ in pace.feeds) for name, pace in paces.items()}
    in_step = [fed[name] * max(0.0, 1.0 - task.hidden.service_scv) ** 2 for name, task in tasks]
    shares, now_s = [task.share for _, task in tasks], processor.env.now
    window, behind = passed_by_bursts(job, [name for name, each in here.items() if each])
    if not behind:
        return Crowd(processor.capacity, shares, in_step, now_s)
    places = [place for place, (name, _) in enumerate(tasks) if name in behind]
    sends = [place for place, (name, _) in enumerate(tasks) if name == window]
    bursts = Bursts(processor.capacity, places, sends[0] if sends else -1)
    return Crowd(processor.capacity, shares, in_step, now_s, bursts, tasks[sends[0]][1].hidden if sends else None)
