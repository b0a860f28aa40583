"""The oldest of several tuples: first two moments of the minimum of independent uniform stamps."""

from __future__ import annotations

import math
from collections.abc import Sequence

TINY_S = 1e-12


def around(ends: Sequence[tuple[float, float]], counts: Sequence[float]) -> tuple[float, float]:
    """The same of one tuple a side, where sides hold so many single tuples and the ends are the first's and the last's.

    One in n is the first, one in n the last, and the others lie anywhere between them: a variance 1 + 4 / n times that
    of an even spread from end to end. What comes of it reaches beyond no tuple.
    """
    wide = []
    for (low, high), n in zip(ends, counts, strict=True):
        beyond = (high - low) / 2 * (math.sqrt(1.0 + 4.0 / n) - 1.0)
        wide.append((low - beyond, high + beyond))
    mean, half = oldest(wide)
    first, last = min([low for low, _ in ends]), min([high for _, high in ends])
    mean = max(first, min(mean, last))
    return mean, min(half, mean - first, last - mean)


def older(low1: float, high1: float, low2: float, high2: float) -> tuple[float, float]:
    """(mean, half-width) of an even spread with the moments of min(U1, U2), U_i uniform on [low_i, high_i]."""
    if high1 <= low2:
        return (low1 + high1) / 2, (high1 - low1) / 2
    if high2 <= low1:
        return (low2 + high2) / 2, (high2 - low2) / 2
    base = min(low1, low2)
    a1, b1 = low1 - base, max(high1 - base, low1 - base + TINY_S)
    a2, b2 = low2 - base, max(high2 - base, low2 - base + TINY_S)
    area = (b1 - a1) * (b2 - a2)
    if area <= TINY_S * max(b1, b2) ** 2:  # one stamp is (nearly) certain
        return (
            _against_point((low1 + high1) / 2, low2, high2)
            if b1 - a1 < b2 - a2
            else _against_point((low2 + high2) / 2, low1, high1)
        )
    mean = (_first(b1, b2) - _first(a1, b2) - _first(b1, a2) + _first(a1, a2)) / area
    square = (_second(b1, b2) - _second(a1, b2) - _second(b1, a2) + _second(a1, a2)) / area
    return base + mean, math.sqrt(3.0 * max(0.0, square - mean * mean))


def oldest(ranges: Sequence[tuple[float, float]]) -> tuple[float, float]:
    """The same for one or more stamps, each uniform on its (low, high); for three and more an approximation.

    The minimum of two is taken as spread evenly, with its mean and variance, when it meets the third.
    """
    (low, high), *others = ranges
    mean, half = (low + high) / 2, (high - low) / 2
    for other in others:
        mean, half = older(low, high, *other)
        low, high = mean - half, mean + half
    return mean, half


def _against_point(point: float, low: float, high: float) -> tuple[float, float]:
    span = high - low
    if span <= 0.0 or point <= low:
        return min(point, (low + high) / 2), 0.0
    below = (min(point, high) - low) / span
    mean = below * (low + min(point, high)) / 2 + (1.0 - below) * point
    return mean, below * (min(point, high) - low) / 2


def _first(x: float, y: float) -> float:
    """Integral of min(u, v) over [0, x] x [0, y]."""
    if x < y:
        x, y = y, x
    return x * y * y / 2 - y**3 / 6


def _second(x: float, y: float) -> float:
    """Integral of min(u, v)^2 over [0, x] x [0, y]."""
    if x < y:
        x, y = y, x
    return x * y**3 / 3 - y**4 / 6
