"""How busy times split into CPU and waits for a core, by host.

A subtask is busy while it computes, while it waits for a core, and while it sleeps or waits for an answer. Thread dumps
tell the last; JVMs say how much CPU they used; and the subtasks that want a core at a time get no more than others
leave. Those of one vertex want it together, as buffers are flushed together; those of several, by chance.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from streamtwin.connect.importers.flink_job import FlinkJob, TaskManagers, Vertex

APART = 1.3
"""Busy times that say so many times the CPU that was used contradict it: the rest was waiting."""
TOLD = 0.1
"""A vertex that is asleep for a larger share of its busy time is named."""


Wanted = tuple[int, float]
"""How many subtasks of a vertex, and for which share of the time they want a core."""


@dataclass(frozen=True, slots=True)
class HostUse:
    """share: of the time for which subtasks want a core, that in which they have one. others: cores that other
    processes use. asleep: subtasks that need none while they are busy. cpu: share of the other cores that was used,
    where that says something of the records."""

    share: float = 1.0
    others: float = 0.0
    asleep: float = 0.0
    cpu: float | None = None


def uses_of(
    job: FlinkJob, places: Mapping[str, Sequence[str]], names: Mapping[str, str], notes: list[str]
) -> dict[str, HostUse]:
    """By host. places, names: of the subtasks of each vertex, and its own."""
    wanted: dict[str, list[Wanted]] = defaultdict(list)
    asleep: dict[str, float] = defaultdict(float)
    for vertex in job.vertices:
        for host, count in Counter(places[vertex.id]).items():
            wanted[host].append((count, min(1.0, vertex.busy or 0.0) * (1.0 - vertex.asleep)))
            asleep[host] += count * vertex.asleep if vertex.asleep > TOLD else 0.0
        if vertex.asleep > TOLD:
            notes.append(
                f"{names[vertex.id]}: it sleeps or waits for answers for {vertex.asleep:.0%} of its busy time; its "
                "service time holds that, and as it takes no core, its hosts count as many cores more; for each "
                "subtask that you add to it, give its host another one (cpu_percent)"
            )
    return {each.name: _use(each, wanted[each.name], asleep[each.name], notes) for each in job.machines}


def busy_of(vertex: Vertex, places: Sequence[str], uses: Mapping[str, HostUse]) -> float | None:
    """The sum of its subtasks' busy times without waits for a core, a second; None where they were not measured."""
    if vertex.busy is None:
        return None
    return sum(vertex.busy * (vertex.asleep + (1.0 - vertex.asleep) * uses[host].share) for host in places)


def _use(machine: TaskManagers, wanted: Sequence[Wanted], asleep: float, notes: list[str]) -> HostUse:
    demand, cores, used = sum(count * share for count, share in wanted), machine.cores, machine.cpu
    if used is None and demand <= cores:
        return HostUse(asleep=asleep)
    says, left, alone = f"{machine.name}: its subtasks are busy for {demand:.2f} cores", cores, in_use(wanted, cores)
    if used is None:
        notes.append(
            f"{says} of {cores:g}, so they wait for cores: costs are CPU, {alone / demand:.0%} of the busy times; if "
            "they sleep or wait for answers instead, import the running job, whose threads tell"
        )
    elif alone > APART * used:
        left = cores_left(wanted, used)
        notes.append(
            f"{says}, {demand / used:.1f} times the {used:.2f} that its JVMs used, so they wait for cores: costs are "
            f"CPU, and others use {cores - left:.2f} of {cores:g} cores (others_percent)"
        )
    share = in_use(wanted, left) / demand if demand > 0 else 1.0
    known = used is not None and used <= APART * demand and not asleep  # else it is not the records' alone
    return HostUse(share, cores - left, asleep, min(1.0, used / left) if known and used is not None else None)


def in_use(wanted: Sequence[Wanted], cores: float) -> float:
    """The mean of how many of these cores are in use."""
    return float(sum(min(1.0, cores - k) * more for k, more in enumerate(_more(wanted)) if k < cores))


def cores_left(wanted: Sequence[Wanted], used: float) -> float:
    """How many cores there are if so many are in use; at least a thousandth."""
    below, more_k = 0.0, _more(wanted)
    for k, more in enumerate(more_k):
        if below + more >= used:
            return max(1e-3, k + (used - below) / more)
        below += more
    return float(len(more_k))


def _more(wanted: Sequence[Wanted]) -> list[float]:
    """The chance that more than k = 0, 1, ... cores are wanted at a time."""
    chance = np.ones(1)
    for count, share in wanted:
        chance = np.convolve(chance, [1.0 - share, *[0.0] * (count - 1), share])
    return [float(each) for each in chance[::-1].cumsum()[::-1][1:]]
