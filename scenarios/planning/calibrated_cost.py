"""Cost model of a calibrated profile: the rate model under its constants, with a spread from its intervals."""

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
    """Cost model of a profile. name: of its file. base: model that predicts under its constants."""

    name: str
    profile: CalibratedProfile
    base: CostModel

    def predict(self, scenario: Scenario, plans: Sequence[ExecutionPlan]) -> Estimates:
        """Estimates of the base model for the calibrated scenario. spread: of the base and the intervals together.

        Raises BadInput for a scenario that the profile does not fit.
        """
        found = self.base.predict(applied(self.profile, scenario), plans)
        return Estimates(found.by_metric, np.hypot(found.spread, self._width(scenario, plans)))

    def blind_to(self, scenario: Scenario) -> tuple[str, ...]:
        """Features of the scenario that the base model ignores, in words."""
        return self.base.blind_to(scenario)

    def _width(self, scenario: Scenario, plans: Sequence[ExecutionPlan]) -> np.ndarray:
        """[N] standard deviation of the log latency, as if it were normal with these intervals."""
        kind, intervals = "latency", self.profile.intervals
        latencies = [RateModel().predict(each, plans)[LATENCY] for each in ends(self.profile, scenario)]
        low_n, high_n = np.sort(np.maximum(latencies, 1e-9), axis=0)
        widened = math.log(intervals.beyond[kind].factor) if kind in intervals.beyond else 0.0
        return np.asarray((np.log(high_n / low_n) / 2.0 + widened) / stats.norm.ppf(0.5 + LEVEL / 2.0))
