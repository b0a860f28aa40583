"""The laws of constant rate: evenly spaced, and Poisson."""

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
        """Long-run tuples a second."""
        return self.rate_per_s

    @property
    def peak_rate_per_s(self) -> float:
        """The rate."""
        return self.rate_per_s

    def phases(self, rng: np.random.Generator) -> Iterator[Phase]:
        """One, without end."""
        yield math.inf, self.rate_per_s

    def scaled(self, factor: float) -> Self:
        """The rate multiplied."""
        return self.model_copy(update={"rate_per_s": self.rate_per_s * factor})


class Constant(_Steady):
    """Evenly spaced tuples."""

    law: Literal["constant"] = "constant"

    @property
    def gap_scv(self) -> float:
        """Gaps are all equal."""
        return 0.0


class Poisson(_Steady):
    """Independent exponential gaps."""

    law: Literal["poisson"] = "poisson"

    @property
    def gap_scv(self) -> float:
        """1, as of exponential gaps."""
        return 1.0
