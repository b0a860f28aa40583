"""How many matches there are among the tuples of a window's sides, given how many tuples and how keys are spread.

Tuples, one of each of m sides, match if they are of one key. With S_j the sum of the j-th powers of the keys'
probabilities, matches of n_1, ..., n_m tuples have the mean S_m n_1 ... n_m. Over its square, their variance is the
sum, over the sets A of one side or more, of t_|A| / (product of A's contents): combinations that have A's tuples in
common match together more often than others, by t_a = sum over b <= a of (a over b) (-1)^(a - b) S_(2m - b) / S_m^2,
with S_2m replaced by S_m^2. Of two sides with equally likely keys nothing but the pairs themselves counts: t_1 = 0.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Self

import numpy as np

from twin.engine.draws import Draws

ALIKE = 1e-3
"""Variances over the mean that are this close to 1 are those of Poisson counts."""


@dataclass(frozen=True, slots=True)
class KeyLaw:
    """How likely tuples of one replica, one a side, match, and how that varies with their keys.

    likelihood: S_m of the module's text; in a contradictory description it may be above 1. spreads: t_1, ..., t_m.
    """

    likelihood: float
    spreads: tuple[float, ...]

    @classmethod
    def even(cls, selectivity: float, sides: int, share: float = 1.0) -> Self:
        """Keys as many as the selectivity says and all alike, where that share of them, > 0, lives on the replica.

        Its tuples are the same share, without chance, so what chance does to replicas is added to their matches.
        """
        if selectivity <= 0.0:
            return cls(0.0, (0.0,) * sides)
        keys = selectivity ** (-1.0 / (sides - 1))
        law = cls._of(selectivity, [keys ** (b - 1) for b in range(1, sides + 1)])
        spreads = tuple(spread * share**a for a, spread in enumerate(law.spreads))
        return cls(selectivity / share ** (sides - 1), spreads)

    @classmethod
    def of_powers(cls, powers: Sequence[float]) -> Self:
        """From the sums S_m, ..., S_(2m - 1) of the powers of the keys' probabilities."""
        likelihood, sides = powers[0], len(powers)
        if likelihood <= 0.0:
            return cls(0.0, (0.0,) * sides)
        return cls._of(likelihood, [powers[sides - b] / likelihood / likelihood for b in range(1, sides + 1)])

    @classmethod
    def _of(cls, likelihood: float, ratios: Sequence[float]) -> Self:
        """ratios: S_(2m - b) / S_m^2 for b = 1, ..., m."""
        spreads = []
        for a in range(1, len(ratios) + 1):
            terms = (math.comb(a, b) * (-1.0) ** (a - b) * ratios[b - 1] for b in range(1, a + 1))
            spreads.append(max(0.0, (-1.0) ** a + math.fsum(terms)))
        return cls(likelihood, tuple(spreads))

    def dispersion(self, contents: Sequence[float], repeats: Sequence[float] | None = None) -> float:
        """Variance of matches over their mean, given the contents of the sides, all > 0.

        repeats: where the matches of several windows are added up, see `repeats`.
        """
        spreads = self.spreads
        if repeats is not None:
            spreads = tuple(spread * factor for spread, factor in zip(spreads, repeats, strict=True))
        return math.prod(contents, start=self.likelihood) * joint(spreads, contents)


def joint(spreads: Sequence[float], contents: Sequence[float]) -> float:
    """The sum of t_|A| / (product of A's contents) over the sets A of one side or more."""
    if len(contents) == 2:
        left, right = contents
        return spreads[0] * (1.0 / left + 1.0 / right) + spreads[1] / (left * right)
    sums = [1.0] + [0.0] * len(contents)  # by a, of the products of 1 / content over all sets of a sides
    for n in contents:
        for a in range(len(contents), 0, -1):
            sums[a] += sums[a - 1] / n
    return sum([spread * each for spread, each in zip(spreads, sums[1:], strict=True)])


@lru_cache(maxsize=4096)
def repeats(fires: int, slide: float, size: float, sides: int) -> list[float]:
    """What repeats among `fires` windows in a row: by number of sides a, the mean over one of them of the sum over all
    of (their overlap, over the size) ^ a. All 1 where they do not overlap.
    """
    apart = np.arange(min(fires, math.ceil(size / slide)), dtype=float)
    pairs = np.where(apart > 0.0, 2.0, 1.0) * (1.0 - apart / fires)
    overlap = np.maximum(0.0, 1.0 - apart * slide / size)
    overlap[0] = 1.0
    return [float(np.sum(pairs * overlap**a)) for a in range(1, sides + 1)]


def counted(draws: Draws, mean: float, dispersion: float) -> int:
    """A count of that mean, whose variance is the mean times `dispersion`: binomial, Poisson or Gamma-Poisson."""
    if mean <= 0.0:
        return 0
    extra = dispersion - 1.0
    if extra > ALIKE:
        return draws.poisson(extra * float(draws.rng.standard_gamma(mean / extra)))
    if extra >= -ALIKE:
        return draws.poisson(mean)
    likely = min(1.0, -extra)
    return draws.binomial(draws.rounded(mean / likely), likely)
