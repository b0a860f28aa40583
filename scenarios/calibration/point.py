"""Operating points: measured runs of known jobs, and checks for impossible readings."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from twin.errors import BadInput, suggest
from twin.overrides import put
from twin.scenario import Scenario, config_hash

KEEPS_UP = 0.95
"""Share of its offer from which on a source keeps up: tuples come in bursts, and readings are uneven."""
ABOVE_ALL = 1.1
"""Largest possible reading of a share of time or of a host's cores; a delivered share above it is catching up."""
HELD = 0.05
"""Share of its time beyond which a backpressured source counts as held back: it takes all that it can."""
UNKNOWN = 2.0
"""Assumed ratio of an unknown offer to what the source takes: any factor above 1 makes the latter its limit."""
BELOW_NOTHING = -0.05
"""Least possible reading of a share: counters of engines have errors of this size around 0."""
TWICE = 2.0
"""Factor between two readings at the same settings beyond which they contradict each other."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """Operating point: measurements of one run; what was not measured is absent.

    scenario: the job as it ran, with the offered rates as its arrivals. taken_per_s, emitted_per_s: tuples by operator,
    all replicas together; what a source takes is what it delivers. busy, backpressured: shares of time, means over
    an operator's replicas. markers_s: mean age of latency markers by operator. cpu: by host, share of its cores.
    latency_s: of the results, mean, from their ingestion. capped: why the offer of a source is unknown, by source; what
    it takes is the most that it can.
    """

    name: str
    scenario: Scenario
    machine: str = ""
    taken_per_s: Mapping[str, float] = field(default_factory=dict)
    emitted_per_s: Mapping[str, float] = field(default_factory=dict)
    busy: Mapping[str, float] = field(default_factory=dict)
    backpressured: Mapping[str, float] = field(default_factory=dict)
    markers_s: Mapping[str, float] = field(default_factory=dict)
    cpu: Mapping[str, float] = field(default_factory=dict)
    latency_s: float | None = None
    capped: Mapping[str, str] = field(default_factory=dict)

    def offered_per_s(self, source: str) -> float:
        """Mean rate at which tuples arrive at a source."""
        return self.scenario.workload.arrivals[source].mean_rate_per_s

    @property
    def delivered(self) -> dict[str, float]:
        """Share of its offer that each source takes, where it was measured; at most 1."""
        sources = (each.name for each in self.scenario.query.sources)
        return {
            name: min(1.0, self.taken_per_s[name] / self.offered_per_s(name))
            for name in sources
            if name in self.taken_per_s
        }

    @property
    def saturated(self) -> bool:
        """Whether a source takes less than it is offered, or all that it can."""
        return bool(self.capped) or any(share < KEEPS_UP for share in self.delivered.values())

    @property
    def readings(self) -> dict[str, float]:
        """All that was measured, by a name for people."""
        named = {
            "tuples/s into {}": self.taken_per_s,
            "tuples/s out of {}": self.emitted_per_s,
            "busy share of {}": self.busy,
            "backpressured share of {}": self.backpressured,
            "age of latency markers (s) at {}": self.markers_s,
            "cpu of host {}": self.cpu,
        }
        found = {text.format(name): value for text, each in named.items() for name, value in each.items()}
        return found if self.latency_s is None else {**found, "latency": self.latency_s}


def with_caps(point: Point) -> Point:
    """Point that marks sources as capped if they take all of their known offer, and are held back or catch up."""
    capped = {}
    for source in (each.name for each in point.scenario.query.sources):
        taken = point.taken_per_s.get(source, 0.0)
        if taken < point.offered_per_s(source):
            continue
        if point.backpressured.get(source, 0.0) > HELD:
            capped[source] = f"is backpressured for {point.backpressured[source]:.0%} of its time"
        elif taken > ABOVE_ALL * point.offered_per_s(source):
            capped[source] = f"took {taken / point.offered_per_s(source):.2g} times its offer, so it caught up"
    if not capped:
        return point
    scenario = point.scenario
    for source in capped:
        law = {"law": "constant", "rate_per_s": UNKNOWN * point.taken_per_s[source]}
        scenario = put(scenario, f"workload.arrivals.{source}", law, f"point {point.name}")
    return replace(point, scenario=scenario, capped=capped)


def check(points: Sequence[Point]) -> None:
    """Raises BadInput, naming point and reading, for readings that are impossible or contradict another point."""
    if not points:
        raise BadInput("there is no operating point; give at least two, a row an operator or host")
    for point in points:
        _check_names(point)
        for what, value in point.readings.items():
            _check_value(point, what, value)
    _check_repeats(points)
    _check_order(points)
    machines = {point.machine for point in points}
    if len(machines) > 1:
        found = ", ".join(sorted(machine or "(none)" for machine in machines))
        raise BadInput(f"the points are of several machines ({found}); a profile is of one, choose with --machine")


def _check_names(point: Point) -> None:
    operators = [each.name for each in point.scenario.query.operators]
    hosts = [each.name for each in point.scenario.cluster.hosts]
    for name in {*point.taken_per_s, *point.emitted_per_s, *point.busy, *point.backpressured, *point.markers_s}:
        if name not in operators:
            raise BadInput(f"point {point.name}: unknown operator {name!r}; {suggest(name, operators)}")
    for name in point.markers_s:
        if point.scenario.query.operator(name).is_source:
            raise BadInput(
                f"point {point.name}: latency markers begin at a source, so {name} has none; leave marker_s out"
            )
    for name in point.cpu:
        if name not in hosts:
            raise BadInput(f"point {point.name}: unknown host {name!r}; {suggest(name, hosts)}")


def _check_value(point: Point, what: str, value: float) -> None:
    share = "share" in what or what.startswith("cpu")
    if not math.isfinite(value):
        raise BadInput(f"point {point.name}: {what} is {value}; leave out what was not measured")
    if share and not BELOW_NOTHING <= value <= ABOVE_ALL:
        raise BadInput(
            f"point {point.name}: {what} is {value:g}, a share is from 0 to 1; divide by the replicas or cores"
        )
    if not share and value < 0:
        raise BadInput(f"point {point.name}: {what} is {value:g}; it cannot be negative")


def _check_repeats(points: Sequence[Point]) -> None:
    """Raises BadInput if readings of two points with the same settings differ by more than a factor TWICE."""
    first: dict[str, Point] = {}
    for point in points:
        other = first.setdefault(config_hash(point.scenario), point)
        for what, value in point.readings.items():
            before = other.readings.get(what, value)
            if max(value, before) > TWICE * max(min(value, before), 0.05 if "share" in what or "cpu" in what else 1e-3):
                raise BadInput(
                    f"points {other.name} and {point.name} contradict each other: at the same settings, {what} is "
                    f"{before:g} and {value:g}; remove one"
                )


def _check_order(points: Sequence[Point]) -> None:
    """Raises BadInput if a job keeps up at a rate but not at a lower one, and nothing else differs."""
    groups: dict[str, list[Point]] = {}
    for point in points:
        if point.delivered:
            groups.setdefault(_but_for_rates(point), []).append(point)
    for group in groups.values():
        slow = [each for each in group if min(each.delivered.values()) < KEEPS_UP - 0.05]
        fast = [each for each in group if min(each.delivered.values()) >= KEEPS_UP]
        for behind in slow:
            for ahead in fast:
                if all(ahead.offered_per_s(name) > 1.1 * behind.offered_per_s(name) for name in behind.delivered):
                    raise BadInput(
                        f"points {behind.name} and {ahead.name} contradict each other: the first falls behind and the "
                        "second keeps up with more; remove one"
                    )


def _but_for_rates(point: Point) -> str:
    scenario = point.scenario
    parts = (scenario.query, scenario.cluster, scenario.plan)
    return "|".join(part.model_dump_json() for part in parts)


def one_job(points: Sequence[Point]) -> bool:
    """Whether all points are of the same query."""
    return all(point.scenario.query == points[0].scenario.query for point in points)
