"""Number of keys at which a given share of the combinations of records have the same key."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

NEARLY = 1e-9
"""Relative distance within which a number of keys counts as whole."""
HALVINGS = 100


def keys_for(selectivity: float, sides: int) -> float:
    """Number of equally frequent keys at which one record a side match with probability `selectivity`. It is not whole,
    and below 1 if the selectivity is above 1."""
    return float(selectivity ** (-1.0 / (sides - 1)))


class Likeness(NamedTuple):
    """Distribution of the keys of a key group: `keys` of them, each with probability 1 / scale but the last, which has
    the rest.

    repeats: mean number of results of a combination of one key; above 1 if there would have to be less than one key.
    """

    keys: int
    scale: float
    repeats: float = 1.0

    @staticmethod
    def even(keys: float) -> Likeness:
        """Distribution of equally frequent keys."""
        return Likeness(round(keys), keys)

    @staticmethod
    def of(keys: float, sides: int) -> Likeness:
        """Distribution that acts like `keys` equally frequent keys, also where that is not a whole number: one record a
        side have the same key with probability keys^(1 - sides)."""
        if keys <= 1.0:
            return Likeness(1, 1.0, keys ** (1 - sides))
        if abs(keys - round(keys)) < NEARLY * keys:
            return Likeness.even(round(keys))
        whole = math.floor(keys)
        wanted = keys ** (1 - sides)
        low, high = 1.0 / (whole + 1), 1.0 / whole  # probability of each key but the last
        for _ in range(HALVINGS):
            each = (low + high) / 2.0
            if whole * each**sides + (1.0 - whole * each) ** sides < wanted:
                low = each
            else:
                high = each
        return Likeness(whole + 1, 1.0 / high)

    def key(self, at: float) -> int:
        """The key at a position among the records, 0 to 1."""
        return min(int(at * self.scale), self.keys - 1)


def cumulative(shares: Sequence[float] | np.ndarray) -> list[float]:
    """Cumulative sums of shares. They are exactly 1 from the last positive share on, so that bisection finds the owner
    of any number below 1."""
    steps = np.cumsum(shares)
    steps[np.flatnonzero(np.asarray(shares))[-1] :] = 1.0
    return [float(step) for step in steps]
