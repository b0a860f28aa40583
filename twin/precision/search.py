"""From an error that is asked for to runs that have it: finer, longer, or tuple by tuple, whichever costs least.

A fast run is followed by one that is four times finer, and both are extrapolated to segments without length
(`twin.precision.extrapolation`). What the error then is made of says what helps: finer segments, or a longer run. An
exact run has no segments; it is taken as soon as it costs less than the next fast one (`twin.precision.plans`).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from twin.precision.extrapolation import Estimates, alone, together, value, worst
from twin.precision.horizons import Lengths, lengths
from twin.precision.plans import Plan, Question, Standing, beginning, missing, plans
from twin.precision.steadiness import steady
from twin.run import Run
from twin.scenario import RunSettings

OTHERS = 7
"""Runs with other seeds that say how much is chance, where one run does not."""
WIDER = 1.2
"""Student's t for as many, over two standard errors."""
MOST_PLANS = 12


@dataclass(frozen=True, slots=True)
class Step:
    """One run, and the effort that was expected, in steps of an exact run. scatter: made for its other seed."""

    settings: RunSettings
    steps: float
    run: Run
    scatter: bool = False


@dataclass(frozen=True, slots=True)
class Answer:
    """estimates: of the metrics. finest: the run that they come from, or the finer of the two. why: what was taken.

    needed: what it would take to reach what was asked for; empty if it is reached.
    """

    estimates: Estimates
    steps: tuple[Step, ...]
    finest: Step
    why: str
    needed: str


Simulate = Callable[[RunSettings, float], Run]
"""Makes one run, given its settings and about how many steps (of an exact run) it will take."""


def answer(question: Question, simulate: Simulate) -> Answer:
    """Runs until the error is as small as was asked for, or the next run would be too long.

    Raises BadInput as `twin.simulation.simulate` does.
    """
    ladder = _Ladder(question, simulate)
    ladder.do(beginning(question))
    ladder.look_around()
    for _ in range(MOST_PLANS):
        if not ladder.last.run.metrics.success:
            return ladder.stop("results: nothing reached a sink, or the job crashed")
        if worst(ladder.found) <= question.precision:
            return ladder.stop("")
        standing = ladder.standing()
        possible = plans(standing)
        if not possible:
            return ladder.stop(missing(standing))
        best = min(possible, key=lambda plan: plan.steps)
        if best.steps > question.most_steps:
            return ladder.stop(f"{best.what}, about {best.steps:.0e} steps ({best.how})")
        ladder.do(best)
    return ladder.stop("an exact run (--fidelity exact): the error of fast ones does not become smaller")


@dataclass
class _Ladder:
    """The runs so far, and what they say."""

    question: Question
    simulate: Simulate
    steps: list[Step] = field(default_factory=list)
    scatter: dict[str, float] = field(default_factory=dict)
    pair: list[Step] = field(default_factory=list)
    """The last run, and before it the one with which it is extrapolated."""
    found: Estimates = field(default_factory=dict)
    why: str = ""

    @property
    def last(self) -> Step:
        """The finest."""
        return self.pair[-1]

    def do(self, plan: Plan) -> None:
        """Makes the runs of a plan."""
        before = self.found if len(plan.runs) == 1 and len(self.pair) == 2 else None
        for settings in plan.runs:
            steps = self.question.steps(settings)
            self.pair = [*self.pair[-1:], Step(settings, steps, self.simulate(settings, steps))]
            self.steps.append(self.last)
        scatter = self._scatter()
        if len(self.pair) == 1 or self.last.settings.fidelity == "exact":
            self.pair = [self.last]
            self.found = alone(self.last.run, scatter)
        else:
            self.found = together(self.pair[0].run, self.last.run, scatter, before)
        self.why = plan.why

    def look_around(self) -> None:
        """Runs with other seeds, if the first run leaves open how much of a metric is chance."""
        first = self.last
        unknown = [metric for metric, each in self.found.items() if each.statistical is None]
        if not unknown or not first.run.metrics.success:
            return
        others = [first.settings.model_copy(update={"seed": first.settings.seed + k}) for k in range(1, OTHERS + 1)]
        made = [Step(each, first.steps, self.simulate(each, first.steps), scatter=True) for each in others]
        self.steps += made
        for metric in unknown:
            values = [value(each.run, metric) for each in (first, *made)]
            known = [each for each in values if each is not None]
            if len(known) > OTHERS // 2:
                self.scatter[metric] = WIDER * float(np.std(known, ddof=1))
        self.found = alone(first.run, self.scatter)

    def standing(self) -> Standing:
        """For whoever plans what is next."""
        return Standing(
            question=self.question,
            settings=self.last.settings,
            found=self.found,
            single=alone(self.last.run, self._scatter()),
            lengths=self._lengths(),
            recurs=self._recurs(),
        )

    def stop(self, needed: str) -> Answer:
        """The answer as it stands."""
        return Answer(self.found, tuple(self.steps), self.last, self.why, needed)

    def _scatter(self) -> dict[str, float]:
        """Of a run of the last one's length."""
        start_s = self._lengths().start_s
        first, last = (each.settings.horizon_s - start_s for each in (self.steps[0], self.last))
        return {metric: error * math.sqrt(first / last) for metric, error in self.scatter.items()}

    def _recurs(self) -> bool:
        scenario = self.question.scenario
        return steady(scenario, scenario.events, scenario.policy is not None)

    def _lengths(self) -> Lengths:
        """By the latency of the first run."""
        scenario, metrics = self.question.scenario, self.steps[0].run.metrics
        latency_s = metrics.processing_latency_s.mean if metrics.processing_latency_s else 0.0
        goes_on = self._recurs() and not metrics.backpressured
        return lengths(scenario, scenario.run, latency_s, self.question.precision, steady=goes_on)
