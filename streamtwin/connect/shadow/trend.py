"""A straight line through the last windows of a rate, if there is one for sure."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

FEWEST = 4
"""Windows from which a trend can be told from chance."""
LEVEL = 3
"""Windows whose mean a rate without a trend is."""
CONFIDENCE = 0.95


@dataclass(frozen=True, slots=True)
class Trend:
    """Tuples a second now, by how much they grow in a second, and half the 95 % interval of that (None: not known)."""

    now_per_s: float
    slope_per_s2: float = 0.0
    half_width95: float | None = None

    def ahead(self, seconds: float) -> float:
        """The rate then; never below 0."""
        return max(0.0, self.now_per_s + self.slope_per_s2 * seconds)


def trend(times_s: Sequence[float], rates_per_s: Sequence[float], now_s: float) -> Trend:
    """times_s: of the rates, ascending; at least one. The slope is 0 unless it surely is not (Student's t)."""
    level = float(np.mean(rates_per_s[-LEVEL:]))
    if len(times_s) < FEWEST:
        return Trend(level)
    x, y = np.array(times_s) - now_s, np.array(rates_per_s)
    slope, now = np.polyfit(x, y, 1)
    half = _half_width(x, y - now - slope * x)
    if abs(slope) <= half or not math.isfinite(slope):
        return Trend(level, 0.0, half)
    return Trend(max(0.0, float(now)), float(slope), half)


def _half_width(x: np.ndarray, residuals: np.ndarray) -> float:
    """Half the interval of the slope, by the scatter about the line."""
    from scipy import stats

    free = len(x) - 2
    scatter = math.sqrt(float(np.sum(residuals**2)) / free / float(np.sum((x - x.mean()) ** 2)))
    return float(stats.t.ppf((1 + CONFIDENCE) / 2, free)) * scatter
