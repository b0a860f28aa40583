"""Tuples that wait in a broker far ahead of its source: many in one object, until the source gets to them.

A piece hands over its first tuples in groups, each as (tuples, first arrival, last arrival). How the arrivals lie in a
piece is known, so that nothing is lost by drawing them late.
"""

from __future__ import annotations

from typing import Protocol

import numpy as np

Group = tuple[int, float, float]


class Piece(Protocol):
    """n tuples, the last of which has come."""

    n: int

    def take(self, size: int, groups: int) -> list[Group]:
        """Removes up to `groups` groups of `size` tuples from the front; the last of a piece may be smaller."""


def sizes(n: int, size: int, groups: int) -> list[int]:
    """How n tuples fall into at most that many groups."""
    whole, rest = divmod(n, size)
    return [size] * groups if groups <= whole else [size] * whole + [rest] * (rest > 0)


class EvenPiece:
    """Tuples after `since_s`, equally spaced, the last at `last_s`."""

    __slots__ = ("last_s", "n", "since_s")

    def __init__(self, n: int, since_s: float, last_s: float) -> None:
        self.n = n
        self.since_s = since_s
        self.last_s = last_s

    def take(self, size: int, groups: int) -> list[Group]:
        """Each ends where its share of the piece does."""
        taken = sizes(self.n, size, groups)
        ends = np.cumsum(taken)
        return self._until((ends / self.n).tolist(), taken)

    def _until(self, shares: list[float], taken: list[int]) -> list[Group]:
        """Groups that end at these shares of the piece's span, which then begins where the last one ends."""
        start_s, span_s = self.since_s, self.last_s - self.since_s
        found, since_s = [], start_s
        for n, share in zip(taken, shares, strict=True):
            end_s = min(start_s + span_s * share, self.last_s)
            found.append((n, since_s + (end_s - since_s) / n, end_s))
            since_s = end_s
        self.n -= sum(taken)
        self.since_s = since_s
        return found


class PoissonPiece(EvenPiece):
    """Arrivals of a Poisson process after `since_s`, the last of them at `last_s`.

    Given the last, the others are uniform in between; their gaps are exponentials divided by their sum.
    """

    __slots__ = ("_rng",)

    def __init__(self, n: int, since_s: float, last_s: float, rng: np.random.Generator) -> None:
        super().__init__(n, since_s, last_s)
        self._rng = rng

    def take(self, size: int, groups: int) -> list[Group]:
        """Sums of exponential gaps as Gamma variates, one a group and one for what stays."""
        taken = sizes(self.n, size, groups)
        stays = self.n - sum(taken)
        reached = np.cumsum(self._rng.standard_gamma(taken))
        total = reached[-1] + (self._rng.standard_gamma(stays) if stays else 0.0)
        return self._until((reached / total).tolist(), taken)


class RecordedPiece:
    """Tuples at recorded times. [N] ascending"""

    __slots__ = ("n", "times_s")

    def __init__(self, times_s: np.ndarray) -> None:
        self.times_s = times_s
        self.n = len(times_s)

    def take(self, size: int, groups: int) -> list[Group]:
        """Each spans its own tuples' times."""
        found, start = [], 0
        for n in sizes(self.n, size, groups):
            found.append((n, float(self.times_s[start]), float(self.times_s[start + n - 1])))
            start += n
        self.times_s = self.times_s[start:]
        self.n -= start
        return found
