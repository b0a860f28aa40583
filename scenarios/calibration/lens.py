"""Rows of runs as a calibrated profile sees them, for models that learn what it misses."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import cached_property

from scenarios.calibration.profile_file import CalibratedProfile, applied, dump
from twin.deployment import Deployment
from twin.scenario import Scenario

LEARN_FROM = 200
"""Measured runs from which fine-tuning was of use on hidden engines; with fewer the rate model alone is as good."""


@dataclass(frozen=True)
class UnderProfile:
    """A models.encoding.Reprofiled: every deployment under the profile's constants."""

    profile: CalibratedProfile

    @cached_property
    def name(self) -> str:
        """A hash of all that the profile says."""
        return f"profile-{hashlib.sha256(dump(self.profile).encode()).hexdigest()[:12]}"

    def __call__(self, deployment: Deployment, run: str) -> Deployment:
        """Raises BadInput if costs are of operators that the deployment does not have."""
        return applied(self.profile, Scenario.of(deployment).model_copy(update={"name": run})).deployment
