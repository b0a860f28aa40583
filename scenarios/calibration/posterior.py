"""Draws from what points leave open: constants that all explain them, as far apart as the points allow.

Unit costs are normal around the least squares, given that none is negative (Gibbs sampling, a cost at a time given the
others); what Newton found is normal in its logarithms. What all draws agree on does not hang on what is unknown.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from scipy import special

from scenarios.calibration.least_squares import LinearFit
from scenarios.calibration.newton import NewtonFit
from twin.randomness import stream
from twin.spec import Spec

DRAWS = 12
SWEEPS = 60
TINY = 1e-12


class Draw(Spec):
    """Constants that the points could as well have come from: unit costs and others, by name."""

    costs: Mapping[str, float]
    hidden: Mapping[str, float]


def linear(fit: LinearFit, names: Sequence[str], seed: int = 0) -> list[dict[str, float]]:
    """Unit costs, drawn DRAWS times."""
    rng = stream(seed, "posterior-costs")
    spread_k = np.maximum(fit.spread_k, TINY)
    mean_k, correlation_kk = fit.values_k / spread_k, fit.covariance_kk / np.outer(spread_k, spread_k)
    precision_kk = np.linalg.pinv(correlation_kk)
    drawn_dk = np.tile(mean_k, (DRAWS, 1))
    for _ in range(SWEEPS):
        for k in range(len(names)):
            others_d = (drawn_dk - mean_k) @ precision_kk[:, k] - (drawn_dk[:, k] - mean_k[k]) * precision_kk[k, k]
            own = max(float(precision_kk[k, k]), TINY)
            drawn_dk[:, k] = _above_zero(mean_k[k] - others_d / own, own**-0.5, rng)
    return [dict(zip(names, map(float, row), strict=True)) for row in drawn_dk * spread_k]


def _above_zero(mean_d: np.ndarray, spread: float, rng: np.random.Generator) -> np.ndarray:
    """Normal numbers, given that they are not negative: by their survival function, which is exact far out."""
    beyond_d = rng.uniform(TINY, 1.0, len(mean_d)) * special.ndtr(mean_d / spread)
    return np.maximum(mean_d - spread * special.ndtri(np.maximum(beyond_d, 1e-300)), 0.0)


def logarithmic(fit: NewtonFit, priors: Mapping[str, float], seed: int = 0) -> list[dict[str, float]]:
    """Constants found as logarithms of ratios to their priors, drawn DRAWS times."""
    rng = stream(seed, "posterior-logs")
    logs_dk = rng.multivariate_normal(fit.logs_k, fit.covariance_kk, DRAWS, method="eigh")
    ratios_dk = np.exp(np.clip(logs_dk, -20.0, 20.0))
    return [{name: prior * float(r) for (name, prior), r in zip(priors.items(), row, strict=True)} for row in ratios_dk]
