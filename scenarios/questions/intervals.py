"""Intervals of means over runs: the error by chance (Student's t), and the grain of the averaged values."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from scenarios.files.documents import Number
from scenarios.planning.outcomes import half_width95
from twin.engine.sketch import GROWTH

QUANTILE_GRAIN = math.sqrt(GROWTH) - 1.0
"""Relative error of a quantile, the middle of a histogram's bucket: in every run the true one may be at an edge."""
NOISE = 1e-12
"""Share of a mean below which a spread is due to rounding of sums."""


class Interval(NamedTuple):
    """Mean with its errors: +- chance (95 %; None if it is not known), and +- grain, however many runs there are."""

    mean: float
    chance: float | None
    grain: float

    @property
    def half_width95(self) -> float | None:
        """Half of the 95 % interval: chance and grain together; None if chance is not known."""
        return None if self.chance is None else self.chance + self.grain


@dataclass(frozen=True, slots=True)
class MeanOfRuns:
    """A mean over runs, half its 95 % interval, and the runs' own values; null where a run has no finite one."""

    mean: Number
    half_width95: Number
    values: tuple[Number, ...]


def of_mean(values: np.ndarray, metric: str) -> Interval:
    """Mean of one case with its errors. values: [R], one for each run."""
    mean = float(np.mean(values))
    return Interval(mean, _chance(values), grain(metric) * abs(mean) if math.isfinite(mean) else 0.0)


def of_difference(values: np.ndarray, first: np.ndarray, metric: str) -> Interval:
    """Mean of `values` - `first` with its errors; both are [R] over the same runs, and finite."""
    both = abs(float(np.mean(values))) + abs(float(np.mean(first)))
    return Interval(float(np.mean(values - first)), _chance(values - first, both), grain(metric) * both)


def runs_for(values: np.ndarray, half_width: float, most: int) -> int:
    """Number of runs that narrow half of the 95 % interval of their mean to `half_width`, if they vary as these [R] do:
    at least R, and at most `most`."""
    from scipy.special import stdtrit  # here, because most commands need no SciPy

    spread = float(np.std(values, ddof=1)) if len(values) > 1 else 0.0
    counts = np.arange(len(values), max(most, len(values)))
    enough = stdtrit(counts - 1, 0.975) * spread <= half_width * np.sqrt(counts)
    return int(counts[enough][0]) if enough.any() else max(most, len(values))


def p_value(apart: np.ndarray, grain: float = 0.0) -> float:
    """p-value of paired differences `apart` [R], R >= 2: the probability of a mean so far beyond the grain by chance.

    Two-sided, Student's t.
    """
    beyond, spread = max(0.0, abs(float(np.mean(apart))) - grain), float(np.std(apart, ddof=1))
    if spread == 0.0 or beyond == 0.0:
        return 0.0 if beyond else 1.0
    from scipy.special import stdtr  # here, because most commands need no SciPy

    return float(2.0 * stdtr(len(apart) - 1, -beyond / spread * math.sqrt(len(apart))))


def grain(metric: str) -> float:
    """Grain of a metric, as a share of its value."""
    return QUANTILE_GRAIN if metric.rpartition(".")[2] in ("p50", "p95", "p99") else 0.0


def _chance(values: np.ndarray, scale: float | None = None) -> float | None:
    half = half_width95(values)
    size = abs(float(np.mean(values))) if scale is None else scale
    return 0.0 if half is not None and half < NOISE * size else half
