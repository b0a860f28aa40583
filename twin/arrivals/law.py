"""Interface of arrival laws: the rate over time, and the variation of the gaps between tuples."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Annotated, Protocol, Self

import numpy as np
from pydantic import Field

from twin.spec import Spec

MAX_RATE_PER_S = 10**9
MIN_RATE_PER_S = 1e-9
"""Lowest rate: one tuple in 30 years. Lower ones mean no tuples, and reciprocals of far lower ones overflow."""
Rate = Annotated[float, Field(ge=MIN_RATE_PER_S, le=MAX_RATE_PER_S, description="tuples a second")]
RateOrNone = Annotated[float, Field(ge=0, le=MAX_RATE_PER_S, description="tuples a second; 0: nothing arrives")]
PhaseLength = Annotated[float, Field(ge=1e-3, le=10**9, description="seconds")]
"""Length of a phase that repeats: phases shorter than a millisecond cost time and change nothing."""

Phase = tuple[float, float]
"""Stretch of time at one rate: (length in seconds > 0 or infinite, tuples a second >= 0)."""


class ArrivalLaw(Protocol):
    """Interface of a source's arrival law: a sequence of phases. The clock draws the random times within them."""

    @property
    def mean_rate_per_s(self) -> float:
        """Tuples a second in the long run, > 0, for analytic models and features."""

    @property
    def peak_rate_per_s(self) -> float:
        """Highest rate of any phase."""

    @property
    def gap_scv(self) -> float:
        """Squared coefficient of variation of the time between tuples, within a phase: 0 if they are evenly spaced."""

    def phases(self, rng: np.random.Generator) -> Iterator[Phase]:
        """Phases from time 0 on; after the last, if there is one, nothing arrives. rng: for random phases."""

    def scaled(self, factor: float) -> Self:
        """Law with all rates multiplied by a factor > 0."""


class Varying(Spec):
    """Base of laws whose rate changes."""

    poisson: Annotated[bool, Field(description="false: tuples are evenly spaced within a phase")] = True

    @property
    def gap_scv(self) -> float:
        """Squared coefficient of variation of gaps within a phase: 1 for exponential gaps, 0 for equal ones."""
        return 1.0 if self.poisson else 0.0


def require_tuples(rates: Iterable[float], where: str) -> None:
    """Raises ValueError if all rates are below MIN_RATE_PER_S."""
    if not any(rate >= MIN_RATE_PER_S for rate in rates):
        raise ValueError(
            f"{where} is 0 throughout (below {MIN_RATE_PER_S:g}), so that nothing ever arrives; make a rate > 0"
        )
