"""The largest, or smallest, value of something at which a condition holds: the limit, its interval, and what binds.

Each repetition has its own random numbers and its own border, found by bisection. Within a repetition all values are
tried on the same random numbers (common random numbers), so that its border is sharp. The mean of the borders has an
interval by Student's t. Values far from the borders are tried as well, to check that there is only one border.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Literal, NamedTuple

import numpy as np
from pydantic import Field

from scenarios.executing.progress import Audience
from scenarios.files.documents import CLOSED, Number, Share
from scenarios.questions.bench import Bench
from scenarios.questions.bisection import FAR, Border, Range, broken, search, spot_checks
from scenarios.questions.condition import Condition
from scenarios.questions.intervals import of_mean
from scenarios.questions.knobs import Knob
from scenarios.questions.prober import Prober
from scenarios.questions.resources import Resource, binding, resources
from twin.errors import BadInput
from twin.randomness import child_seed
from twin.scenario import Scenario
from twin.steadiness import steady

CHECKED = 3
"""Repetitions in which values far from the border are tried."""
CONFIDENCE = 0.95
LONGER = 4
"""Longer runs last so many times as long."""


@dataclass(frozen=True, slots=True)
class CapacityQuestion:
    """find: "max", the largest value of the knob for which the condition holds, or "min", the smallest.

    between: where to look; None: it starts at the given value and doubles. precision: of each border, as a share.
    """

    find: Literal["max", "min"]
    knob: Knob
    condition: Condition
    between: tuple[float, float] | None = None
    precision: float = 0.01
    replications: int = 10

    def range(self, scenario: Scenario) -> Range:
        """Where to search. Raises BadInput if no limits are given and the knob does not stand at a number above 0."""
        given, whole = self.knob.given(scenario), self.knob.whole(scenario)
        numeric = isinstance(given, int | float) and not isinstance(given, bool)
        if self.between is None and not (numeric and given > 0):
            stands = f"stands at {given!r}" if given is not None else "is not given"
            raise BadInput(f"--find-{self.find} {self.knob.name}: it {stands}; say where to look: --between LOW..HIGH")
        if self.between is not None:
            low, high = self.between
            inside = numeric and low <= given <= high
            start = given if inside else (low + high) / 2
        else:
            low, high, start = given / FAR, given * FAR, given
        if whole:
            low, high, start = max(1.0, math.ceil(low)), float(math.floor(high)), float(math.floor(max(1, start)))
        upward, bounded = self.find == "max", self.between is not None
        return Range(float(start), low, high, upward, self.precision, whole, bounded)


Status = Literal["found", "always", "never", "sometimes"]
Whole = int | float
"""Numbers of replicas and hosts stay whole numbers in documents."""


@dataclass(frozen=True, slots=True)
class ResourceAtLimit:
    """How full a resource is just before the limit (used), and just beyond it (used_beyond).

    kind: operator, CPU, memory, network card or link. used: the share in use; for an operator, of its replicas' time.
    head_room: how many times as much it could bear.
    """

    kind: str
    name: str
    used: Share
    head_room: Number
    used_beyond: Number


@dataclass(frozen=True, slots=True)
class Contradiction:
    """Two values of one repetition that cannot be explained by a single border."""

    fails_at: float
    holds_at: float


@CLOSED
@dataclass(frozen=True, slots=True, kw_only=True)
class CapacityAnswer:
    """The answer of `twin capacity`. Values are in the unit of what is varied (`of`); `while` is the condition.

    status: `found`; or the condition holds at all values tried (`always`), at none (`never`), or has no limit in some
    repetitions (`sometimes`). value: the mean of the repetitions' borders, with its 95 % interval; for whole numbers, a
    value at which it held in all. share_that_holds95: the share of all runs, at least, in which it holds there.
    longer_runs_fail: how many of three runs that last four times as long fail. fails_first: the terms of the condition
    that fail beyond the limit, and in how many runs. values: all that were tried. holds: whether it held, by repetition
    and value.
    """

    scenario: str
    find: Literal["max", "min"]
    of: str
    while_: Annotated[str, Field(alias="while")]
    status: Status
    replications: int
    seed: int
    precision: float
    value: Whole | None = None
    interval95: tuple[Whole, Whole] | None = None
    holds_in_all: Whole | None = None
    borders: tuple[Whole, ...] | None = None
    share_that_holds95: Share | None = None
    longer_runs_fail: int | None = None
    looked_at: tuple[float, ...] | None = None
    monotone: bool
    contradiction: Contradiction | None
    fails_first: Mapping[str, int]
    not_valid: str | None
    binds: str
    resources: tuple[ResourceAtLimit, ...]
    values: tuple[float, ...]
    holds: tuple[Mapping[str, bool], ...]


class Limit(NamedTuple):
    """The result of all repetitions' borders together; see `CapacityAnswer`."""

    value: Whole
    interval95: tuple[Whole, Whole]
    holds_in_all: Whole
    borders: tuple[Whole, ...]
    share_that_holds95: float | None = None


def capacity(
    scenario: Scenario, question: CapacityQuestion, bench: Bench, seed: int, audience: Audience
) -> CapacityAnswer:
    """Finds the limit. Raises BadInput if no value gives a valid scenario, or there is no number to start from."""
    within = question.range(scenario)
    prober = Prober(scenario, question.knob, question.condition, bench, audience, seed)
    borders = search(prober.ask, question.replications, within)
    if not any(border.seen and prober.at(value) for border in borders for value in border.seen):
        raise BadInput(next(iter(prober.refused.values())))
    status = _status(borders)
    looked_at = tuple(sorted({value for border in borders for value in border.seen}))
    limit = _limit(borders, within) if status == "found" else None
    longer_runs_fail = None if limit is None else _longer_runs_fail(prober, limit, within)
    _check(prober, borders, within)
    reason = _reason(prober, borders, known=limit is not None)
    broken_borders = (broken(border.seen, within.upward) for border in borders)
    contradictions = [values for values in broken_borders if values is not None]
    return CapacityAnswer(
        scenario=scenario.name,
        find=question.find,
        of=question.knob.name,
        while_=question.condition.text,
        status=status,
        replications=question.replications,
        seed=seed,
        precision=question.precision,
        **({"looked_at": looked_at} if limit is None else limit._asdict()),
        longer_runs_fail=longer_runs_fail,
        monotone=not contradictions,
        contradiction=Contradiction(*contradictions[0]) if contradictions else None,
        **reason._asdict(),
        values=tuple(sorted({value for border in borders for value in border.seen})),
        holds=tuple({str(value): holds for value, holds in sorted(border.seen.items())} for border in borders),
    )


def _status(borders: Sequence[Border]) -> Status:
    """Whether all repetitions found a border; if not, whether it always, never or only sometimes holds."""
    if all(border.found for border in borders):
        return "found"
    if all(border.bad is None for border in borders):
        return "always"
    if all(border.good is None for border in borders):
        return "never"
    return "sometimes"


def _limit(borders: Sequence[Border], within: Range) -> Limit:
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


def _check(prober: Prober, borders: Sequence[Border], within: Range) -> None:
    """Tries values far from the border (if there is none, from the start) in some repetitions, and notes results."""
    asked = [
        (index, value)
        for index, border in enumerate(borders[:CHECKED])
        for value in spot_checks(within, border.middle(within.whole) if border.found else within.start)
        if value not in border.seen and prober.at(value) is not None
    ]
    prober.audience.stage(f"checking that there is one limit: {len(asked)} runs far from it")
    for (index, value), outcome in zip(asked, prober.outcomes(asked), strict=True):
        assert outcome is not None
        borders[index].seen[value] = prober.condition.holds(outcome.measures)


def _longer_runs_fail(prober: Prober, limit: Limit, within: Range) -> int | None:
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


def _reason(prober: Prober, borders: Sequence[Border], known: bool) -> Reason:
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
