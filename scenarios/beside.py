"""Predictions beside runs: what makes a prediction doubtful, and what runs of the same job say of it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from optimizers.objectives import at_rate
from scenarios.files.documents import Number
from twin.metrics import CostModel
from twin.quantities import written
from twin.rates.model import RateModel
from twin.scenario import Scenario

# what makes a prediction doubtful ------------------------------------------------------------------------------------
# What makes a prediction for a scenario doubtful: parts of it that a model does not see, and a limit that is near.


NUDGE, STEEP = 0.05, 1.2
"""Share by which loads are moved to see whether latencies depend on them, and the factor on latencies from which they
do: of random jobs, a prediction in fourteen is then named, and those that were off by more than 1.3 near a limit."""


def doubts(model: CostModel, scenario: Scenario) -> tuple[str, ...]:
    """What a cost model does not see of a scenario under its own plan, in words: parts that it ignores, and its load
    where latencies are steep."""
    return (*model.blind_to(scenario), *steepness(scenario))


def steepness(scenario: Scenario) -> tuple[str, ...]:
    """Words on latencies that NUDGE more records, or fewer, move by more than STEEP, by the rate model; empty if they
    do not.

    Loads are known to some per cent, so such latencies are known to no better than that, whichever model predicts them.
    """
    loads = [at_rate(scenario, factor) for factor in (1.0 - NUDGE, 1.0, 1.0 + NUDGE)]
    less, now, more = (RateModel().answer(load, [scenario.plan]) for load in loads)
    ages_s = [float(each.costs["processing_latency_s"][0]) for each in (less, now, more)]
    most = max(max(pair) / max(min(pair), 1e-12) for pair in pairwise(ages_s))
    if most <= STEEP:
        return ()
    pressures = dict(zip(now.operators, now.offered_pressure[0], strict=True))
    fullest = max(pressures, key=lambda name: pressures[name])
    moved = f"{NUDGE:.0%} moves latencies by a factor of {written(most, 2)}"
    return (f"loads to better than {NUDGE:.0%}, and {moved} ({fullest} is fullest, at {pressures[fullest]:.0%})",)


# a prediction beside runs --------------------------------------------------------------------------------------------
# A prediction beside the runs of the same job, as one answer: the runs decide, and the prediction has its error.
#
# All questions that know both say it in these words.


APART = 1.2
"""Factor from which on a prediction is said to contradict runs."""
NAMES = {"rates": "the rate model"}
"""Names of cost models in sentences; others are called by their own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PredictionBesideRuns:
    """Prediction of a cost model beside runs. predicted, run: the quantity that is asked for, by both; null if there is
    none, as of a limit that does not exist. factor: predicted over run; null if one is null, or the runs give 0.
    predicted_keeps_up, keeps_up: whether the job keeps up, by both, where that is asked too. agrees: whether none of
    these contradicts the runs. blind_to: features of the job that the model does not see.
    """

    model: str
    predicted: Number
    run: Number
    factor: Number
    predicted_keeps_up: bool | None
    keeps_up: bool | None
    agrees: bool
    blind_to: tuple[str, ...]

    @classmethod
    def of(
        cls,
        predicted: float | None,
        run: float | None,
        blind_to: Sequence[str] = (),
        *,
        model: str = "rates",
        keep_up: tuple[bool, bool] | None = None,
        interval: tuple[float, float] | None = None,
    ) -> PredictionBesideRuns:
        """Both side by side; a value that is not finite counts as none. keep_up: whether the job keeps up by the
        prediction, and in the runs. interval: values that the runs cannot tell from their own."""
        predicted, run = (None if value is None or not math.isfinite(value) else value for value in (predicted, run))
        factor = predicted / run if predicted is not None and run else None
        near = predicted == run or (factor is not None and 1 / APART <= factor <= APART)
        if predicted is not None and interval is not None:
            near = near or interval[0] <= predicted <= interval[1]
        said, found = keep_up or (None, None)
        return cls(
            model=model,
            predicted=predicted,
            run=run,
            factor=factor,
            predicted_keeps_up=said,
            keeps_up=found,
            agrees=near and said == found,
            blind_to=tuple(blind_to),
        )

    @property
    def off(self) -> str:
        """Error of the prediction in words; empty if one of both has no value."""
        if self.factor is None or self.factor <= 0.0:
            return ""
        side = "high" if self.factor > 1.0 else "low"
        if round(100 * abs(self.factor - 1)) == 0:
            return "within 1 %"
        if 0.5 < self.factor < 2.0:
            return f"{100 * abs(self.factor - 1):.0f} % too {side}"
        return f"too {side} by a factor of {written(max(self.factor, 1 / self.factor))}"

    @property
    def off_short(self) -> str:
        """The same for a cell of a table: +3 %, or x 6.8."""
        if self.factor is None or self.factor <= 0.0:
            return ""
        return f"{100 * (self.factor - 1):+z.0f} %" if 0.5 < self.factor < 2.0 else f"x {written(self.factor, 2)}"

    def told(self, shown: str) -> list[str]:
        """Sentences: the prediction, written as `shown`, with its error; and what is to be said of a contradiction."""
        line = f"predicted by {self.model}: {shown}"
        return [f"{line}, {self.off}" if self.agrees and self.off else line, *filter(None, [self.careful])]

    @property
    def careful(self) -> str:
        """Sentence on a prediction that contradicts the runs, and on what explains that; empty if it does not."""
        if self.agrees:
            return ""
        if self.blind_to:
            why = f"of this job {self._name} does not see: {'; '.join(dict.fromkeys(self.blind_to))}"
        else:
            why = f"{self._name} claims to see all of this job, so this is its fault"
        return f"careful: {self._apart}. Trust the runs; {why}"

    @property
    def _name(self) -> str:
        return NAMES.get(self.model, f"the cost model {self.model}")

    @property
    def _apart(self) -> str:
        if self.predicted_keeps_up != self.keeps_up:
            said, found = (
                "keeps up" if each else "does not keep up" for each in (self.predicted_keeps_up, self.keeps_up)
            )
            return f"{self._name} predicts that the job {said}, but in runs it {found}"
        if self.off:
            return f"the prediction is {self.off}"
        if self.predicted is not None and self.run is not None:  # one of them is 0
            return f"the prediction is {written(self.predicted)}, and the runs give {written(self.run)}"
        by = ("prediction", "runs") if self.run is None else ("runs", "prediction")
        return f"by the {by[0]} there is a value, and by the {by[1]} there is none"
