"""The oldest of tuples whose ages do not rise evenly: some were taken before a restart, some waited for it.

What such a window holds is a mixture of spreads, each even.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from twin.engine.windows.history import Span

Spread = tuple[float, float, float]
"""Tuples, evenly spread from the first stamp to the last."""


def spreads(spans: Sequence[Span]) -> tuple[list[Spread], list[Spread]]:
    """Births and ingestions. What rises from each known stamp to the next is taken to rise evenly between them."""
    born: list[Spread] = []
    taken: list[Spread] = []
    for n, stamps in spans:
        for found, column in zip((born, taken), zip(*stamps, strict=True), strict=True):
            if any(low > high for low, high in pairwise(column)):  # results of windows come in any order of their ages
                column = column[0], column[-1]
            found += [(n / (len(column) - 1), low, high) for low, high in pairwise(column)]
    return born, taken


def oldest_of_some(mixture: Sequence[Spread], k: float) -> float:
    """Mean stamp of the oldest of k tuples, drawn from all of these without putting any back; spreads in order of age.

    The mean of the least of k ranks, 0 to N - 1, over spreads whose stamps rise evenly with the ranks. N >= 1.
    """
    total = sum([n for n, _, _ in mixture])
    k = min(k, total)
    mean = rank = 0.0
    for n, low, high in mixture:
        beyond = rank + n  # the chance that the least is at rank j or later, and the sum of that over all later j
        at, later = _least_from(rank, total, k), _least_from(beyond, total, k)
        if n > 1.0:
            after = _least_from(rank + 1.0, total, k) * (total - rank) - later * (total - beyond + 1.0)
            mean += low * (at - later) + (high - low) / (n - 1.0) * (after / (k + 1.0) - (n - 1.0) * later)
        else:
            mean += (low + high) / 2 * (at - later)
        rank = beyond
    return mean


def oldest_between(mixture: Sequence[Spread], k: float) -> tuple[float, float]:
    """An even spread with that mean, from the oldest tuple on or up to the newest."""
    mean, low, high = oldest_of_some(mixture, k), mixture[0][1], mixture[-1][2]
    half = max(0.0, min(mean - low, high - mean))
    return mean - half, mean + half


def _least_from(rank: float, total: float, k: float) -> float:
    """Probability that the least of k ranks out of `total` is at least `rank`."""
    left = total - rank
    if left - k < -1e-9:
        return 0.0
    lost = math.lgamma(total + 1.0) - math.lgamma(total - k + 1.0)
    return math.exp(math.lgamma(left + 1.0) - math.lgamma(max(0.0, left - k) + 1.0) - lost)


def oldest_of_each(sides: Sequence[Sequence[Spread]]) -> tuple[float, float]:
    """(mean, half-width) of an even spread with the moments of the oldest of one tuple a side.

    Integrals of the chance that all are newer than some stamp, which is a polynomial between the ends of the spreads;
    exact for up to four sides. The spread reaches beyond no tuple.
    """
    ends = np.unique([end for side in sides for _, low, high in side for end in (low, high)])
    base, newest = float(ends[0]), min(max(max(low, high) for _, low, high in side) for side in sides)
    ends = ends[ends <= newest] - base
    points, weights = np.polynomial.legendre.leggauss(3)
    middles, halves = (ends[1:] + ends[:-1]) / 2, (ends[1:] - ends[:-1]) / 2
    at = middles[:, None] + halves[:, None] * points  # [stretches, 3]
    newer = np.prod([_newer(side, base, at) for side in sides], axis=0) * halves[:, None] * weights
    mean, square = float(newer.sum()), float((2.0 * at * newer).sum())
    half = math.sqrt(3.0 * max(0.0, square - mean * mean))
    return base + mean, max(0.0, min(half, mean, newest - base - mean))


def _newer(side: Sequence[Spread], base: float, at: np.ndarray) -> np.ndarray:
    """Probability that a tuple of a side has a later stamp."""
    n, one, other = np.array(side).T[..., None, None]
    low, high = np.minimum(one, other) - base, np.maximum(one, other) - base
    length = np.where(high > low, high - low, 1.0)
    share = np.where(high > low, np.clip((high - at) / length, 0.0, 1.0), high > at)
    return np.asarray((n * share).sum(axis=0) / n.sum())
