"""Outcomes of plans in the simulator, and the regret of one against another."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from optimizers.objectives import OBJECTIVES
from twin.metrics import Metrics


@dataclass(frozen=True, slots=True)
class PlanOutcome:
    """Outcome of one plan's replications: values [R] of the objective, lower is better (throughput is negated).

    A latency is inf in a replication without results; `mean` is over the others. Flags are by majority. backpressured:
    or falling behind otherwise (`Metrics.falls_behind`).
    """

    values: np.ndarray
    backpressured: bool
    success: bool

    @classmethod
    def of(cls, runs: Sequence[Metrics], objective: str) -> PlanOutcome:
        """Outcome of a plan's runs. runs: at least one."""
        sign = 1.0 if OBJECTIVES[objective].better == "min" else -1.0
        return cls(
            sign * np.array([run.value(objective) for run in runs]),
            backpressured=bool(np.mean([run.falls_behind for run in runs]) > 0.5),
            success=bool(np.mean([run.success for run in runs]) >= 0.5),
        )

    @property
    def mean(self) -> float:
        """Mean of the finite values; inf if no replication had results."""
        finite = self.values[np.isfinite(self.values)]
        return float(np.mean(finite)) if len(finite) else math.inf

    @property
    def rank(self) -> tuple[int, float]:
        """Kind (0: keeps up, 1: backpressured, 2: failed) and mean; smaller is better."""
        level = 2 if not self.success else int(self.backpressured)
        return level, self.mean


def regret_of(outcome: PlanOutcome, best: PlanOutcome) -> tuple[float, float | None]:
    """Relative distance to the best, and half of its 95 % interval. Values are all positive (latencies) or negative
    (rates)."""
    if outcome is best or outcome.rank == best.rank:
        return 0.0, 0.0
    above, below = (outcome, best) if best.mean >= 0 else (best, outcome)
    if outcome.rank[0] != best.rank[0] or not math.isfinite(outcome.mean) or below.mean == 0:
        return math.inf, None
    ratio = above.mean / below.mean
    # first-order error of a ratio of paired means (delta method)
    return ratio - 1.0, half_width95((above.values - ratio * below.values) / below.mean)


def half_width95(values: np.ndarray) -> float | None:
    """Half of the 95 % confidence interval of a mean (Student's t); None for one value or for infinite ones."""
    if len(values) < 2 or not np.all(np.isfinite(values)):
        return None
    from scipy.special import stdtrit  # here, because most commands need no SciPy

    quantile = float(stdtrit(len(values) - 1, 0.975))
    return quantile * float(np.std(values, ddof=1)) / math.sqrt(len(values))
