"""A calibrated profile as a cost model: the rate model under its constants, and how far its draws differ."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from scenarios.calibration.profile_file import CalibratedProfile, applied, drawn
from twin.metrics import CostModel, Estimates
from twin.plan import ExecutionPlan
from twin.rates.model import RateModel
from twin.scenario import Scenario

LATENCY = "processing_latency_s"


@dataclass(frozen=True, slots=True)
class CalibratedCostModel:
    """name: of the profile's file. base: what predicts under its constants; draws are asked of the rate model."""

    name: str
    profile: CalibratedProfile
    base: CostModel

    def predict(self, scenario: Scenario, plans: Sequence[ExecutionPlan]) -> Estimates:
        """What the base says of the calibrated scenario. spread: of the base, and of the draws.

        Raises BadInput for a scenario that the profile is not of.
        """
        found = self.base.predict(applied(self.profile, scenario), plans)
        return Estimates(found.by_metric, np.hypot(found.spread, self._disagreement(scenario, plans)))

    def blind_to(self, scenario: Scenario) -> tuple[str, ...]:
        """What the base model ignores."""
        return self.base.blind_to(scenario)

    def _disagreement(self, scenario: Scenario, plans: Sequence[ExecutionPlan]) -> np.ndarray:
        """[N] standard deviation of the log latency over the draws; 0 if there are none."""
        under = drawn(self.profile, scenario)
        if not under:
            return np.zeros(len(plans))
        latencies_dn = np.array([RateModel().predict(each, plans)[LATENCY] for each in under])
        return np.asarray(np.log(np.maximum(latencies_dn, 1e-9)).std(axis=0))
