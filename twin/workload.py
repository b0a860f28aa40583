"""How tuples reach the broker. Each law knows its mean rate and the variability of its gaps."""

from __future__ import annotations

from typing import Annotated, Literal, Protocol

import numpy as np
from pydantic import Field

from twin.keys import KeySkew
from twin.spec import Spec

Rate = Annotated[float, Field(gt=0, le=10**9, description="tuples a second")]


class ArrivalLaw(Protocol):
    """What the broker asks of a law."""

    @property
    def mean_rate_per_s(self) -> float:
        """Long-run tuples a second."""

    @property
    def gap_scv(self) -> float:
        """Squared coefficient of variation of the time between two tuples."""

    def gap_s(self, rng: np.random.Generator, tuples: int) -> float:
        """Time in which the next `tuples` tuples arrive (one draw; the sum of that many gaps)."""


class Constant(Spec):
    """Evenly spaced tuples."""

    law: Literal["constant"] = "constant"
    rate_per_s: Rate

    @property
    def mean_rate_per_s(self) -> float:
        """Long-run tuples a second."""
        return self.rate_per_s

    @property
    def gap_scv(self) -> float:
        """Gaps are all equal."""
        return 0.0

    def gap_s(self, rng: np.random.Generator, tuples: int) -> float:
        """Exactly tuples / rate."""
        return tuples / self.rate_per_s


class Poisson(Spec):
    """Independent exponential gaps."""

    law: Literal["poisson"] = "poisson"
    rate_per_s: Rate

    @property
    def mean_rate_per_s(self) -> float:
        """Long-run tuples a second."""
        return self.rate_per_s

    @property
    def gap_scv(self) -> float:
        """Of an exponential gap."""
        return 1.0

    def gap_s(self, rng: np.random.Generator, tuples: int) -> float:
        """A sum of exponentials is a Gamma variate."""
        return float(rng.standard_gamma(tuples)) / self.rate_per_s


Arrivals = Annotated[Constant | Poisson, Field(discriminator="law")]


class Workload(Spec):
    """The arrival law of each source, and how the tuples into keyed operators are spread over their key groups."""

    arrivals: dict[str, Arrivals]
    keys: dict[str, KeySkew] = Field(default_factory=dict, description="by operator; absent: all key groups alike")
