"""Spikes: a base rate with short spikes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Literal, Self

import numpy as np
from pydantic import Field, model_validator

from twin.arrivals.law import Phase, PhaseLength, Rate, Varying


class Spikes(Varying):
    """Law with `factor` times the base rate for the last `duration_s` of every `every_s`.

    At random times the quiet time between two spikes is exponential, with the same mean.
    """

    law: Literal["spikes"] = "spikes"
    rate_per_s: Annotated[Rate, Field(description="between spikes")]
    factor: Annotated[float, Field(ge=0, le=10**6, description="rate in a spike / rate between spikes")] = 10.0
    every_s: PhaseLength = 60.0
    duration_s: PhaseLength = 5.0
    random: Annotated[bool, Field(description="at random times, every_s apart on average")] = False

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.duration_s >= self.every_s:
            raise ValueError(f"duration_s must be < every_s ({self.every_s:g}), got {self.duration_s:g}")
        return self

    @property
    def mean_rate_per_s(self) -> float:
        """Mean rate over a spike and the quiet time before it."""
        return self.rate_per_s * (1.0 + (self.factor - 1.0) * self.duration_s / self.every_s)

    @property
    def peak_rate_per_s(self) -> float:
        """Rate in a spike, or outside it if the factor is below 1."""
        return self.rate_per_s * max(1.0, self.factor)

    def phases(self, rng: np.random.Generator) -> Iterator[Phase]:
        """Quiet and spike phases in turn, without end."""
        quiet_s = self.every_s - self.duration_s
        while True:
            yield (float(rng.exponential(quiet_s)) if self.random else quiet_s), self.rate_per_s
            yield self.duration_s, self.rate_per_s * self.factor

    def scaled(self, factor: float) -> Self:
        """Law with the base rate multiplied by a factor > 0, and the spikes with it."""
        return self.model_copy(update={"rate_per_s": self.rate_per_s * factor})
