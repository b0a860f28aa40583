"""The largest, or smallest, value of something at which a condition holds: the limit, its interval, and what binds.

The rate model predicts the limit at once; exact runs near it prove it. Each repetition has its own random numbers and
its own border. Within a repetition all values are tried on the same random numbers (common random numbers), so that its
border is sharp. The mean of the borders has an interval by Student's t. Where the rate model ignores something, values
far from the borders are tried as well, to check that there is only one border.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Annotated, Any, Literal, NamedTuple

import numpy as np
from pydantic import Field

from scenarios.executing.progress import Audience
from scenarios.files.documents import CLOSED, Number, Seconds, Share
from scenarios.questions.bench import Bench
from scenarios.questions.bisection import FAR, Border, Range, broken, search, spot_checks
from scenarios.questions.condition import Condition, Term
from scenarios.questions.intervals import of_mean
from scenarios.questions.knobs import Knob
from scenarios.questions.measures import LATENCIES
from scenarios.questions.prediction import LimitForecast, PredictedLimit
from scenarios.questions.prober import Prober
from scenarios.questions.resources import Resource, binding, resources
from twin.errors import BadInput
from twin.quantities import NUMBER
from twin.randomness import child_seed
from twin.scenario import Scenario
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
FEW = 8
"""Runs look for a limit up to so many times the start where none is predicted."""
LONGER = 4
"""Longer runs last so many times as long."""


@dataclass(frozen=True, slots=True)
class CapacityQuestion:
    """find: "max", the largest value of the knob for which the condition holds, or "min", the smallest.

    between: where to look; None: around the predicted limit, or from the given value by doubling. precision: width of
    the bracket of each border, as a share. replications: number of repetitions; None: as many as make the mean as
    precise. full_length: whether all runs are as long as the scenario says, even if shorter ones are enough.
    """

    find: Literal["max", "min"]
    knob: Knob
    condition: Condition
    between: tuple[float, float] | None = None
    precision: float = 0.01
    replications: int | None = None
    full_length: bool = False

    def range(self, scenario: Scenario) -> Range:
        """Where to search. Raises BadInput if no limits are given and the knob does not stand at a number above 0, or
        if the condition limits a latency to more than the length of the run."""
        for term in self.condition.terms:
            _check_within(term, scenario.run.horizon_s)
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
        return Range(float(start), low, high, upward, self.precision, whole, bounded, jumps=bounded)


def _check_within(term: Term, horizon_s: float) -> None:
    """No result is older than the run is long, so a limit beyond it is most likely one in milliseconds."""
    (name, *others) = term.metrics or ("",)
    if others or not name.startswith(LATENCIES) or not all(term.test({name: age_s}) for age_s in (0.0, horizon_s)):
        return
    meant = re.sub(rf"(?<![\w.]){NUMBER}(?![\w.])", lambda match: f"{match[0]}ms", term.text)
    example = f"write {meant!r} if milliseconds are meant, else " if meant != term.text else ""
    raise BadInput(
        f"--while {term.text!r}: it always holds, as no latency exceeds the horizon of {horizon_s:g} s; {example}"
        "lengthen the run (--set run.horizon_s=SECONDS)"
    )


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
    repetitions (`sometimes`); or there were no runs (`predicted`). predicted: the prediction of the rate model. value:
    the mean of the repetitions' borders, with its 95 % interval; for whole numbers, a value at which it held in all.
    share_that_holds95: a lower bound of the share of all runs in which it holds there. longer_runs_fail: how many of
    three runs that last four times as long fail. one_limit_by: whether runs far from the limit or the rate model show
    that there is no other limit. fails_first: the number of runs in which each term of the condition fails beyond the
    limit. run_s: length of the runs. values: all values tried. holds: whether it held, by repetition and value.
    warnings: those of the runs just inside the limit.
    """

    scenario: str
    find: Literal["max", "min"]
    of: str
    while_: Annotated[str, Field(alias="while")]
    status: Status
    predicted: PredictedLimit
    replications: int
    seed: int
    precision: float
    run_s: Seconds
    value: Whole | None = None
    interval95: tuple[Whole, Whole] | None = None
    holds_in_all: Whole | None = None
    borders: tuple[Whole, ...] | None = None
    share_that_holds95: Share | None = None
    longer_runs_fail: int | None = None
    looked_at: tuple[float, ...] | None = None
    monotone: bool = True
    contradiction: Contradiction | None = None
    one_limit_by: Literal["runs", "rates"] = "rates"
    fails_first: Mapping[str, int] = field(default_factory=dict)
    not_valid: str | None = None
    binds: str = ""
    resources: tuple[ResourceAtLimit, ...] = ()
    values: tuple[float, ...] = ()
    holds: tuple[Mapping[str, bool], ...] = ()
    warnings: tuple[str, ...] = ()


class Limit(NamedTuple):
    """The result of all repetitions' borders together; see `CapacityAnswer`."""

    value: Whole
    interval95: tuple[Whole, Whole]
    holds_in_all: Whole
    borders: tuple[Whole, ...]
    share_that_holds95: float | None = None


def capacity(
    scenario: Scenario,
    question: CapacityQuestion,
    bench: Bench,
    seed: int,
    audience: Audience,
    predicted: Callable[[CapacityAnswer], None] = lambda _answer: None,
    prove: bool = True,
) -> CapacityAnswer:
    """Finds the limit. Raises BadInput if no value gives a valid scenario, or there is no number to start from.

    predicted: called with the prediction of the rate model before the first run. prove: if false, the prediction is the
    answer.
    """
    within = question.range(scenario)
    prober = Prober(scenario, question.knob, question.condition, bench, audience, seed)
    forecast = LimitForecast(prober, within)
    first = CapacityAnswer(
        scenario=scenario.name,
        find=question.find,
        of=question.knob.name,
        while_=question.condition.text,
        status="predicted",
        predicted=forecast.predicted,
        replications=0,
        seed=seed,
        precision=question.precision,
        run_s=scenario.run.horizon_s,
    )
    predicted(first)
    if not prove:
        return first
    if forecast.unlimited and within.upward and not within.bounded:
        within = replace(within, high=min(within.high, within.start * FEW))
    run = None if question.full_length else forecast.shorter()
    if run is not None:
        prober = replace(prober, scenario=scenario.model_copy(update={"run": run}), refused={}, cases={})
    return _proved(first, prober, forecast, within, question.replications)


def _proved(
    first: CapacityAnswer, prober: Prober, forecast: LimitForecast, within: Range, replications: int | None
) -> CapacityAnswer:
    borders = _borders(prober, within, forecast.predicted.value, replications)
    if not any(border.seen and prober.at(value) for border in borders for value in border.seen):
        raise BadInput(next(iter(prober.refused.values())))
    status = _status(borders)
    looked_at = tuple(sorted({value for border in borders for value in border.seen}))
    limit = _limit(borders, within) if status == "found" else None
    longer = limit is not None and not (forecast.complete and forecast.lasts)
    longer_runs_fail = _longer_runs_fail(prober, limit, within) if longer and limit is not None else None
    single = status == "found" and forecast.single()
    if not single:
        _check(prober, borders, within)
    reason = _reason(prober, borders, known=limit is not None)
    broken_borders = (broken(border.seen, within.upward) for border in borders)
    contradictions = [values for values in broken_borders if values is not None]
    enough = status == "always" and within.whole and not within.upward and within.low == 1.0  # there is no less
    known: dict[str, Any] = {"looked_at": looked_at, "value": 1 if enough else None}
    return replace(
        first,
        status=status,
        replications=len(borders),
        run_s=prober.scenario.run.horizon_s,
        **(known if limit is None else limit._asdict()),
        longer_runs_fail=longer_runs_fail,
        monotone=not contradictions,
        contradiction=Contradiction(*contradictions[0]) if contradictions else None,
        one_limit_by="rates" if single else "runs",
        **reason._asdict(),
        values=tuple(sorted({value for border in borders for value in border.seen})),
        holds=tuple({str(value): holds for value, holds in sorted(border.seen.items())} for border in borders),
        warnings=_warnings(prober, borders),
    )


def _borders(prober: Prober, within: Range, predicted: float | None, replications: int | None) -> list[Border]:
    """The border of each repetition. The first is sought around the predicted limit, the others beside the first."""
    count = replications or (MOST if within.whole else FIRST)
    start = within if predicted is None else within.near(_probed(prober, within, predicted, count))
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


def _probed(prober: Prober, within: Range, predicted: float, count: int) -> float:
    """The value to begin with, by a first run somewhat below the predicted limit. Announces the cost of the proof."""
    at = max(within.low, PROBED * predicted) if prober.about_rates else predicted
    if prober.outcomes([(0, at)])[0] is None:
        return predicted
    aim = prober.aim(0, at)
    start = predicted if aim is None else min(within.high, aim * (1 - within.tolerance / 2))
    case = prober.at(start)
    if case is not None:
        runs = RUNS * count
        cpu_s, length_s = runs * prober.bench.effort_s(case), case.run.horizon_s
        prober.audience.stage(f"the proof takes about {cpu_s:.2g} CPU seconds: {runs:.0f} runs of {length_s:g} s")
    return start


def _needed(borders: Sequence[Border], within: Range) -> int:
    """The number of repetitions that makes the mean of the borders as precise as each border is."""
    known = of_mean(np.array([border.middle(within.whole) for border in borders]), "")
    wanted = within.tolerance * abs(known.mean)
    share = (known.chance or 0.0) / wanted if wanted else 0.0
    return len(borders) if share <= 1.0 else max(len(borders) + 1, math.ceil(len(borders) * share**2))


def _warnings(prober: Prober, borders: Sequence[Border]) -> tuple[str, ...]:
    inside = [(index, border.good) for index, border in enumerate(borders) if border.good is not None]
    made = [outcome for outcome in prober.outcomes(inside) if outcome is not None]
    alike = {re.sub(r"\d", "", warning): warning for outcome in made for warning in reversed(outcome.warnings)}
    return tuple(reversed(alike.values()))


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
