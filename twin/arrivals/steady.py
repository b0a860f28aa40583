"""Laws of constant rate: evenly spaced, and Poisson."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Literal, Self

import numpy as np

from twin.arrivals.law import Phase, Rate
from twin.spec import Spec


class _Steady(Spec):
    rate_per_s: Rate

    @property
    def mean_rate_per_s(self) -> float:
        """Mean rate, in tuples a second."""
        return self.rate_per_s

    @property
    def peak_rate_per_s(self) -> float:
        """Highest rate, which is the mean rate."""
        return self.rate_per_s

    def phases(self, rng: np.random.Generator) -> Iterator[Phase]:
        """A single phase, without end."""
        yield math.inf, self.rate_per_s

    def scaled(self, factor: float) -> Self:
        """Law with the rate multiplied by a factor > 0."""
        return self.model_copy(update={"rate_per_s": self.rate_per_s * factor})


class Constant(_Steady):
    """Law of evenly spaced tuples."""

    law: Literal["constant"] = "constant"

    @property
    def gap_scv(self) -> float:
        """Squared coefficient of variation of gaps: 0, as all are equal."""
        return 0.0


class Poisson(_Steady):
    """Law of independent exponential gaps."""

    law: Literal["poisson"] = "poisson"

    @property
    def gap_scv(self) -> float:
        """Squared coefficient of variation of gaps: 1, as they are exponential."""
        return 1.0
