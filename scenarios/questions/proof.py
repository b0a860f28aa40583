"""Exact runs that prove a predicted limit: the border of each repetition, what all together say, and what binds there.

Each repetition has its own random numbers and its own border. Within a repetition all values are tried on the same
random numbers (common random numbers), so that its border is sharp. The mean of the borders has an interval by
Student's t. Where the rate model ignores something, values far from the borders are tried as well, to check that there
is only one border.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple

import numpy as np

from scenarios.files.documents import Number, Share
from scenarios.questions.bisection import Border, Range, search, spot_checks
from scenarios.questions.intervals import of_mean
from scenarios.questions.prober import Prober
from scenarios.questions.resources import Resource, binding, resources
from twin.errors import BadInput
from twin.randomness import child_seed
from twin.steadiness import steady

FIRST, MOST = 3, 10
"""First and largest number of repetitions if it is not given; limits in whole numbers always take the largest."""
RUNS = 2.3
"""Mean number of runs for a border that is sought beside another one: two, or more where chance moves it."""
PROBED = 0.7
"""The first run is at this share of the predicted limit, where no resource is full; the most used shows the limit."""
CHECKED = 3
"""Number of longer runs that check the limit."""
CONFIDENCE = 0.95
LONGER = 4
"""Longer runs last so many times as long."""

Status = Literal["found", "always", "never", "sometimes", "predicted"]
Whole = int | float
"""Numbers of replicas and hosts stay whole numbers in documents."""


@dataclass(frozen=True, slots=True)
class ResourceAtLimit:
    """How full a resource is just before the limit (used), and just beyond it (used_beyond).

    kind: operator, calls, CPU, memory, network card or link. used: the share in use; for an operator, the busy share of
    its busiest subtask. even: the mean over all of its subtasks. head_room: how many times as much load it bears.
    """

    kind: str
    name: str
    used: Share
    even: Share
    head_room: Number
    used_beyond: Number


class Limit(NamedTuple):
    """The result of all repetitions' borders together; see `CapacityAnswer`."""

    value: Whole
    interval95: tuple[Whole, Whole]
    holds_in_all: Whole
    borders: tuple[Whole, ...]
    share_that_holds95: float | None = None


def borders_of(prober: Prober, within: Range, predicted: float | None, replications: int | None) -> list[Border]:
    """The border of each repetition. The first is sought around the predicted limit, the others beside the first."""
    count = replications or (MOST if within.whole else FIRST)
    most = MOST if replications is None else count
    start = within if predicted is None else within.near(_probed(prober, within, predicted, (count, most)))
    borders = search(prober.ask, [0], start, prober.aim)
    beside = start
    good, bad = borders[0].good, borders[0].bad
    if good is not None and bad is not None and min(good, bad) > 0.0:
        beside = replace(start, start=good, step=max(good, bad) / min(good, bad) - 1.0, jumps=False)
    while len(borders) < count:
        borders += search(prober.ask, range(len(borders), count), beside, prober.aim)
        if replications is None and not within.whole and all(border.found for border in borders):
            count = min(MOST, _needed(borders, within))
    return borders


def _probed(prober: Prober, within: Range, predicted: float, counts: tuple[int, int]) -> float:
    """The value to begin with, by a first run somewhat below the predicted limit. Announces the cost of the proof.

    counts: the least and the largest number of repetitions.
    """
    at = max(within.low, PROBED * predicted) if prober.about_rates else predicted
    if prober.outcomes([(0, at)])[0] is None:
        return predicted
    aim = prober.aim(0, at)
    start = predicted if aim is None else min(within.high, aim * (1 - within.tolerance / 2))
    case = prober.at(start)
    if case is not None:
        (least, most), one_s = (RUNS * count for count in counts), prober.bench.effort_s(case)
        more = f", or up to {most * one_s:.2g} if the repetitions differ much" if most > least else ""
        prober.audience.stage(
            f"the proof takes about {least * one_s:.2g} CPU seconds{more}: {least:.0f} runs of {case.run.horizon_s:g} s"
        )
    return start


def _needed(borders: Sequence[Border], within: Range) -> int:
    """The number of repetitions that makes the mean of the borders as precise as each border is."""
    known = of_mean(np.array([border.middle(within.whole) for border in borders]), "")
    wanted = within.tolerance * abs(known.mean)
    share = (known.chance or 0.0) / wanted if wanted else 0.0
    return len(borders) if share <= 1.0 else max(len(borders) + 1, math.ceil(len(borders) * share**2))


def warnings_inside(prober: Prober, borders: Sequence[Border]) -> tuple[str, ...]:
    """The warnings of the runs just inside the borders; those that differ in numbers alone are named once."""
    inside = [(index, border.good) for index, border in enumerate(borders) if border.good is not None]
    made = [outcome for outcome in prober.outcomes(inside) if outcome is not None]
    alike = {re.sub(r"\d", "", warning): warning for outcome in made for warning in reversed(outcome.warnings)}
    return tuple(reversed(alike.values()))


def status_of(borders: Sequence[Border]) -> Status:
    """Whether all repetitions found a border; if not, whether it always, never or only sometimes holds."""
    if all(border.found for border in borders):
        return "found"
    if all(border.bad is None for border in borders):
        return "always"
    if all(border.good is None for border in borders):
        return "never"
    return "sometimes"


def limit_of(borders: Sequence[Border], within: Range) -> Limit:
    """The value with its interval, and up to which value (for a minimum: from which on) it held in every repetition."""
    middles = np.array([border.middle(within.whole) for border in borders])
    goods = [border.good for border in borders if border.good is not None]
    safe = min(goods) if within.upward else max(goods)
    if within.whole:
        # with 95 % confidence it holds in at least this share of all runs (Clopper and Pearson, where it held in all n)
        share = (1 - CONFIDENCE) ** (1 / len(borders))
        interval = (int(min(middles)), int(max(middles)))
        return Limit(int(safe), interval, int(safe), tuple(int(middle) for middle in middles), share)
    known = of_mean(middles, "")
    widest = max(
        abs(border.good - border.bad) / 2 for border in borders if border.good is not None and border.bad is not None
    )
    half = (known.chance or 0.0) + widest
    return Limit(known.mean, (known.mean - half, known.mean + half), safe, tuple(middles.tolist()))


def check_far_values(prober: Prober, borders: Sequence[Border], within: Range) -> None:
    """Tries values far from the border (without one, from the start) in the first repetition, and notes the results."""
    asked = [
        (index, value)
        for index, border in enumerate(borders[:1])
        for value in spot_checks(within, border.middle(within.whole) if border.found else within.start)
        if value not in border.seen and prober.at(value) is not None
    ]
    prober.audience.stage(f"checking that there is one limit: {len(asked)} runs far from it")
    for (index, value), outcome in zip(asked, prober.outcomes(asked), strict=True):
        assert outcome is not None
        borders[index].seen[value] = prober.condition.holds(outcome.measures)


def longer_runs_failing(prober: Prober, limit: Limit, within: Range) -> int | None:
    """In how many runs of four times the length the condition fails, a little on the good side of the limit.

    A backlog that grows slowly fills the channels before it shows. A job whose load and plan stay as they are should
    bear in long runs what it bears in short ones. None if they do not stay so, or if the runs would take too long.
    """
    value = limit.value
    if not within.whole:  # with few runs the interval is wide, and the value that held in all of them may be nearer
        low, high = limit.interval95
        nearest = max(low, limit.holds_in_all) if within.upward else min(high, limit.holds_in_all)
        value = nearest * (1 - within.tolerance * (1 if within.upward else -1))
    scenario = prober.at(float(value))
    if scenario is None or not steady(scenario, scenario.events, scenario.policy is not None):
        return None
    longer = scenario.with_run(horizon_s=LONGER * scenario.run.horizon_s)
    try:
        prober.bench.check(longer)
    except BadInput:
        return None
    made = prober.bench.outcomes([(longer, child_seed(prober.seed, index)) for index in range(CHECKED)])
    return sum(not prober.condition.holds(outcome.measures) for outcome in made)


class Reason(NamedTuple):
    """Why the limit is where it is; see `CapacityAnswer`."""

    fails_first: Mapping[str, int]
    not_valid: str | None
    binds: str
    resources: tuple[ResourceAtLimit, ...]


def reason_of(prober: Prober, borders: Sequence[Border], known: bool) -> Reason:
    """Which terms of the condition fail beyond the border, and how full everything is on both sides.

    known: whether there is a border; without one, nothing can bind at it.
    """
    good = [(index, border.good) for index, border in enumerate(borders) if border.good is not None]
    bad = [(index, border.bad) for index, border in enumerate(borders) if border.bad is not None]
    fails: dict[str, int] = {}
    for outcome in prober.outcomes(bad):
        for text in prober.condition.failing(outcome.measures) if outcome is not None else ():
            fails[text] = fails.get(text, 0) + 1
    before, beyond = _used(prober, good), _used(prober, bad)
    used_beyond = {(resource.kind, resource.name): resource.used for resource in beyond}
    last = next((case for _, value in bad or good if (case := prober.at(value)) is not None), prober.scenario)
    return Reason(
        fails_first=dict(sorted(fails.items(), key=lambda item: -item[1])),
        not_valid=next((prober.refused[value] for _, value in bad if value in prober.refused), None),
        binds=binding(beyond or before, last) if known else "",
        resources=tuple(
            ResourceAtLimit(*resource, resource.head_room, used_beyond.get((resource.kind, resource.name)))
            for resource in (before or beyond if known else ())
        ),
    )


def _used(prober: Prober, asked: Sequence[tuple[int, float]]) -> list[Resource]:
    outcomes = [outcome for outcome in prober.outcomes(asked) if outcome is not None]
    cases = [case for _, value in asked if (case := prober.at(value)) is not None]
    return resources(cases[0], outcomes) if cases and outcomes else []
