"""The number of keys with which a given share of the combinations of records have the same key."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

NEARLY = 1e-9
"""A number of keys this near to a whole one, relative to it, is whole."""
HALVINGS = 100


def keys_for(selectivity: float, sides: int) -> float:
    """Keys, all alike, of which one record a side match with that chance; not a whole number, and below 1 if the
    selectivity is above that."""
    return float(selectivity ** (-1.0 / (sides - 1)))


class Likeness(NamedTuple):
    """`keys` of them, each with the chance 1 / scale but the last, which has what is left. repeats: how many times
    a combination of one key matches, on average: more than once if there would have to be less than one key.
    """

    keys: int
    scale: float
    repeats: float = 1.0

    @staticmethod
    def even(keys: float) -> Likeness:
        """All alike."""
        return Likeness(round(keys), keys)

    @staticmethod
    def of(keys: float, sides: int) -> Likeness:
        """As if there were so many keys, which need not be a whole number: records of so many sides are of one key with
        the chance keys^(1 - sides)."""
        if keys <= 1.0:
            return Likeness(1, 1.0, keys ** (1 - sides))
        if abs(keys - round(keys)) < NEARLY * keys:
            return Likeness.even(round(keys))
        whole = math.floor(keys)
        wanted = keys ** (1 - sides)
        low, high = 1.0 / (whole + 1), 1.0 / whole  # chance of each key but the last
        for _ in range(HALVINGS):
            each = (low + high) / 2.0
            if whole * each**sides + (1.0 - whole * each) ** sides < wanted:
                low = each
            else:
                high = each
        return Likeness(whole + 1, 1.0 / high)

    def key(self, at: float) -> int:
        """The key at a share of the records, 0 to 1."""
        return min(int(at * self.scale), self.keys - 1)


def cumulative(shares: Sequence[float] | np.ndarray) -> list[float]:
    """Sums of the shares so far; exactly 1 from the last positive one on, so that bisection finds the owner of any
    number below 1."""
    steps = np.cumsum(shares)
    steps[np.flatnonzero(np.asarray(shares))[-1] :] = 1.0
    return [float(step) for step in steps]
