"""Splits busy times of a Flink job into CPU and waiting for a core, by host.

A subtask is busy while it computes, while it waits for a core, and while it sleeps or waits for an answer. Thread
dumps tell the last; JVMs tell the CPU that they used. One point does not tell the CPU that they use without records.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from scenarios.calibration.structures import APART, Wanted, in_use, waited
from streamtwin.connect.importers.flink_job import FlinkJob, TaskManagers, Vertex

TOLD = 0.1
"""Share of its busy time beyond which a vertex that is asleep is named in a note."""


@dataclass(frozen=True, slots=True)
class HostUse:
    """Use of a host. share: of the time for which subtasks want a core, in which they have one. others: cores that
    other processes use. asleep: mean number of subtasks that are busy without needing a core. cpu: share of the cores
    left by others that was used; None if busy times cannot tell the part of it that records used."""

    share: float = 1.0
    others: float = 0.0
    asleep: float = 0.0
    cpu: float | None = None


def uses_of(
    job: FlinkJob, places: Mapping[str, Sequence[str]], names: Mapping[str, str], notes: list[str]
) -> dict[str, HostUse]:
    """Use of each host, by name. places: by vertex, the host of each of its subtasks. names: by vertex, its name in the
    twin. notes: get words for people."""
    wanted: dict[str, list[Wanted]] = defaultdict(list)
    asleep: dict[str, float] = defaultdict(float)
    unread = {host for vertex in job.vertices if vertex.busy is None for host in places[vertex.id]}
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
    uses = {
        each.name: _use(each, wanted[each.name], asleep[each.name], each.name in unread, notes) for each in job.machines
    }
    if any(use.cpu is not None for use in uses.values()):
        notes.append(
            "what task managers use without records (garbage collection, heartbeats) counts as costs, as one point "
            "cannot tell it; a second one in --points, at half or twice the rate, tells twin calibrate"
        )
    return uses


def busy_of(vertex: Vertex, places: Sequence[str], uses: Mapping[str, HostUse]) -> float | None:
    """Sum of the subtasks' busy shares of time without waiting for a core; None if they were not measured."""
    if vertex.busy is None:
        return None
    return sum(vertex.busy * (vertex.asleep + (1.0 - vertex.asleep) * uses[host].share) for host in places)


def _use(machine: TaskManagers, wanted: Sequence[Wanted], asleep: float, unread: bool, notes: list[str]) -> HostUse:
    demand, cores, used = sum(count * share for count, share in wanted), machine.cores, machine.cpu
    if used is None and demand <= cores:
        return HostUse(asleep=asleep)
    says, left = f"{machine.name}: its subtasks are busy for {demand:.2f} cores", cores
    if used is None:
        notes.append(
            f"{says} of {cores:g}, so they wait for cores: costs are CPU, {in_use(wanted, cores) / demand:.0%} of the "
            "busy times; if they sleep or wait for answers instead, import the running job, whose threads tell"
        )
    elif (found := waited(wanted, cores, used)) is not None:
        left = found
        notes.append(
            f"{says}, {demand / used:.1f} times the {used:.2f} that its JVMs used, so they wait for cores: costs are "
            f"CPU, and others use {cores - left:.2f} of {cores:g} cores (others_percent)"
        )
    share = in_use(wanted, left) / demand if demand > 0 else 1.0
    if used is None or asleep or (unread and used > APART * demand):  # the part that records used is unknown
        return HostUse(share, cores - left, asleep)
    return HostUse(share, cores - left, asleep, min(1.0, used / left))
