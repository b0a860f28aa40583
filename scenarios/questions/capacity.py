"""How much, or how little, of something a job bears while a condition holds: a border, its interval, and what binds.

Each repetition, a run with random numbers of its own, has a border of its own, found by bisection; all values are tried
on the same random numbers (common random numbers), so that the border of a repetition is a sharp one. The mean of the
borders has an interval by Student's t. That there is one border only is looked for, not assumed.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

from scenarios.executing.progress import Audience
from scenarios.questions.bench import Bench, Job
from scenarios.questions.bisection import FAR, Border, Range, broken, search, spot_checks
from scenarios.questions.condition import Condition
from scenarios.questions.intervals import of_mean
from scenarios.questions.kept import Outcome
from scenarios.questions.knobs import Knob
from scenarios.questions.resources import Resource, binding, resources
from twin.errors import BadInput
from twin.precision.steadiness import steady
from twin.randomness import child_seed
from twin.scenario import Scenario

CHECKED = 3
"""Repetitions in which values far from the border are tried."""
CONFIDENCE = 0.95
LONGER = 4
LONG_S = 10.0


@dataclass(frozen=True, slots=True)
class Question:
    """find: "max", the largest value of the knob for which the condition holds, or "min", the smallest.

    between: where to look; None: from the value that is given, by doubling. precision: of each border, as a share.
    """

    find: Literal["max", "min"]
    knob: Knob
    condition: Condition
    between: tuple[float, float] | None = None
    precision: float = 0.01
    replications: int = 10

    def range(self, scenario: Scenario) -> Range:
        """Raises BadInput if the knob is not at a number and no limits are given."""
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


@dataclass
class Prober:
    """Makes the runs that a search asks for, and remembers why a value was no valid scenario."""

    scenario: Scenario
    question: Question
    bench: Bench
    audience: Audience
    seed: int
    refused: dict[float, str] = field(default_factory=dict)
    cases: dict[float, Scenario | None] = field(default_factory=dict)

    def ask(self, asked: Sequence[tuple[int, float]]) -> list[bool]:
        """Whether the condition holds in each repetition at each value; never where the scenario is not valid."""
        found = self.outcomes(asked)
        holds = [each is not None and self.question.condition.holds(each.measures) for each in found]
        self.audience.stage(_told(asked, holds))
        return holds

    def outcomes(self, asked: Sequence[tuple[int, float]]) -> list[Outcome | None]:
        """Of each (repetition, value); None where the scenario is not valid."""
        cases = [self.at(value) for _, value in asked]
        jobs = [
            (case, child_seed(self.seed, index))
            for case, (index, _) in zip(cases, asked, strict=True)
            if case is not None
        ]
        made = iter(self._made(jobs))
        return [None if case is None else next(made) for case in cases]

    def _made(self, jobs: Sequence[Job]) -> list[Outcome]:
        """With progress, if it takes long."""
        if self.bench.missing_s(jobs) < LONG_S:
            return self.bench.outcomes(jobs)
        with self.audience.progress("runs") as report:
            return self.bench.outcomes(jobs, report)

    def at(self, value: float) -> Scenario | None:
        """The scenario with the knob at `value`; None if that is no valid scenario, or no run of it would end."""
        if value not in self.cases:
            try:
                found = self.question.knob.turned(self.scenario, int(value) if value.is_integer() else value)
                self.bench.check(found)
                self.cases[value] = found
            except BadInput as error:
                self.cases[value], self.refused[value] = None, str(error)
        return self.cases[value]


def capacity(scenario: Scenario, question: Question, bench: Bench, seed: int, audience: Audience) -> dict[str, Any]:
    """The answer, for JSON. Raises BadInput if the scenario as given is not valid, or has no number to turn."""
    within = question.range(scenario)
    prober = Prober(scenario, question, bench, audience, seed)
    borders = search(prober.ask, question.replications, within)
    if not any(border.seen and prober.at(value) for border in borders for value in border.seen):
        raise BadInput(next(iter(prober.refused.values())))
    status = _status(borders)
    answer: dict[str, Any] = {
        "scenario": scenario.name,
        "find": question.find,
        "of": question.knob.name,
        "while": question.condition.text,
        "status": status,
        "replications": question.replications,
        "seed": seed,
        "precision": question.precision,
    }
    if status == "found":
        answer |= _found(borders, within)
        answer |= {"longer_runs_fail": _longer_runs_fail(prober, answer, within)}
    else:
        answer |= {"value": None, "looked_at": sorted({value for border in borders for value in border.seen})}
    _check(prober, borders, within)
    return answer | _one_border(borders, within) | _why(prober, borders, known=status == "found")


def _status(borders: Sequence[Border]) -> str:
    """found, or always or never holds as far as was looked, or sometimes: in some repetitions there is no border."""
    if all(border.found for border in borders):
        return "found"
    if all(border.bad is None for border in borders):
        return "always"
    if all(border.good is None for border in borders):
        return "never"
    return "sometimes"


def _found(borders: Sequence[Border], within: Range) -> dict[str, Any]:
    """The value with its interval, and up to where (a minimum: from where on) it held in every repetition."""
    middles = np.array([border.middle(within.whole) for border in borders])
    goods = [border.good for border in borders if border.good is not None]
    safe = min(goods) if within.upward else max(goods)
    if within.whole:
        holding = sum(
            (border.good >= safe) if within.upward else (border.good <= safe) for border in borders if border.good
        )
        # at least such a share of all runs holds, with 95 % confidence (Clopper and Pearson, all of n)
        share = (1 - CONFIDENCE) ** (1 / len(borders)) if holding == len(borders) else None
        return {
            "value": int(safe),
            "interval95": [int(min(middles)), int(max(middles))],
            "holds_in_all": int(safe),
            "borders": [int(each) for each in middles],
            "share_that_holds95": share,
        }
    known = of_mean(middles, "")
    widest = max(
        abs(border.good - border.bad) / 2 for border in borders if border.good is not None and border.bad is not None
    )
    half = (known.chance or 0.0) + widest
    return {
        "value": known.mean,
        "interval95": [known.mean - half, known.mean + half],
        "holds_in_all": safe,
        "borders": middles.tolist(),
    }


def _check(prober: Prober, borders: Sequence[Border], within: Range) -> None:
    """Tries values far from the borders of some repetitions (from the start, if they have none), and notes them."""
    asked = [
        (index, value)
        for index, border in enumerate(borders[:CHECKED])
        for value in spot_checks(within, border.middle(within.whole) if border.found else within.start)
        if value not in border.seen and prober.at(value) is not None
    ]
    prober.audience.stage(f"checking that there is one limit: {len(asked)} runs far from it")
    for (index, value), outcome in zip(asked, prober.outcomes(asked), strict=True):
        assert outcome is not None
        borders[index].seen[value] = prober.question.condition.holds(outcome.measures)


def _longer_runs_fail(prober: Prober, answer: Mapping[str, Any], within: Range) -> int | None:
    """Of how many repetitions that are four times as long, a little on the good side of the border, it no longer holds.

    A backlog that grows slowly fills channels before it shows; a job that goes on as it began should bear in long runs
    what it bears in short ones. None if the job does not go on as it began, or is too much work.
    """
    value = answer["value"]
    if not within.whole:  # of few runs the interval is wide, and what held in all of them is nearer to the border
        low, high = answer["interval95"]
        nearest = max(low, answer["holds_in_all"]) if within.upward else min(high, answer["holds_in_all"])
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
    return sum(not prober.question.condition.holds(each.measures) for each in made)


def _one_border(borders: Sequence[Border], within: Range) -> dict[str, Any]:
    found = [each for each in (broken(border.seen, within.upward) for border in borders) if each is not None]
    contradiction = {"fails_at": found[0][0], "holds_at": found[0][1]} if found else None
    return {"monotone": not found, "contradiction": contradiction}


def _why(prober: Prober, borders: Sequence[Border], known: bool) -> dict[str, Any]:
    """What ends it: which terms of the condition fail beyond the border, and how full everything is on both sides.

    known: there is a border; without one nothing binds at it.
    """
    sides: dict[str, list[tuple[int, float]]] = {
        "good": [(index, each.good) for index, each in enumerate(borders) if each.good is not None],
        "bad": [(index, each.bad) for index, each in enumerate(borders) if each.bad is not None],
    }
    found = {side: [each for each in prober.outcomes(asked) if each is not None] for side, asked in sides.items()}
    fails: dict[str, int] = {}
    for outcome in found["bad"]:
        for text in prober.question.condition.failing(outcome.measures):
            fails[text] = fails.get(text, 0) + 1
    used = {side: _used(prober, sides[side], outcomes) for side, outcomes in found.items()}
    beyond = {(each.kind, each.name): each.used for each in used["bad"]}
    listed = (used["good"] or used["bad"]) if known else []
    last = next(
        (case for _, value in sides["bad"] or sides["good"] if (case := prober.at(value)) is not None), prober.scenario
    )
    return {
        "fails_first": dict(sorted(fails.items(), key=lambda item: -item[1])),
        "not_valid": _nearest_refusal(prober, sides["bad"]),
        "binds": binding(used["bad"] or used["good"], last) if known else "",
        "resources": [_row(each, beyond.get((each.kind, each.name))) for each in listed],
        "values": sorted({value for border in borders for value in border.seen}),
        "holds": [{str(value): holds for value, holds in sorted(border.seen.items())} for border in borders],
    }


def _used(prober: Prober, asked: Sequence[tuple[int, float]], outcomes: Sequence[Outcome]) -> list[Resource]:
    cases = [case for _, value in asked if (case := prober.at(value)) is not None]
    return resources(cases[0], outcomes) if cases and outcomes else []


def _nearest_refusal(prober: Prober, bad: Sequence[tuple[int, float]]) -> str | None:
    """Why the values beyond the border are no valid scenario, if they are none."""
    return next((prober.refused[value] for _, value in bad if value in prober.refused), None)


def _row(resource: Resource, beyond: float | None) -> Mapping[str, Any]:
    return {
        "kind": resource.kind,
        "name": resource.name,
        "used": resource.used,
        "head_room": resource.head_room,
        "used_beyond": beyond,
    }


def _told(asked: Sequence[tuple[int, float]], holds: Sequence[bool]) -> str:
    low, high = min(value for _, value in asked), max(value for _, value in asked)
    where = f"at {low:,.6g}" if low == high else f"at {low:,.6g} to {high:,.6g}"
    return f"{where}: holds in {sum(holds)} of {len(asked)} runs"
