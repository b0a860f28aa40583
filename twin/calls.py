"""Calls to systems outside of a job: time to an answer, number of calls at once, and calls a second.

An operator that calls spends CPU time on a tuple as any other does, then waits for an answer without any. At most
`capacity` tuples of a replica wait at a time; the next one waits for a place, and the operator takes no others. By
Little's law a replica completes capacity / (mean time that a tuple keeps its place) a second at most.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

POINTS = 2048
"""Number of points of an answer's law at which sums over it are taken."""
DRAWN = 64
"""Random draws for each point."""
CHAINS, TURNS = 64, 3000
"""Simulated operators, and least tuples of each, from which the rate of answers in order is measured."""
MANY = 2000
"""Places above which the rate of answers in order is solved for, not simulated; at c = 2,000 and exponential answers,
the two differ by 3 %."""
MOST_SERVERS = 500
"""Most servers of the queue that stands for the places of a replica."""


@dataclass(frozen=True, slots=True)
class Calls:
    """Calls that an operator makes to a system outside. Limits are of each replica, but `rate_per_s` is of all
    together.

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
        """Mean time to an answer in seconds, with the hits of the cache."""
        return self.hit_ratio * self.hit_s + (1.0 - self.hit_ratio) * self.latency_s

    @property
    def scv(self) -> float:
        """Squared coefficient of variation of the time to an answer, with the hits of the cache."""
        if self.mean_s <= 0.0:
            return 0.0
        hit, missed = self.hit_s / self.mean_s, self.latency_s / self.mean_s  # squares of very short times are 0
        moment = self.hit_ratio * hit**2 + (1.0 - self.hit_ratio) * (1.0 + self.latency_scv) * missed**2
        return max(0.0, moment - 1.0)

    def drawn_s(self, rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
        """Random times to an answer, in seconds. [shape]"""
        found = np.full(shape, self.latency_s)
        if self.latency_scv > 0.0:
            found = self.latency_s * self.latency_scv * rng.standard_gamma(1.0 / self.latency_scv, shape)
        return np.where(rng.random(shape) < self.hit_ratio, self.hit_s, found) if self.hit_ratio else found

    # how long a tuple keeps its place -------------------------------------------------------------------------------

    def kept_s(self, in_per_s: float) -> float:
        """Mean time for which a tuple keeps its place, at `in_per_s` tuples a second (Poisson) and with places for all.

        In order it is the mean of max(W, M): W is the time to its own answer, M the longest time until those before it
        are answered, with P(M <= x) = exp(-rate E[(W - x)+]), as in M/G/infinity.
        """
        if not self.ordered:
            return self.mean_s
        points_s, beyond_s = _law(self)
        in_time = np.arange(1, POINTS + 1) / POINTS * np.exp(-in_per_s * beyond_s)
        return float(points_s[0] + np.trapezoid(1.0 - in_time, points_s))

    def before_s(self, in_per_s: float, chance: float) -> float:
        """Quantile of M in `kept_s`, the time until all calls before one are answered, at probability `chance`."""
        points_s, beyond_s = _law(self)
        if chance <= math.exp(-in_per_s * self.mean_s):
            return 0.0
        return float(points_s[min(POINTS - 1, int(np.exp(-in_per_s * beyond_s).searchsorted(chance)))])

    # capacity ------------------------------------------------------------------------------------------------------

    @property
    def replica_per_s(self) -> float:
        """Highest tuples a second of a replica, by its number of places; infinite without a limit."""
        if self.capacity is None or self.mean_s <= 0.0:
            return math.inf
        if not self.ordered or self.capacity == 1 or self.scv == 0.0:
            return self.capacity / self.mean_s
        return _in_order(self)[0]

    @property
    def bunching(self) -> float:
        """Variance over mean, in the long run, of the number of tuples that leave a replica that always has some
        waiting.

        As of a queue of M/G/c whose servers are busy (Allen and Cunneen); in order answers leave in bunches.
        """
        if not self.ordered or math.isinf(self.replica_per_s) or self.capacity == 1 or self.scv == 0.0:
            return self.scv
        return _in_order(self)[1]

    @property
    def servers(self) -> int:
        """Number of servers of the queue that stands for the places; of very many places, fewer and faster servers, at
        which next to nothing waits as well."""
        return min(self.capacity or MOST_SERVERS, MOST_SERVERS)

    @property
    def served_s(self) -> float:
        """Service time of a tuple at each of `servers`, if all are busy."""
        return self.servers / self.replica_per_s

    def used(self, in_per_s: np.ndarray, busiest_per_s: np.ndarray) -> np.ndarray:
        """Utilisation of the calls: the higher one of places and of calls a second. [N]

        in_per_s: tuples a second to all replicas; busiest_per_s: to the replica that gets most of them.
        """
        share = busiest_per_s / self.replica_per_s
        return np.asarray(share if self.rate_per_s is None else np.maximum(share, in_per_s / self.rate_per_s))


@lru_cache(maxsize=256)
def _law(calls: Calls) -> tuple[np.ndarray, np.ndarray]:
    """Equally likely times to an answer, ascending, and the mean time beyond each, E[(W - x)+]. [POINTS] each"""
    drawn_s = calls.drawn_s(np.random.default_rng(0), (POINTS * DRAWN,))
    points_s = np.sort(drawn_s).reshape(-1, DRAWN).mean(axis=1)
    points_s *= calls.mean_s / max(float(points_s.mean()), 1e-300)
    after = points_s[::-1].cumsum()[::-1] - points_s
    return points_s, (after - points_s * np.arange(POINTS - 1, -1, -1)) / POINTS


@lru_cache(maxsize=256)
def _in_order(calls: Calls) -> tuple[float, float]:
    """Rate and bunching (see `Calls`) of calls whose answers leave in order while tuples always wait, by simulation.

    Each tuple begins when the one `capacity` places before it leaves, and leaves after all others before it.
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
    """Rate at which that many places are kept on average, by bisection."""
    low, high = 0.0, capacity / calls.mean_s
    for _ in range(60):
        middle = (low + high) / 2.0
        low, high = (middle, high) if middle * calls.kept_s(middle) < capacity else (low, middle)
    return low
