"""A rate that is low for one second and high for the next."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal, Self

import numpy as np

from twin.arrivals.laws import Phase, Rate, Varying


class Sawtooth(Varying):
    """Arrival law with two rates in turn, for a second each."""

    law: Literal["sawtooth"] = "sawtooth"
    low_per_s: Rate
    high_per_s: Rate

    @property
    def mean_rate_per_s(self) -> float:
        """Mean of both rates."""
        return (self.low_per_s + self.high_per_s) / 2.0

    @property
    def peak_rate_per_s(self) -> float:
        """Higher rate."""
        return max(self.low_per_s, self.high_per_s)

    def phases(self, rng: np.random.Generator) -> Iterator[Phase]:
        """Both rates in turn, without end."""
        while True:
            yield 1.0, self.low_per_s
            yield 1.0, self.high_per_s

    def scaled(self, factor: float) -> Self:
        """Law with both rates multiplied."""
        rates = {"low_per_s": self.low_per_s * factor, "high_per_s": self.high_per_s * factor}
        return self.model_copy(update=rates)
