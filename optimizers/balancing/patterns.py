"""ALBIC's four partitioning patterns (Fig. 1) as traffic from N key groups to M: an [N, M] matrix of rates."""

from __future__ import annotations

import numpy as np

from twin.alignment import Alignment, parts
from twin.errors import BadInput


def one_to_one(rate_n: np.ndarray) -> np.ndarray:
    """Each group sends to one of its own, which receives from no other."""
    return np.diag(_rates(rate_n))


def partial_merge(rate_n: np.ndarray, receivers: int) -> np.ndarray:
    """Each group sends all to one receiver, neighbours to the same. Raises BadInput for more receivers than senders."""
    rate_n = _rates(rate_n)
    _check("receivers", receivers, len(rate_n))
    return rate_n[:, None] * parts(Alignment(pattern="partial-merge"), len(rate_n), receivers)


def partial_partitioning(rate_n: np.ndarray, receivers: int, degree: int) -> np.ndarray:
    """Each group sends evenly to `degree` receivers in a row. Raises BadInput unless 1 <= degree <= receivers."""
    rate_n = _rates(rate_n)
    _check("degree", degree, receivers)
    return rate_n[:, None] * parts(Alignment(pattern="partial-partitioning", degree=degree), len(rate_n), receivers)


def full_partitioning(rate_n: np.ndarray, receivers: int) -> np.ndarray:
    """Each group sends evenly to all receivers."""
    return partial_partitioning(rate_n, receivers, receivers)


def _rates(rate_n: np.ndarray) -> np.ndarray:
    rate_n = np.asarray(rate_n, float)
    if rate_n.ndim != 1 or not len(rate_n) or not (np.isfinite(rate_n) & (rate_n >= 0.0)).all():
        raise BadInput("a pattern needs the rates of one key group at least, numbers >= 0")
    return rate_n


def _check(name: str, value: int, most: int) -> None:
    if not 1 <= value <= most:
        raise BadInput(f"{name} must be from 1 to {most}, got {value}")
