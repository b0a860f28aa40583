"""Kinds of plans by what the rate model says of them: its errors, and so what corrects them, are others for each."""

from __future__ import annotations

import numpy as np

from twin.metrics import BINARY_METRICS, METRICS

CONGESTED, RARE = 0.05, 0.98
"""Probabilities of backpressure above which, and of a result below which, plans are of a kind of their own."""
KINDS = ("calm", "rare results", "congested")


def kinds_of_plans(rates_NxA: np.ndarray) -> np.ndarray:
    """[N]: index into KINDS, by the rate model's answers in the order of METRICS."""
    backpressured, success = (rates_NxA[:, METRICS.index(name)] for name in BINARY_METRICS)
    return np.where(backpressured > CONGESTED, 2, np.where(success < RARE, 1, 0))
