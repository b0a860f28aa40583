"""Groups of operators and hosts that are drawn as one where there are many; and streams with backpressure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import NamedTuple

from twin.chaining import fused
from twin.deployment import Deployment
from twin.plan import Location
from twin.query import Query
from twin.run import Run

FULL = 0.9
"""Busy share of the time from which on an operator holds its producers up."""
HELD = 0.05
"""Backpressured share of the time from which on an operator counts as held up."""


class OperatorLoad(NamedTuple):
    """Load of an operator: shares of the time of its replicas, and the rate of tuples that it emits."""

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
    lanes, lanes_told = _lanes(job, {place for used in places.values() for place in used})
    boxes = sum(len({lanes[place] for place in used}) for used in places.values())
    chains = fused(job.query, job.plan, job.engine)
    heads = {name: name for name in places} | {name: chain[0] for chain in chains for name in chain}
    columns = depths(job, heads)
    if len(columns) <= MOST_OPERATORS and boxes <= MOST_BOXES and max(columns.values()) < MOST_COLUMNS * 2:
        names = {chain[0]: " -> ".join(chain) for chain in chains}
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


def _lanes(job: Deployment, used: set[Location]) -> tuple[dict[Location, str], str]:
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
