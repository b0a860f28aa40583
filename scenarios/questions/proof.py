"""Proves a predicted limit by exact runs: the border of each repetition, the limit by all, and what binds there.

Each repetition has its own random numbers and its own border. Within a repetition all values are tried on the same
random numbers (common random numbers), so that its border is sharp. The mean of the borders has an interval by
Student's t. If the rate model ignores any feature, values far from the borders are tried as well, to check that there
is only one border.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple

import numpy as np

from scenarios.files.documents import Number, Share
from scenarios.measures import of
from scenarios.questions.bench import of_mean, runs_for
from scenarios.questions.bisection import Border, Prober, Range, spot_checks
from scenarios.questions.kept import RunOutcome, said_once
from scenarios.questions.resources import Resource, binding, resources, without_spare
from twin.errors import TooMuch
from twin.quantities import written
from twin.randomness import child_seed
from twin.scenario import Scenario
from twin.steadiness import filling, unchanging

FIRST, MOST = 4, 10
"""First and largest number of repetitions if none is given; limits in whole numbers always take the largest."""
RUNS = 2.5
"""Mean number of runs for a border, on twelve jobs of the library: two, or more if the border varies by chance."""
CHECKED = 2
"""Number of longer runs that check the limit; a third decides if they disagree."""
CONFIDENCE = 0.95
BY_CHANCE = 1
"""Number of longer runs that may fail by chance; if more fail, the runs are too short."""
NEXT = 3
"""Number of whole numbers beyond a predicted limit that does not last at which longer runs look for one that does."""
LONGER = 4
"""Length of longer runs over that of the others."""

Status = Literal["found", "always", "never", "sometimes", "predicted"]
Whole = int | float
"""Number of a limit: numbers of subtasks and hosts stay whole numbers in documents."""


@dataclass(frozen=True, slots=True)
class ResourceAtLimit:
    """Utilisation of a resource just before the limit (used), and just beyond it (used_beyond).

    kind: operator, calls, CPU, memory, memory bandwidth, network card or link. used: the share in use; for an operator,
    the busy share of its busiest subtask. even: the mean over all of its subtasks. head_room: factor by which its load
    may grow.
    """

    kind: str
    name: str
    used: Share
    even: Share
    head_room: Number
    used_beyond: Number


class Limit(NamedTuple):
    """Limit by the borders of all repetitions, in fields of `CapacityAnswer`."""

    value: Whole
    interval95: tuple[Whole, Whole]
    holds_in_all: Whole
    borders: tuple[Whole, ...]
    share_that_holds95: float | None = None


class Checks(NamedTuple):
    """Checks that are made beside the search for borders: by longer runs, and by runs far from the borders."""

    longer: bool
    far: bool


def borders_of(
    prober: Prober, within: Range, likely: float | None, replications: int | None, checks: Checks
) -> list[Border]:
    """Searches the border of each repetition: the first around the likely limit, the others beside the first.

    likely: None if it is not known, as where the prediction ignores what may move it. Announces the time of the proof
    after the first run if it is known, else after the first repetition.
    """
    count = replications or (MOST if within.whole else FIRST)
    start = within if likely is None else within.near(just_inside(likely, within))
    if likely is not None and prober.allowed(start.start):
        prober.outcomes([(0, start.start)])
        _announce(prober, start, [start.start] * round(RUNS * count), checks)
    borders = prober.search([0], start)
    beside = start
    good, beyond, last = borders[0].good, borders[0].beyond, [*borders[0].seen][-1]
    if good is not None and beyond is not None and min(good, beyond) > 0.0:
        beside = replace(start, start=good, step=max(good, beyond) / min(good, beyond) - 1.0, jumps=False)
    if not borders[0].found:  # the last value decides: if the condition fails there, it does at those before
        low, high = (start.low, last) if last > start.start else (last, start.high)
        beside = replace(start, start=last, low=low, high=high)
    if likely is None:
        each, longer = RUNS if borders[0].found else 1, checks.longer and borders[0].good is not None
        _announce(prober, beside, [beside.start] * round(each * (count - 1)), checks._replace(longer=longer))
    while len(borders) < count:
        borders += prober.search(range(len(borders), count), beside)
        if replications is None and not within.whole and all(border.found for border in borders):
            middles = np.array([border.middle(within.whole) for border in borders])
            count = runs_for(middles, within.tolerance * abs(float(middles.mean())), MOST)
    return borders


def just_inside(likely: float, within: Range) -> float:
    """Value on the good side of a likely limit, half of a bracket away, so that the next one is as far beyond it."""
    aside = 0.0 if within.whole else within.tolerance / 2 * (-1 if within.upward else 1)
    return min(within.high, max(within.low, likely * (1 + aside)))


def _announce(prober: Prober, within: Range, values: Sequence[float], checks: Checks) -> None:
    """Announces the CPU time of the runs at `values` and the checks, rounded up, as the rest takes a little as well."""
    cases = [case for value in values if (case := prober.at(value)) is not None]
    if not cases:
        return
    parts = [f"{len(cases)} runs of {cases[0].run.horizon_s:g} s"]
    longer = _longer(prober, within.start) if checks.longer else None
    if longer is not None:
        parts.append(f"{CHECKED} of {longer.run.horizon_s:g} s")
        cases += [longer] * CHECKED
    if checks.far:
        far = [case for value in spot_checks(within, within.start) if (case := prober.at(value)) is not None]
        parts.append(f"{len(far)} far from the limit")
        cases += far
    cpu_s = prober.bench.took_s(cases)
    if cpu_s is None:  # all runs so far were known from another time
        prober.audience.stage(f"the proof: some {', '.join(parts)}")
        return
    seconds = "1 CPU second" if cpu_s <= 1.0 else f"{written(max(math.ceil(min(cpu_s, 10.0)), cpu_s), 2)} CPU seconds"
    prober.audience.stage(f"the proof takes about {seconds}: some {', '.join(parts)}")


def warnings_inside(prober: Prober, borders: Sequence[Border]) -> tuple[str, ...]:
    """Warnings of the runs just inside the borders, each once, with the values at which it came."""
    inside = [(index, border.good) for index, border in enumerate(borders) if border.good is not None]
    said = list[tuple[str, str]]()
    for (_, value), one in zip(inside, prober.outcomes(inside), strict=True):
        case = prober.case(value)
        changing = [] if _alike(case) else filling(without_spare(case, [one]))
        said += [(f"at {value:,.4g}", text) for text in (*one.warnings, *changing)]
    return tuple(said_once(said))


def _alike(scenario: Scenario) -> bool:
    """Whether longer runs should give the same answer; whether they do is predicted, or checked."""
    return unchanging(scenario, scenario.events, scenario.policy is not None)


def status_of(borders: Sequence[Border]) -> Status:
    """Status of a search: whether all repetitions found a border, or the condition always, never or sometimes holds."""
    if all(border.found for border in borders):
        return "found"
    if all(border.bad is None for border in borders):
        return "always"
    if all(border.good is None for border in borders):
        return "never"
    return "sometimes"


def limit_of(borders: Sequence[Border], within: Range) -> Limit:
    """Limit with its interval, and the value up to which (for a minimum: from which on) the condition held in all
    repetitions."""
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
        abs(border.good - border.beyond) / 2
        for border in borders
        if border.good is not None and border.beyond is not None
    )
    half = (known.chance or 0.0) + widest
    return Limit(known.mean, (known.mean - half, known.mean + half), safe, tuple(middles.tolist()))


def check_far_values(prober: Prober, borders: Sequence[Border], within: Range) -> None:
    """Tries values far from the border (without one, far from the start) in the first repetition, and notes results."""
    asked = [
        (index, value)
        for index, border in enumerate(borders[:1])
        for value in spot_checks(within, border.middle(within.whole) if border.found else within.start)
        if value not in border.seen and prober.allowed(value)
    ]
    prober.audience.stage(f"checking that there is one limit: {len(asked)} runs far from it")
    for (index, value), outcome in zip(asked, prober.outcomes(asked), strict=True):
        borders[index].seen[value] = prober.condition.holds(outcome.measures)


def longer_runs_failing(prober: Prober, value: float | None) -> tuple[int, int] | None:
    """Number of runs of four times the length in which the condition fails at a value; and number of runs made. `not
    backpressured` fails there too if queues within the job grow to the end.

    A backlog that grows slowly fills the channels before it shows, and state grows up to a crash. A job whose load and
    plan stay as they are should bear in long runs what it bears in short ones. None if they do not stay so, if the runs
    would take too long, or if there is no such value.
    """
    longer = None if value is None else _longer(prober, value)
    if value is None or longer is None:
        return None
    failing: list[bool] = []
    while len(failing) < CHECKED or (len(failing) == CHECKED and len({*failing}) > 1):
        seeds = range(len(failing), max(CHECKED, len(failing) + 1))
        try:
            made = prober.bench.outcomes([(longer, child_seed(prober.seed, index)) for index in seeds])
        except TooMuch:
            return None
        failing += [_grows(prober, each) or not prober.condition.holds(each.measures) for each in made]
    holding, length_s = len(failing) - sum(failing), longer.run.horizon_s
    prober.audience.stage(f"at {value:,.6g}: holds in {holding} of {len(failing)} runs of {length_s:g} s")
    return sum(failing), len(failing)


def lasting(prober: Prober, predicted: float | None, within: Range) -> tuple[int | None, int | None]:
    """Number of longer runs that fail at the limit predicted to last, None if they are not made; and, of whole numbers,
    the first one from there on that lasts in longer runs, None if it is not among the next few."""
    if predicted is None or (first := longer_runs_failing(prober, just_inside(predicted, within))) is None:
        return None, None
    if not within.whole or first[0] <= BY_CHANCE:
        return first[0], None
    side = -1 if within.upward else 1
    for value in range(round(predicted) + side, round(predicted) + side * (1 + NEXT), side):
        found = longer_runs_failing(prober, value) if within.low <= value <= within.high else None
        if found is not None and found[0] <= BY_CHANCE:
            return first[0], value
    return first[0], None


def _grows(prober: Prober, outcome: RunOutcome) -> bool:
    """Whether the sources are only not held back yet, where the condition asks for that: queues in the job grow."""
    return "backpressured" in prober.condition.metrics and of(outcome.measures, "queue_growth_per_s") > 0.0


def outermost(borders: Sequence[Border], limit: Limit | None, within: Range) -> float | None:
    """Value a little on the good side of the limit; the last value tried if the condition holds at all of them."""
    if limit is None:
        return borders[0].good if status_of(borders) == "always" else None
    if within.whole:
        return float(limit.value)
    low, high = limit.interval95  # wide with few runs: the value at which the condition held in all may be nearer
    nearest = max(low, limit.holds_in_all) if within.upward else min(high, limit.holds_in_all)
    return nearest * (1 - within.tolerance * (1 if within.upward else -1))


def _longer(prober: Prober, value: float) -> Scenario | None:
    """Scenario at a value with a longer run; None if that need not give the same answer."""
    scenario = prober.at(value)
    if scenario is None or not _alike(scenario):
        return None
    return scenario.with_run(horizon_s=LONGER * scenario.run.horizon_s)


class Reason(NamedTuple):
    """Reason for the limit, in fields of `CapacityAnswer`."""

    fails_first: Mapping[str, int]
    not_valid: str | None
    binds: str
    resources: tuple[ResourceAtLimit, ...]


def reason_of(prober: Prober, borders: Sequence[Border], known: bool) -> Reason:
    """Reason for the limit: terms of the condition that fail beyond the border, and resources on both sides of it.

    known: whether there is a border; without one, resources are named only if the condition never holds.
    """
    good = [(index, border.good) for index, border in enumerate(borders) if border.good is not None]
    bad = [(index, border.bad) for index, border in enumerate(borders) if border.bad is not None]
    if not known:
        bad = [(index, [*border.seen][-1]) for index, border in enumerate(borders) if not good]
    fails: dict[str, int] = {}
    for outcome in prober.outcomes(bad):
        for text in prober.condition.failing(outcome.measures):
            fails[text] = fails.get(text, 0) + 1
    before, beyond = _used(prober, good), _used(prober, bad)
    used_beyond = {(resource.kind, resource.name): resource.used for resource in beyond}
    last = next((prober.case(value) for _, value in bad or good), prober.scenario)
    return Reason(
        fails_first=dict(sorted(fails.items(), key=lambda item: -item[1])),
        not_valid=prober.refusal(borders),
        binds=binding(beyond or before, last) if known or beyond else "",
        resources=tuple(
            ResourceAtLimit(*resource[:4], resource.head_room, used_beyond.get((resource.kind, resource.name)))
            for resource in (before or beyond)
            if known or beyond
        ),
    )


def _used(prober: Prober, asked: Sequence[tuple[int, float]]) -> list[Resource]:
    return resources(prober.case(asked[0][1]), prober.outcomes(asked)) if asked else []
