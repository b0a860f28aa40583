"""A calibrated profile as a cost model: the rate model under its constants, and how wide its intervals are."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy import stats

from scenarios.calibration.intervals import LEVEL
from scenarios.calibration.profile_file import CalibratedProfile, applied, ends
from twin.metrics import CostModel, Estimates
from twin.plan import ExecutionPlan
from twin.rates.model import RateModel
from twin.scenario import Scenario

LATENCY = "processing_latency_s"


@dataclass(frozen=True, slots=True)
class CalibratedCostModel:
    """name: of the profile's file. base: what predicts under its constants; intervals are the rate model's."""

    name: str
    profile: CalibratedProfile
    base: CostModel

    def predict(self, scenario: Scenario, plans: Sequence[ExecutionPlan]) -> Estimates:
        """What the base says of the calibrated scenario. spread: of the base, and of the intervals.

        Raises BadInput for a scenario that the profile is not of.
        """
        found = self.base.predict(applied(self.profile, scenario), plans)
        return Estimates(found.by_metric, np.hypot(found.spread, self._width(scenario, plans)))

    def blind_to(self, scenario: Scenario) -> tuple[str, ...]:
        """What the base model ignores."""
        return self.base.blind_to(scenario)

    def _width(self, scenario: Scenario, plans: Sequence[ExecutionPlan]) -> np.ndarray:
        """[N] standard deviation of the log latency, as of a normal one with these intervals."""
        kind, intervals = "latency", self.profile.intervals
        latencies = [RateModel().predict(each, plans)[LATENCY] for each in ends(self.profile, scenario)]
        low_n, high_n = np.sort(np.maximum(latencies, 1e-9), axis=0)
        widened = math.log(intervals.beyond[kind].factor) if kind in intervals.beyond else 0.0
        return np.asarray((np.log(high_n / low_n) / 2.0 + widened) / stats.norm.ppf(0.5 + LEVEL / 2.0))
