"""Diurnal law: a rate that rises and falls like a day's."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Annotated, Literal, Self

import numpy as np
from pydantic import Field

from twin.arrivals.law import Phase, PhaseLength, Rate, Varying

SLICES = 64
"""Phases a period. Each has the mean of the sinusoid, so counts over whole phases are those of the sinusoid."""


class Diurnal(Varying):
    """Law whose rate follows a sinusoid: rate x (1 + amplitude x sin(2 pi (t / period + phase)))."""

    law: Literal["diurnal"] = "diurnal"
    rate_per_s: Annotated[Rate, Field(description="mean over a period")]
    amplitude: Annotated[float, Field(ge=0, le=1, description="share of the mean; 1: down to nothing")] = 0.5
    period_s: PhaseLength = 86_400.0
    phase: Annotated[float, Field(ge=0, le=1, description="share of a period that is over at time 0")] = 0.0

    @property
    def mean_rate_per_s(self) -> float:
        """Mean rate over a period."""
        return self.rate_per_s

    @property
    def peak_rate_per_s(self) -> float:
        """Rate at the top of the wave."""
        return self.rate_per_s * (1.0 + self.amplitude)

    def phases(self, rng: np.random.Generator) -> Iterator[Phase]:
        """SLICES phases a period, without end."""
        angles = 2.0 * math.pi * (np.arange(SLICES + 1) / SLICES + self.phase)
        swing = -np.diff(np.cos(angles)) * SLICES / (2.0 * math.pi)  # the sine's mean over each slice
        rates = np.maximum(0.0, self.rate_per_s * (1.0 + self.amplitude * swing)).tolist()
        while True:
            for rate_per_s in rates:
                yield self.period_s / SLICES, rate_per_s

    def scaled(self, factor: float) -> Self:
        """Law with the mean multiplied by a factor > 0, and the wave with it."""
        return self.model_copy(update={"rate_per_s": self.rate_per_s * factor})
