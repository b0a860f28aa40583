"""Pictures of a query on its hosts, coloured by the results of a run."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from figures.job_map import Box, JobMap, Lane, Wire
from streamtwin.tables.job_groups import Groups, LaneGroup, OperatorLoad, groups, held_up, loads
from streamtwin.tables.tables import number, seconds
from twin.deployment import Deployment
from twin.plan import Location
from twin.query import Stream
from twin.run import Run, SubtaskTotals

Spot = tuple[LaneGroup, str]
"""Place of a box: operators that are drawn as one, and a lane."""
FREE = "not used"
MOST_FREE = 8
Waiting = Mapping[tuple[str, str], float]


class Drawn(NamedTuple):
    """Picture for `figures.job_map.job_map`. told: words on what is drawn together; empty if nothing is."""

    picture: JobMap
    told: str


def drawn(job: Deployment, run: Run | None = None, waiting: Waiting | None = None, free_apart: bool = False) -> Drawn:
    """Picture of a job under its own plan. Without a run, nothing is coloured.

    waiting: by operator and host, the records that wait as shares of the most. free_apart: whether unused hosts have
    lanes of their own, so that operators can be moved there.
    """
    grouped, here = groups(job), defaultdict[tuple[str, str], list[SubtaskTotals]](list)
    for totals in run.operators if run else ():
        for subtask in totals.subtasks:
            here[totals.operator, grouped.lanes.get(Location(subtask.host, subtask.socket), "")].append(subtask)
    cpu = {each.host: each.cpu for each in run.hosts} if run else {}
    seen = _Seen(job, grouped, loads(run), here, cpu, waiting)
    gone = _lost(run) if run else {}
    lanes = [
        lane._replace(down=True, note=f"{lane.note}, lost at {seconds(gone[lane.name])}") if lane.name in gone else lane
        for lane in _lanes(seen, free_apart)
    ]
    order = {lane.name: index for index, lane in enumerate(lanes)}
    boxes = [_box(seen, spot, names, order[spot[1]]) for spot, names in seen.spots.items()]
    title = f"{getattr(job, 'name', 'the query')} on its hosts"
    return Drawn(JobMap(title, lanes, boxes, _wires(seen)), seen.grouped.told)


def _lost(run: Run) -> dict[str, float]:
    """Times (s) at which hosts were lost that never came back, by name."""
    failures = (row for row in run.event_rows if row["kind"] == "failure")
    return {row["component"]: row["at_s"] for row in failures if row["end_s"] is None or "moved" in row["detail"]}


@dataclass(frozen=True)
class _Seen:
    """Data of a picture. loads: by operator; subtasks: by operator and lane; cpu: by host; empty without a run."""

    job: Deployment
    grouped: Groups
    loads: Mapping[str, OperatorLoad]
    subtasks: Mapping[tuple[str, str], Sequence[SubtaskTotals]]
    cpu: Mapping[str, float]
    waiting: Waiting | None = None

    @cached_property
    def placed(self) -> dict[str, list[str]]:
        """Lane of each replica, by operator."""
        lanes = self.grouped.lanes
        return {name: [lanes[place] for place in self.job.plan.locations(name)] for name in self.grouped.of}

    @cached_property
    def spots(self) -> dict[Spot, list[str]]:
        """Operators of each box, in data-flow order."""
        found: dict[Spot, list[str]] = {}
        for name, group in self.grouped.of.items():
            for lane in dict.fromkeys(self.placed[name]):
                found.setdefault((group, lane), []).append(name)
        return found


def _lanes(seen: _Seen, free_apart: bool) -> Iterator[Lane]:
    """Lanes in the order of hosts. Hosts without operators are together at the end; few of them may have lanes of their
    own instead, so that operators can be moved there."""
    listed = {host.name: index for index, host in enumerate(seen.job.cluster.hosts)}
    hosts: dict[str, list[str]] = {}
    for place in sorted(seen.grouped.lanes, key=lambda each: (listed[each.host], each.socket)):
        hosts.setdefault(seen.grouped.lanes[place], []).append(place.host)
    used = {name for inside in hosts.values() for name in inside}
    free = [name for name in listed if name not in used]
    apart = free if free_apart and len(free) <= MOST_FREE else []
    hosts |= {name: [name] for name in apart}
    for name, inside in sorted(hosts.items(), key=lambda each: listed[each[1][0]]):
        lane = _lane(seen, name, list(dict.fromkeys(inside)))
        yield lane._replace(note=f"{lane.note}, {FREE}") if name in apart and not lane.used else lane
    if free and not apart:
        yield Lane(FREE, ", ".join(free) if len(free) <= MOST_FREE else f"{len(free):,} hosts")


def _lane(seen: _Seen, name: str, hosts: Sequence[str]) -> Lane:
    """Lane of a host, described in words; of several hosts, with the utilisation of the fullest."""
    used = max((seen.cpu[each] for each in hosts if each in seen.cpu), default=None)
    if len(hosts) > 1:
        return Lane(name, "" if used is None else f"the fullest has {used:.0%} of its CPU in use", used)
    host = seen.job.cluster.host(hosts[0])
    cores = f"{host.left_percent / 100:g} core{'s' * (host.left_percent != 100)}"
    return Lane(name, ", ".join(filter(None, (host.tier, cores, "" if used is None else f"CPU {used:.0%}"))), used)


def _box(seen: _Seen, spot: Spot, names: Sequence[str], lane: int) -> Box:
    """Box of one or several operators, with the share of the busiest subtask and of the most backpressured."""
    group, where = spot
    tasks = [name for name in names if seen.grouped.heads[name] == name] or names
    here = sum(seen.placed[name].count(where) for name in tasks)
    everywhere = sum(len(seen.placed[name]) for name in tasks)
    known = [seen.loads[name] for name in names if name in seen.loads]
    mean = max((each.busy for each in known), default=None)
    blocked = max((each.blocked for each in known), default=None)
    hot = max(
        ((subtask.busy, subtask.subtask) for name in tasks for subtask in seen.subtasks.get((name, where), ())),
        default=None,
    )
    busy = mean if hot is None else hot[0]
    uneven = busy is not None and f"{busy:.0%}" != f"{mean:.0%}"
    kind = seen.job.query.operator(names[0]).kind if len(names) == 1 else "chain" if len(tasks) == 1 else ""
    told = f"{group.name} on {where}: {here:,} of {everywhere:,} subtasks"
    if busy is not None and blocked is not None:
        several = " (the most of any)" if len(tasks) > 1 else ""
        told += f"; busy {mean:.1%} on average, backpressured {blocked:.1%}{several}"
        told += f"; the busiest here is subtask {hot[1]}, {busy:.1%}" if uneven and hot is not None else ""
    count = f"x {here:,}" if here > len(tasks) else ""
    share = "" if busy is None else f"{'max ' * uneven}{busy:.0%}"
    queue = None if seen.waiting is None else max(seen.waiting.get((name, where), 0.0) for name in names)
    figures = " ".join(filter(None, (count, share)))
    return Box(lane, group.column, group.name, kind, busy, blocked, told, figures, queue, names)


def _wires(seen: _Seen) -> list[Wire]:
    """Wires of the streams between boxes, as thick as their rates of tuples, where these are known."""
    numbers = {spot: index for index, spot in enumerate(seen.spots)}
    slow = held_up(seen.job.query, seen.loads)
    rates: Counter[tuple[int, int]] = Counter()
    streams: dict[tuple[int, int], list[Stream]] = {}
    for stream in seen.job.query.streams_by_name:
        start, end = seen.grouped.of[stream.producer], seen.grouped.of[stream.consumer]
        rate = seen.loads[stream.producer].rate_out_per_s if stream.producer in seen.loads else 0.0
        rate *= seen.job.query.operator(stream.producer).share_to(stream.consumer)
        for (a, b), share in _shares(seen, stream).items():
            wire = numbers[start, a], numbers[end, b]
            if wire[0] != wire[1]:
                rates[wire] += rate * share  # type: ignore[assignment]
                streams.setdefault(wire, []).append(stream)
    most = max(rates.values(), default=0) or 1.0
    return [
        Wire(*wire, rates[wire] / most, alarm, _told(inside, rates[wire], alarm, bool(seen.loads)))
        for wire, inside in streams.items()
        for alarm in [any((each.producer, each.consumer) in slow for each in inside)]
    ]


def _told(streams: Sequence[Stream], rate_per_s: float, alarm: bool, known: bool) -> str:
    first = f"{streams[0].producer} to {streams[0].consumer}"
    what = first if len(streams) == 1 else f"{len(streams):,} streams, such as {first}"
    rate = f": about {number(rate_per_s)} tuples/s here" if known else ""
    return f"{what}{rate}{'; backpressure goes along it' if alarm else ''}"


def _shares(seen: _Seen, stream: Stream) -> dict[tuple[str, str], float]:
    """Approximate share of a stream between each pair of lanes, from the lanes of replicas."""
    starts, ends = seen.placed[stream.producer], seen.placed[stream.consumer]
    how = seen.job.query.partitioning(stream)
    if how.paired:
        pairs = Counter(zip(starts, ends, strict=False))
        return {pair: count / len(starts) for pair, count in pairs.items()}
    froms, tos, copies = Counter(starts), Counter(ends), how.count_of_copies(len(ends))
    apart = {(a, b): froms[a] / len(starts) * tos[b] * copies / len(ends) for a in froms for b in tos}
    if not how.near:
        return apart
    return {
        (a, b): froms[a] / len(starts) if a == b else share for (a, b), share in apart.items() if a == b or a not in tos
    }
