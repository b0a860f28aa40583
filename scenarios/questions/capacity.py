"""Finds the largest, or smallest, value of a knob at which a condition holds: the limit, its interval, what binds.

The rate model predicts the limit at once; exact runs near it prove it.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Annotated, Any, Literal, NamedTuple

import numpy as np
from pydantic import Field

from scenarios.beside import PredictionBesideRuns
from scenarios.executing import Audience, Lines, Processes
from scenarios.files.documents import CLOSED, Number, Seconds, Share
from scenarios.measures import Condition, Term, condition, of
from scenarios.questions.bench import Bench, of_mean, runs_for
from scenarios.questions.bisection import FAR, Border, Prober, Range, broken, spot_checks
from scenarios.questions.kept import RunOutcome, said_once
from scenarios.questions.knobs import Knob, LoadKnob, SubtasksKnob, whole
from scenarios.questions.prediction import LimitForecast, PredictedLimit, status_of
from scenarios.questions.resources import Resource, binding, resources, without_spare
from twin.errors import BadInput, TooMuch
from twin.metrics import LATENCIES
from twin.quantities import NUMBER, written
from twin.randomness import child_seed
from twin.scenario import Scenario
from twin.steadiness import filling, unchanging

# the question --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class CapacityQuestion:
    """Question for a limit. find: "max", the largest value of the knob for which the condition holds, or "min".

    between: range of the search; None: around the predicted limit, or from the given value by doubling. precision:
    width of the bracket of each border, as a share. replications: number of repetitions; None: as many as make the mean
    as precise. full_length: whether all runs have the scenario's length, even if shorter ones are enough.
    """

    find: Literal["max", "min"]
    knob: Knob
    condition: Condition
    between: tuple[float, float] | None = None
    precision: float = 0.01
    replications: int | None = None
    full_length: bool = False

    def range(self, scenario: Scenario) -> Range:
        """Range of the search. Raises BadInput if no limits are given and the knob does not stand at a number above 0,
        or if the condition limits a latency to more than the length of the run."""
        for term in self.condition.terms:
            _check_within(term, scenario.run.horizon_s)
        given, in_whole = self.knob.given(scenario), whole(self.knob, scenario)
        numeric = isinstance(given, int | float) and not isinstance(given, bool)
        if self.between is None and not (numeric and given > 0):
            stands = f"stands at {given!r}" if given is not None else "is not given"
            raise BadInput(f"--find-{self.find} {self.knob.name}: it {stands}; say where to look: --between LOW..HIGH")
        if self.between is not None:
            low, high = self.between
            start = min(max(given, low), high) if numeric else (low + high) / 2
        else:
            low, high, start = given / FAR, given * FAR, given
        if in_whole:
            low, high = max(1.0, math.ceil(low)), float(math.floor(high))
            if low > high:
                asked = "..".join(f"{end:g}" for end in self.between or ())
                raise BadInput(f"--between {asked}: no whole number from 1; take a wider range for {self.knob.name}")
            start = min(max(math.floor(start), low), high)
        upward, bounded = self.find == "max", self.between is not None
        return Range(float(start), low, high, upward, self.precision, in_whole, bounded, jumps=bounded)


def _check_within(term: Term, horizon_s: float) -> None:
    """Raises BadInput for a limit of a latency beyond the length of the run, which always holds: most likely it was
    meant in milliseconds."""
    (name, *others) = term.metrics or ("",)
    if others or not name.startswith(LATENCIES) or not all(term.test({name: age_s}) for age_s in (0.0, horizon_s)):
        return
    meant = re.sub(rf"(?<![\w.]){NUMBER}(?![\w.])", lambda match: f"{match[0]}ms", term.text)
    example = f"write {meant!r} if milliseconds are meant, else " if meant != term.text else ""
    raise BadInput(
        f"--while {term.text!r}: it always holds, as no latency exceeds the horizon of {horizon_s:g} s; {example}"
        "lengthen the run (--set run.horizon_s=SECONDS)"
    )


@dataclass(frozen=True, slots=True)
class Contradiction:
    """Two values of one repetition that contradict a single border: the condition fails at one, and holds beyond it."""

    fails_at: float
    holds_at: float


@CLOSED
@dataclass(frozen=True, slots=True, kw_only=True)
class CapacityAnswer:
    """The answer of `twin capacity`. Values are in the unit of the varied knob (`of`); `while` is the condition.
    as_many: other operators that have as many subtasks, by forward streams or in a chain.

    status: `found`; or the condition holds at all values tried (`always`), at none (`never`), or has no limit in some
    repetitions (`sometimes`); or there were no runs (`predicted`). predicted: the prediction of the rate model. beside:
    the same beside the runs; null without runs, and for `sometimes`. value: the mean of the repetitions' borders, with
    its 95 % interval; for whole numbers, a value at which the condition held in all. share_that_holds95: a lower bound
    of the share of all runs in which it holds there. longer_runs_fail: number of the `longer_runs`, which last four
    times as long, that fail. If they do, predicted_fails: number of those that fail where the prediction for runs of a
    day holds, and lasts_in_runs: the nearest whole number at which they do not. one_limit_by: whether runs far from the
    limit or the rate model show that there is no other limit. fails_first: number of runs in which each term of the
    condition fails beyond the limit. not_valid: why no value beyond those tried is allowed, where the search met that
    end. run_s: length of the runs. values: all values tried. holds: whether the condition held, by repetition and
    value. warnings: of the runs just inside the limit.
    """

    scenario: str
    find: Literal["max", "min"]
    of: str
    as_many: tuple[str, ...]
    while_: Annotated[str, Field(alias="while")]
    status: Status
    predicted: PredictedLimit
    replications: int
    seed: int
    precision: float
    run_s: Seconds
    beside: PredictionBesideRuns | None = None
    value: Whole | None = None
    interval95: tuple[Whole, Whole] | None = None
    holds_in_all: Whole | None = None
    borders: tuple[Whole, ...] | None = None
    share_that_holds95: Share | None = None
    longer_runs_fail: int | None = None
    longer_runs: int | None = None
    predicted_fails: int | None = None
    lasts_in_runs: int | None = None
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
        as_many=question.knob.as_many(scenario) if isinstance(question.knob, SubtasksKnob) else (),
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
    run = None if question.full_length else forecast.shorter()
    if run is None:
        return _proved(first, prober, forecast, question, None)
    shorter = replace(prober, scenario=scenario.model_copy(update={"run": run}), refused={}, cases={}, made=set())
    answer = _proved(first, shorter, forecast, question, None)
    if answer.beside is None or answer.beside.agrees:
        return answer
    return _proved(first, prober, forecast, question, answer.value)  # only the prediction said that shorter runs do


def load_predicted(scenario: Scenario) -> PredictedLimit:
    """Largest factor on all rates at which the rate model predicts that a job keeps up, and what binds there."""
    question = CapacityQuestion("max", LoadKnob("--find-max"), condition("not backpressured", scenario))
    bench, nobody = Bench(Processes(1)), Lines(lambda _line: None)
    return capacity(scenario, question, bench, scenario.run.seed, nobody, prove=False).predicted


def _proved(
    first: CapacityAnswer, prober: Prober, forecast: LimitForecast, question: CapacityQuestion, known: float | None
) -> CapacityAnswer:
    """Answer by runs. known: the limit that shorter runs found, if it contradicts the prediction; else None."""
    single = known is None and forecast.single()
    within, likely = forecast.where_to_look, forecast.predicted.value if single else known
    checks = Checks(longer=not (single and forecast.lasts), far=not single)
    borders = borders_of(prober, within, likely, question.replications, checks)
    status = status_proved(borders)
    looked_at = tuple(sorted({value for border in borders for value in border.seen}))
    limit = limit_of(borders, within) if status == "found" else None
    enough = status == "always" and within.whole and not within.upward and within.low == 1.0  # 1 is the least there is
    beside = _beside(forecast, status, limit, 1 if enough else None, within.whole)
    if beside is not None and not beside.agrees:  # what only the prediction said is checked by runs
        checks, single = Checks(longer=True, far=True), False
    longer = longer_runs_failing(prober, outermost(borders, limit, within)) if checks.longer else None
    short = longer is not None and longer[0] > BY_CHANCE
    at_predicted, lasts = lasting(prober, forecast.predicted.in_long_runs if short else None, within)
    single = single and (status == "found") == forecast.complete
    if not single:
        check_far_values(prober, borders, within)
    reason = reason_of(prober, borders, known=limit is not None)
    broken_borders = (broken(border.seen, within.upward) for border in borders)
    contradictions = [values for values in broken_borders if values is not None]
    values: dict[str, Any] = {"value": 1 if enough else None} if limit is None else limit._asdict()
    return replace(
        first,
        status=status,
        replications=len(borders),
        run_s=prober.scenario.run.horizon_s,
        beside=beside,
        looked_at=looked_at if limit is None else None,
        **values,
        longer_runs_fail=longer and longer[0],
        longer_runs=longer and longer[1],
        predicted_fails=at_predicted,
        lasts_in_runs=lasts,
        monotone=not contradictions,
        contradiction=Contradiction(*contradictions[0]) if contradictions else None,
        one_limit_by="rates" if single else "runs",
        **reason._asdict(),
        values=tuple(sorted({value for border in borders for value in border.seen})),
        holds=tuple({str(value): holds for value, holds in sorted(border.seen.items())} for border in borders),
        warnings=warnings_inside(prober, borders),
    )


def _beside(
    forecast: LimitForecast, status: Status, limit: Limit | None, enough: int | None, whole: bool
) -> PredictionBesideRuns | None:
    """Prediction for runs of this length beside the limit that they found, or beside `enough`; None if only some of
    them found one."""
    if status == "sometimes":
        return None
    border, ignores = forecast.as_long, forecast.predicted.ignores
    if status_of(border) == status and limit is None:
        return PredictionBesideRuns.of(None, None, ignores)
    in_long_runs = forecast.predicted.in_long_runs if border.bad is None else None
    said = border.middle(whole) if border.found else in_long_runs
    if limit is None:
        return PredictionBesideRuns.of(said, enough, ignores)
    return PredictionBesideRuns.of(said, limit.value, ignores, interval=limit.interval95)


# proof ---------------------------------------------------------------------------------------------------------------
# Proves a predicted limit by exact runs: the border of each repetition, the limit by all, and what binds there.
#
# Each repetition has its own random numbers and its own border. Within a repetition all values are tried on the same
# random numbers (common random numbers), so that its border is sharp. The mean of the borders has an interval by
# Student's t. If the rate model ignores any feature, values far from the borders are tried as well, to check that
# there is only one border.


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
        said += [(f"at {written(value, 4)}", text) for text in (*one.warnings, *changing)]
    return tuple(said_once(said))


def _alike(scenario: Scenario) -> bool:
    """Whether longer runs should give the same answer; whether they do is predicted, or checked."""
    return unchanging(scenario, scenario.events, scenario.policy is not None)


def status_proved(borders: Sequence[Border]) -> Status:
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
    prober.audience.stage(f"at {written(value, 6)}: holds in {holding} of {len(failing)} runs of {length_s:g} s")
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
        return borders[0].good if status_proved(borders) == "always" else None
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
