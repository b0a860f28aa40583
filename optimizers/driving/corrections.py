"""Relative corrections of the rate model's coefficients, fitted to what a black box said of some plans.

A ridge regression of what the black box says otherwise on the terms of each plan. The prior (corrections of some 30 %)
is what keeps the search near the physics: no trust region is needed. Plans far worse than the best say little of the
best ones, so they count less.
"""

from __future__ import annotations

import numpy as np

PRIOR = 0.3
"""Standard deviation of a correction, relative to its coefficient."""
NOISE = 0.1
"""Of what the black box says, relative to the best plan known."""
FAR, SELDOM = 3.0, 0.2
"""Plans that cost so many times the best count so much."""
LEAST, MOST = -0.8, 3.0
"""A coefficient becomes no less than a fifth, and no more than four times, of what it is."""


def fitted(terms_nj: np.ndarray, otherwise_n: np.ndarray, cost_n: np.ndarray) -> np.ndarray:
    """Corrections [J]. otherwise_n: what the black box says, less what the rate model says; cost_n: the former."""
    best = float(cost_n.min())
    weight_n = np.where(cost_n > FAR * best, SELDOM, 1.0) / (NOISE * best) ** 2
    weighted_nj = terms_nj * weight_n[:, None]
    kernel = terms_nj.T @ weighted_nj + np.eye(terms_nj.shape[1]) / PRIOR**2
    return np.clip(np.linalg.solve(kernel, weighted_nj.T @ otherwise_n), LEAST, MOST)
