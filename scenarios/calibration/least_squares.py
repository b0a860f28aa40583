"""Non-negative least squares with a prior: unit costs from rows of CPU time, with their standard errors."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy import optimize, stats

from scenarios.calibration.design import Rows
from scenarios.calibration.unit_costs import UnitCost

PRIOR_SPREAD = 3.0
"""Standard deviation of the prior of a cost, relative to the larger of the profile's and the fitted cost: wide, so that
data decide wherever there are any."""
LEAST_ERROR = 1e-3
"""Least relative error of readings."""
FIRST_ERROR = 1e-6
"""Error of the readings in the first round, before it is known: so small that the prior hardly counts."""
ROUNDS = 4
UNSAID = 1.0
"""Scale of a cost, in its unit, where the profile has 0."""
FAR = 3.0
"""Number of typical errors beyond which a row counts for less (Huber), given ENOUGH degrees of freedom to judge by."""
ENOUGH = 10
FLOORS = (0.01, 0.1, 1.0)
"""Shares of a core below which errors of readings are absolute, and above which relative; the likeliest is taken."""


@dataclass(frozen=True, slots=True)
class LinearFit:
    """Fitted costs. values_k: in their units; covariance_kk: of these. weight_r: of rows; errors_r: of rows, weighted.

    freedom: degrees of freedom. deviance: minus twice the log-likelihood, up to a constant.
    """

    values_k: np.ndarray
    covariance_kk: np.ndarray
    weight_r: np.ndarray
    errors_r: np.ndarray
    freedom: int
    deviance: float

    @property
    def spread_k(self) -> np.ndarray:
        """Standard errors of the costs [K]."""
        return np.sqrt(np.diag(self.covariance_kk))

    def intervals_k2(self) -> np.ndarray:
        """Ends of 95 % confidence intervals, >= 0 [K, 2]."""
        width_k = self.spread_k * stats.t.ppf(0.975, max(self.freedom, 1))
        return np.maximum(np.stack([self.values_k - width_k, self.values_k + width_k], axis=1), 0.0)


def fit(rows: Rows, costs: Sequence[UnitCost]) -> LinearFit:
    """Fits the costs that explain the rows best, each >= 0, and the error of the readings with them."""
    weights = [rows.trust_r / (floor + rows.cores_r) for floor in FLOORS]
    return min((_weighted(rows, costs, weight_r) for weight_r in weights), key=lambda found: found.deviance)


def _weighted(rows: Rows, costs: Sequence[UnitCost], weight_r: np.ndarray) -> LinearFit:
    prior_k = np.array([each.prior for each in costs])
    scale_k = used_k = np.maximum(prior_k, UNSAID * (prior_k == 0.0))
    shown = int((np.abs(rows.need_rk).max(axis=0, initial=0.0) > 1e-9).sum())
    freedom = max(1, len(rows.cores_r) - shown)
    asked_r = (rows.cores_r - rows.base_r) * weight_r
    need_rk, errors_r, values_k, error = rows.need_rk, asked_r, prior_k, FIRST_ERROR
    plain_r = weight_r
    for _ in range(ROUNDS):
        asked_r = (rows.cores_r - rows.base_r) * weight_r
        need_rk, used_k = rows.need_rk * weight_r[:, None] * scale_k, scale_k
        pull = error / PRIOR_SPREAD
        stacked = np.vstack([need_rk, pull * np.eye(len(costs))])
        found_k, _ = optimize.nnls(stacked, np.concatenate([asked_r, pull * prior_k / scale_k]))
        errors_r, values_k = asked_r - need_rk @ found_k, found_k * scale_k
        error = max(LEAST_ERROR, float(np.sqrt((errors_r**2).sum() / freedom)))
        scale_k = np.maximum(scale_k, values_k)
        weight_r = plain_r * _huber(errors_r * plain_r / weight_r, freedom)
    information_kk = need_rk.T @ need_rk / error**2 + np.eye(len(costs)) / PRIOR_SPREAD**2
    covariance_kk = np.linalg.inv(information_kk) * np.outer(used_k, used_k)
    deviance = 2.0 * len(asked_r) * float(np.log(error)) - 2.0 * float(np.log(plain_r).sum())
    errors_r = (rows.cores_r - rows.base_r - rows.need_rk @ values_k) * plain_r
    return LinearFit(values_k, covariance_kk, plain_r, errors_r, freedom, deviance)


def _huber(errors_r: np.ndarray, freedom: int) -> np.ndarray:
    """Square roots of the Huber weights of rows."""
    if freedom < ENOUGH:
        return np.ones_like(errors_r)
    far = FAR * max(float(np.median(np.abs(errors_r))) / 0.6745, LEAST_ERROR)
    return np.asarray(np.sqrt(np.minimum(1.0, far / np.maximum(np.abs(errors_r), 1e-12))))
