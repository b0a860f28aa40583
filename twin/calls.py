"""Calls to systems outside of a job: how long an answer takes, how many are asked for at once, and how many a second.

An operator that calls spends CPU time on a tuple as any other does, then waits for an answer without any. At most
`capacity` tuples of a replica wait at a time; the next one keeps its place, and the operator takes no others. By
Little's law a replica gets through capacity / (mean time that a tuple keeps its place) a second at most.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

POINTS = 2048
"""Number of points of an answer's law at which sums over it are taken."""
DRAWN = 64
"""Draws a point."""
CHAINS, TURNS = 64, 3000
"""Operators, and tuples of each at least, followed to find how fast answers leave in order."""
MANY = 2000
"""Places from which on that is solved for instead; at c = 2,000 and exponential answers, the two differ by 3 %."""
MOST_SERVERS = 500


@dataclass(frozen=True, slots=True)
class Calls:
    """What an operator asks of outside, of each replica but for `rate_per_s`, which is of all together.

    latency_s: mean time to an answer, of squared coefficient of variation latency_scv (Gamma). capacity: tuples of a
    replica that wait at a time; None: any number. ordered: answers leave in the order of their tuples, so one keeps its
    place until all before it are answered. A share `hit_ratio` is answered after hit_s, from a cache.
    """

    latency_s: float
    latency_scv: float = 1.0
    capacity: int | None = None
    ordered: bool = False
    rate_per_s: float | None = None
    hit_ratio: float = 0.0
    hit_s: float = 0.0

    @property
    def mean_s(self) -> float:
        """To an answer, hits among them."""
        return self.hit_ratio * self.hit_s + (1.0 - self.hit_ratio) * self.latency_s

    @property
    def scv(self) -> float:
        """Squared coefficient of variation of that."""
        if self.mean_s <= 0.0:
            return 0.0
        missed = (1.0 - self.hit_ratio) * (1.0 + self.latency_scv) * self.latency_s**2
        return max(0.0, (self.hit_ratio * self.hit_s**2 + missed) / self.mean_s**2 - 1.0)

    def drawn_s(self, rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
        """Times to an answer, at random."""
        found = np.full(shape, self.latency_s)
        if self.latency_scv > 0.0:
            found = self.latency_s * self.latency_scv * rng.standard_gamma(1.0 / self.latency_scv, shape)
        return np.where(rng.random(shape) < self.hit_ratio, self.hit_s, found) if self.hit_ratio else found

    # how long a tuple keeps its place -------------------------------------------------------------------------------

    def kept_s(self, in_per_s: float) -> float:
        """Mean time for which a tuple keeps its place while so many come a second (Poisson) and places suffice.

        In order it is the mean of max(W, M): of its own answer and the longest that is still to come of those before,
        P(M <= x) = exp(-rate E[(W - x)+]), as in M/G/infinity.
        """
        if not self.ordered:
            return self.mean_s
        points_s, beyond_s = _law(self)
        in_time = np.arange(1, POINTS + 1) / POINTS * np.exp(-in_per_s * beyond_s)
        return float(points_s[0] + np.trapezoid(1.0 - in_time, points_s))

    def before_s(self, in_per_s: float, chance: float) -> float:
        """The time of that law's M which is not exceeded with probability `chance`."""
        points_s, beyond_s = _law(self)
        if chance <= math.exp(-in_per_s * self.mean_s):
            return 0.0
        return float(points_s[min(POINTS - 1, int(np.exp(-in_per_s * beyond_s).searchsorted(chance)))])

    # how many it bears ----------------------------------------------------------------------------------------------

    @property
    def replica_per_s(self) -> float:
        """Tuples a second that a replica gets through at most, for want of places."""
        if self.capacity is None or self.mean_s <= 0.0:
            return math.inf
        if not self.ordered or self.capacity == 1 or self.scv == 0.0:
            return self.capacity / self.mean_s
        return _in_order(self)[0]

    @property
    def bunching(self) -> float:
        """How unevenly a replica that always has tuples lets them go: variance over mean of a count, in the long run.

        As of a queue of M/G/c whose servers are busy (Allen and Cunneen); in order answers leave in bunches.
        """
        if not self.ordered or math.isinf(self.replica_per_s) or self.capacity == 1 or self.scv == 0.0:
            return self.scv
        return _in_order(self)[1]

    @property
    def servers(self) -> int:
        """Places as servers of a queue; of very many, fewer and faster ones, at which next to nothing waits as well."""
        return min(self.capacity or MOST_SERVERS, MOST_SERVERS)

    @property
    def served_s(self) -> float:
        """How long each of them is taken by a tuple when all are."""
        return self.servers / self.replica_per_s

    def used(self, in_per_s: np.ndarray, busiest_per_s: np.ndarray) -> np.ndarray:
        """Share of what it bears, of places and of calls a second, if so many tuples come a second. [N]

        busiest_per_s: to the replica that gets most of them.
        """
        share = busiest_per_s / self.replica_per_s
        return np.asarray(share if self.rate_per_s is None else np.maximum(share, in_per_s / self.rate_per_s))


@lru_cache(maxsize=256)
def _law(calls: Calls) -> tuple[np.ndarray, np.ndarray]:
    """Times to an answer in ascending order, of like probability each; the mean time beyond each. [POINTS]"""
    drawn_s = calls.drawn_s(np.random.default_rng(0), (POINTS * DRAWN,))
    points_s = np.sort(drawn_s).reshape(-1, DRAWN).mean(axis=1)
    points_s *= calls.mean_s / max(float(points_s.mean()), 1e-300)
    after = points_s[::-1].cumsum()[::-1] - points_s
    return points_s, (after - points_s * np.arange(POINTS - 1, -1, -1)) / POINTS


@lru_cache(maxsize=256)
def _in_order(calls: Calls) -> tuple[float, float]:
    """Rate and bunching of tuples that always wait.

    Each begins when the one `capacity` places before leaves, and leaves after all others before it.
    """
    capacity = calls.capacity
    assert capacity is not None
    if capacity > MANY:
        return _where_places_suffice(calls, capacity), 1.0
    turns = max(TURNS, 20 * capacity)
    answers_s = calls.drawn_s(np.random.default_rng(0), (turns, CHAINS))
    left_s = np.zeros((capacity, CHAINS))
    last_s = begun_s = np.zeros(CHAINS)
    first = turns // 5
    for k in range(turns):
        last_s = np.maximum(last_s, left_s[k % capacity] + answers_s[k])
        left_s[k % capacity] = last_s
        if k == first:
            begun_s = last_s
    took_s, counted = last_s - begun_s, turns - 1 - first
    mean_s = float(took_s.mean()) / counted
    return 1.0 / mean_s, float(took_s.var(ddof=1)) / counted / mean_s**2


def _where_places_suffice(calls: Calls, capacity: int) -> float:
    """The rate at which that many places are kept on average, by halving."""
    low, high = 0.0, capacity / calls.mean_s
    for _ in range(60):
        middle = (low + high) / 2.0
        low, high = (middle, high) if middle * calls.kept_s(middle) < capacity else (low, middle)
    return low
