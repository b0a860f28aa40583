"""Pictures of a query on its hosts, coloured by the results of a run."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from figures.job_map import Box, Dot, JobMap, Lane, Sketch, Wire
from streamtwin.tables.tables import number, seconds
from twin.chaining import fused, written
from twin.deployment import Deployment
from twin.plan import Location
from twin.query import Query, Stream
from twin.run import Run, SubtaskTotals

# groups --------------------------------------------------------------------------------------------------------------
# Groups of operators and hosts that are drawn as one where there are many; and streams with backpressure.


FULL = 0.9
"""Busy share of the time from which on an operator holds its producers up."""
HELD = 0.05
"""Backpressured share of the time from which on an operator counts as held up."""


class OperatorLoad(NamedTuple):
    """Load of an operator: shares of the time of its subtasks, and the rate of records that it emits."""

    busy: float
    blocked: float
    rate_out_per_s: float

    @property
    def presses(self) -> bool:
        """Whether the operator is full, or held up itself."""
        return self.busy >= FULL or self.blocked >= HELD


def loads(run: Run | None) -> dict[str, OperatorLoad]:
    """Load of each operator; empty without a run. Time in which all of a job stands still does not count as blocked."""
    totals = run.operators if run is not None else ()
    still = min((each.backpressured for each in totals), default=0.0)
    return {each.operator: OperatorLoad(each.busy, each.backpressured - still, each.rate_out_per_s) for each in totals}


def held_up(query: Query, known: Mapping[str, OperatorLoad]) -> set[tuple[str, str]]:
    """Streams (producer, consumer) that hold their producer up: those into consumers that press.

    Where none of its consumers presses, the network in between does, and all of its streams count.
    """
    found = set()
    pressing: dict[str, list[str]] = {}
    consumers: dict[str, list[str]] = {}
    for stream in query.streams:
        consumers.setdefault(stream.producer, []).append(stream.consumer)
        if stream.consumer in known and known[stream.consumer].presses:
            pressing.setdefault(stream.producer, []).append(stream.consumer)
    for name, load in known.items():
        if load.blocked >= HELD:
            found |= {(name, each) for each in pressing.get(name) or consumers.get(name, [])}
    return found


MOST_OPERATORS = 60
MOST_LANES = 12
MOST_BOXES = 120
MOST_COLUMNS = 12


class LaneGroup(NamedTuple):
    """Operators that are one box in each lane. column: by distance from the sources."""

    name: str
    column: int


class Groups(NamedTuple):
    """Groups of a drawing. of: group by operator. heads: by operator, the first operator of its chain, or itself: a
    chain is one task. lanes: lane by place. told: words on what is drawn together; empty if nothing is."""

    of: Mapping[str, LaneGroup]
    heads: Mapping[str, str]
    lanes: Mapping[Location, str]
    told: str


def groups(job: Deployment) -> Groups:
    """Groups of a job under its own plan."""
    places = {name: set(job.plan.locations(name)) for name in job.plan.placement}
    lanes, lanes_told = _group_lanes(job, {place for used in places.values() for place in used})
    boxes = sum(len({lanes[place] for place in used}) for used in places.values())
    chains = fused(job.query, job.plan, job.engine)
    heads = {name: name for name in places} | {name: chain[0] for chain in chains for name in chain}
    columns = depths(job, heads)
    if len(columns) <= MOST_OPERATORS and boxes <= MOST_BOXES and max(columns.values()) < MOST_COLUMNS * 2:
        names = {chain[0]: written(job.query, chain) for chain in chains}
        of = {name: LaneGroup(names.get(heads[name], name), column) for name, column in columns.items()}
        return Groups(of, heads, lanes, lanes_told)
    together = by_kind(job, columns)
    kinds = f"{len(columns):,} operators are drawn together by kind and by their distance from the sources"
    return Groups(together, heads, lanes, "; ".join(filter(None, (kinds, lanes_told))))


def depths(job: Deployment, heads: Mapping[str, str]) -> dict[str, int]:
    """Number of streams on the longest path from a source to each operator, without those within chains."""
    found: dict[str, int] = {}
    for operator in job.query.topological:
        above = job.query.upstream[operator.name]
        head = heads.get(operator.name, operator.name)
        inside = head != operator.name
        found[operator.name] = found[head] if inside else 1 + max((found[name] for name in above), default=-1)
    return found


def by_kind(job: Deployment, columns: Mapping[str, int]) -> dict[str, LaneGroup]:
    """Groups of operators of one kind at about the same distance from the sources."""
    step = -(-(1 + max(columns.values())) // MOST_COLUMNS)
    parts = {name: (column // step, job.query.operator(name).kind) for name, column in columns.items()}
    sizes = Counter(parts.values())
    return {name: LaneGroup(f"{sizes[part]:,} x {part[1]}", part[0]) for name, part in parts.items()}


def _group_lanes(job: Deployment, used: set[Location]) -> tuple[dict[Location, str], str]:
    """Lane of each place (its socket; if too many, its host, its tier, or one for all), and words on lanes together."""
    if len(used) <= MOST_LANES:
        several = {place.host for place in used if place.socket}
        return {each: f"{each.host}/{each.socket}" if each.host in several else each.host for each in used}, ""
    hosts = {place.host for place in used}
    if len(hosts) <= MOST_LANES:
        return {place: place.host for place in used}, "sockets are drawn together by host"
    tiers = {host.name: host.tier or "other" for host in job.cluster.hosts if host.name in hosts}
    sizes = Counter(tiers.values())
    names = {tier: f"{size:,} {tier} hosts" if len(sizes) > 1 else f"{size:,} hosts" for tier, size in sizes.items()}
    return {place: names[tiers[place.host]] for place in used}, f"{len(hosts):,} hosts are drawn together"


# pictures ------------------------------------------------------------------------------------------------------------


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


def sketched(job: Deployment, run: Run | None = None) -> Sketch:
    """Small picture of a job's query, without hosts. Dots have the colour of the operator's busiest subtask; without a
    run, none."""
    columns, totals = depths(job, {}), run.operators if run else ()
    known = {each.operator: max([each.busy, *(one.busy for one in each.subtasks)]) for each in totals}
    order = {name: number for number, name in enumerate(sorted(columns, key=lambda name: columns[name]))}
    dots = [Dot(columns[name], known.get(name)) for name in order]
    streams = [(order[each.producer], order[each.consumer]) for each in job.query.streams]
    return Sketch(f"{getattr(job, 'name', 'the query')}, {len(dots)} operators", dots, streams)


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
        """Lane of each subtask, by operator."""
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
    """Wires of the streams between boxes, as thick as their rates of records, where these are known."""
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
    rate = f": about {number(rate_per_s)} records/s here" if known else ""
    return f"{what}{rate}{'; backpressure goes along it' if alarm else ''}"


def _shares(seen: _Seen, stream: Stream) -> dict[tuple[str, str], float]:
    """Approximate share of a stream between each pair of lanes, from the lanes of subtasks."""
    starts, ends = seen.placed[stream.producer], seen.placed[stream.consumer]
    how = seen.job.query.partitioning(stream)
    if how.pointwise:
        between: dict[tuple[str, str], float] = {}
        for p, c, share in how.pairs(len(starts), len(ends)):
            pair = (starts[p], ends[c])
            between[pair] = between.get(pair, 0.0) + share / len(starts)
        return between
    froms, tos, copies = Counter(starts), Counter(ends), how.count_of_copies(len(ends))
    apart = {(a, b): froms[a] / len(starts) * tos[b] * copies / len(ends) for a in froms for b in tos}
    if not how.near:
        return apart
    return {
        (a, b): froms[a] / len(starts) if a == b else share for (a, b), share in apart.items() if a == b or a not in tos
    }
