"""Finds the largest, or smallest, value of a knob at which a condition holds: the limit, its interval, what binds.

The rate model predicts the limit at once; exact runs near it prove it.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Annotated, Any, Literal

from pydantic import Field

from scenarios.beside import PredictionBesideRuns
from scenarios.executing import Audience, Lines, Processes
from scenarios.files.documents import CLOSED, Seconds, Share
from scenarios.measures import LATENCIES, Condition, Term, condition
from scenarios.questions import proof
from scenarios.questions.bench import Bench
from scenarios.questions.bisection import FAR, Prober, Range, broken
from scenarios.questions.knobs import Knob, LoadKnob, SubtasksKnob, whole
from scenarios.questions.prediction import LimitForecast, PredictedLimit, status_of
from twin.errors import BadInput
from twin.quantities import NUMBER
from twin.scenario import Scenario


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
    status: proof.Status
    predicted: PredictedLimit
    replications: int
    seed: int
    precision: float
    run_s: Seconds
    beside: PredictionBesideRuns | None = None
    value: proof.Whole | None = None
    interval95: tuple[proof.Whole, proof.Whole] | None = None
    holds_in_all: proof.Whole | None = None
    borders: tuple[proof.Whole, ...] | None = None
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
    resources: tuple[proof.ResourceAtLimit, ...] = ()
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
    checks = proof.Checks(longer=not (single and forecast.lasts), far=not single)
    borders = proof.borders_of(prober, within, likely, question.replications, checks)
    status = proof.status_of(borders)
    looked_at = tuple(sorted({value for border in borders for value in border.seen}))
    limit = proof.limit_of(borders, within) if status == "found" else None
    enough = status == "always" and within.whole and not within.upward and within.low == 1.0  # 1 is the least there is
    beside = _beside(forecast, status, limit, 1 if enough else None, within.whole)
    if beside is not None and not beside.agrees:  # what only the prediction said is checked by runs
        checks, single = proof.Checks(longer=True, far=True), False
    longer = proof.longer_runs_failing(prober, proof.outermost(borders, limit, within)) if checks.longer else None
    short = longer is not None and longer[0] > proof.BY_CHANCE
    at_predicted, lasts = proof.lasting(prober, forecast.predicted.in_long_runs if short else None, within)
    single = single and (status == "found") == forecast.complete
    if not single:
        proof.check_far_values(prober, borders, within)
    reason = proof.reason_of(prober, borders, known=limit is not None)
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
        warnings=proof.warnings_inside(prober, borders),
    )


def _beside(
    forecast: LimitForecast, status: proof.Status, limit: proof.Limit | None, enough: int | None, whole: bool
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
