"""Calls to systems outside of a job: time to an answer, number of calls at once, time-outs and failures."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

import numpy as np

# the gamma law -------------------------------------------------------------------------------------------------------
# Gamma law: its distribution, and means of what is cut off at a limit.


TINY = 1e-16
FAR = 60.0
"""Distance above the mean, beside 12 standard deviations, beyond which next to nothing lies."""


def below(shape: float, x: float) -> float:
    """Probability that a Gamma variable of unit scale is at most x: the regularised incomplete gamma function.

    shape: >= 0; of 0 the variable is 0.
    """
    if x < 0.0:
        return 0.0
    if shape <= 0.0:
        return 1.0
    if x > shape + FAR + 12.0 * math.sqrt(shape):
        return 1.0
    if x <= 0.0:
        return 0.0
    term = total = 1.0
    over = shape
    while term > total * TINY:  # all terms are positive, so nothing cancels
        over += 1.0
        term *= x / over
        total += term
    return min(1.0, math.exp(shape * math.log(x) - x - math.lgamma(shape + 1.0) + math.log(total)))


def cut_moments(shape: float, scale: float, limit: float) -> tuple[float, float]:
    """Mean of min(G, limit) and of its square, for a Gamma variable G. limit: >= 0, or infinite."""
    mean, square = shape * scale, shape * (shape + 1.0) * scale**2
    if math.isinf(limit):
        return mean, square
    x = limit / scale
    beyond = 1.0 - below(shape, x)
    return (
        mean * below(shape + 1.0, x) + limit * beyond,
        square * below(shape + 2.0, x) + limit**2 * beyond,
    )


# calls ---------------------------------------------------------------------------------------------------------------
# Calls to systems outside of a job: time to an answer, number of calls at once, and calls a second.
#
# An operator that calls spends CPU time on a record as any other does, then waits for an answer without any. At most
# `capacity` records of a subtask wait at a time; the next one waits for a place, and the operator takes no others. By
# Little's law a subtask completes capacity / (mean time that a record keeps its place) a second at most.
#
# An attempt may fail, and be made again after a delay: the record keeps its place until an attempt succeeds, none is
# left, or its time is over, which counts from its first attempt.


POINTS = 2048
"""Number of points of an answer's law at which sums over it are taken."""
DRAWN = 64
"""Random draws for each point."""
CHAINS, TURNS = 64, 3000
"""Simulated operators, and least records of each, from which the rate of answers in order, or among watermarks, is
measured."""
MANY = 2000
"""Places above which the rate of answers in order is solved for, not simulated; at c = 2,000 and exponential answers,
the two differ by 3 %."""
MOST_SERVERS = 500
"""Most servers of the queue that stands for the places of a subtask."""


RARE = 1e-12
"""Probability below which further attempts do not count."""


class Attempts(NamedTuple):
    """What becomes of a call that the cache does not answer. Times are in seconds.

    mean_s, square_s2: mean, and mean square, of the time until it is answered or given up. answered_s: mean time of
    those that are answered, times their probability. answered, failed, timed_out: probabilities. made: mean number of
    attempts.
    """

    mean_s: float
    square_s2: float
    answered_s: float
    answered: float
    failed: float
    timed_out: float
    made: float


@dataclass(frozen=True, slots=True)
class Calls:
    """Calls that an operator makes to a system outside. Limits are of each subtask, but `rate_per_s` is of all
    together.

    latency_s: mean time to an answer, of squared coefficient of variation latency_scv (Gamma). capacity: records of a
    subtask that wait at a time; None: any number. ordered: answers leave in the order of their records, so one keeps
    its place until all before it are answered. A share `hit_ratio` is answered after hit_s, from a cache.

    timeout_s: from the first attempt until the call is given up. failure_share: of the attempts. retries: most further
    attempts, the first of them delay_s after the first failure, each later one after `multiplier` times the delay
    before, and at most most_delay_s. late_lost, failed_lost: whether a record whose call times out, or fails for the
    last time, is dropped; otherwise it fails the job.

    marks_per_s: watermarks a second that come between the records of a subtask. Each takes a place until all before it
    are answered, and answers of later records leave behind it (Flink's `UnorderedStreamElementQueue`).
    """

    latency_s: float
    latency_scv: float = 1.0
    capacity: int | None = None
    ordered: bool = False
    rate_per_s: float | None = None
    hit_ratio: float = 0.0
    hit_s: float = 0.0
    timeout_s: float = math.inf
    failure_share: float = 0.0
    retries: int = 0
    delay_s: float = 0.0
    multiplier: float = 1.0
    most_delay_s: float = math.inf
    late_lost: bool = False
    failed_lost: bool = False
    marks_per_s: float = 0.0

    @property
    def sure(self) -> bool:
        """Whether each call is answered by its first attempt."""
        return self.failure_share <= 0.0 and math.isinf(self.timeout_s)

    @property
    def fails(self) -> bool:
        """Whether a call may fail the job."""
        late, failed = not math.isinf(self.timeout_s), self.failure_share > 0.0
        return (late and not self.late_lost) or (failed and not self.failed_lost)

    @property
    def attempts(self) -> Attempts:
        """What becomes of a call that the cache does not answer."""
        if self.sure:
            square_s2 = (1.0 + self.latency_scv) * self.latency_s**2
            return Attempts(self.latency_s, square_s2, self.latency_s, 1.0, 0.0, 0.0, 1.0)
        return _attempts(self)

    @property
    def answered(self) -> float:
        """Share of the records that get an answer, with the hits of the cache."""
        return 1.0 if self.sure else self.hit_ratio + (1.0 - self.hit_ratio) * self.attempts.answered

    @property
    def sooner_s(self) -> float:
        """Seconds by which those that are answered keep their places shorter than all, on average."""
        if self.sure or self.answered <= 0.0:
            return 0.0
        hit_s, missed = self.hit_ratio * self.hit_s, 1.0 - self.hit_ratio
        return self.mean_s - (hit_s + missed * self.attempts.answered_s) / self.answered

    @property
    def most_per_s(self) -> float | None:
        """Records a second of all subtasks together for which the system outside bears all attempts; None: any."""
        return None if self.rate_per_s is None else self.rate_per_s / self.attempts.made

    @property
    def retry_s(self) -> float:
        """Seconds for which another attempt takes the turn of the system outside; 0 without a limit."""
        misses = 1.0 - self.hit_ratio
        return 0.0 if self.rate_per_s is None or misses <= 0.0 else 1.0 / (self.rate_per_s * misses)

    @property
    def mean_s(self) -> float:
        """Mean time to an answer in seconds, with the hits of the cache, or until a call is given up."""
        return self.hit_ratio * self.hit_s + (1.0 - self.hit_ratio) * self.attempts.mean_s

    @property
    def scv(self) -> float:
        """Squared coefficient of variation of the time to an answer, with the hits of the cache."""
        if self.mean_s <= 0.0:
            return 0.0
        hit, missed = self.hit_s / self.mean_s, self.latency_s / self.mean_s  # squares of very short times are 0
        if self.sure:
            moment = self.hit_ratio * hit**2 + (1.0 - self.hit_ratio) * (1.0 + self.latency_scv) * missed**2
        else:
            moment = self.hit_ratio * hit**2 + (1.0 - self.hit_ratio) * self.attempts.square_s2 / self.mean_s**2
        return max(0.0, moment - 1.0)

    def drawn_s(self, rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
        """Random times to an answer, or until a call is given up, in seconds. [shape]"""
        found = self._attempt_s(rng, shape)
        if not self.sure:
            failed, delay_s = rng.random(shape) < self.failure_share, self.delay_s
            for _ in range(self.retries):
                if not failed.any():
                    break
                found += np.where(failed, delay_s + self._attempt_s(rng, shape), 0.0)
                failed &= rng.random(shape) < self.failure_share
                delay_s = min(delay_s * self.multiplier, self.most_delay_s)
            found = np.minimum(found, self.timeout_s)
        return np.where(rng.random(shape) < self.hit_ratio, self.hit_s, found) if self.hit_ratio else found

    def _attempt_s(self, rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
        if self.latency_scv > 0.0:
            return self.latency_s * self.latency_scv * rng.standard_gamma(1.0 / self.latency_scv, shape)
        return np.full(shape, self.latency_s)

    # how long a record keeps its place -------------------------------------------------------------------------------

    def kept_s(self, in_per_s: float) -> float:
        """Mean time for which a record keeps its place, at `in_per_s` records a second (Poisson) and with places for
        all.

        In order it is the mean of max(W, M): W is the time to its own answer, M the longest time until those before it
        are answered, with P(M <= x) = exp(-rate E[(W - x)+]), as in M/G/infinity.
        """
        if not self.ordered:
            return self.mean_s
        points_s, beyond_s = _law(self)
        in_time = np.arange(1, POINTS + 1) / POINTS * np.exp(-in_per_s * beyond_s)
        return float(points_s[0] + np.trapezoid(1.0 - in_time, points_s))

    def cleared_s(self, in_per_s: float) -> float:
        """Mean of M in `kept_s`: for so long a watermark waits for the calls before it."""
        points_s, beyond_s = _law(self)
        early = np.exp(-in_per_s * (self.mean_s - points_s[0])) - np.exp(-in_per_s * self.mean_s)
        before_s = points_s[0] - (early / in_per_s if in_per_s > 0.0 else points_s[0])
        return float(before_s + np.trapezoid(-np.expm1(-in_per_s * beyond_s), points_s))

    def before_s(self, in_per_s: float, chance: float) -> float:
        """Quantile of M in `kept_s`, the time until all calls before one are answered, at probability `chance`."""
        points_s, beyond_s = _law(self)
        if chance <= math.exp(-in_per_s * self.mean_s):
            return 0.0
        return float(points_s[min(POINTS - 1, int(np.exp(-in_per_s * beyond_s).searchsorted(chance)))])

    # capacity ------------------------------------------------------------------------------------------------------

    @property
    def subtask_per_s(self) -> float:
        """Highest records a second of a subtask, by its number of places; infinite without a limit."""
        if self.capacity is None or self.mean_s <= 0.0:
            return math.inf
        if self.marks_per_s and self.capacity <= MANY:
            return _between_marks(self)
        if not self.ordered or self.capacity == 1 or self.scv == 0.0:
            return self.capacity / self.mean_s
        return _in_order(self)[0]

    @property
    def bunching(self) -> float:
        """Variance over mean, in the long run, of the number of records that leave a subtask that always has some
        waiting.

        As of a queue of M/G/c whose servers are busy (Allen and Cunneen); in order answers leave in bunches.
        """
        if not self.ordered or math.isinf(self.subtask_per_s) or self.capacity == 1 or self.scv == 0.0:
            return self.scv
        return _in_order(self)[1]

    @property
    def servers(self) -> int:
        """Number of servers of the queue that stands for the places; of very many places, fewer and faster servers, at
        which next to nothing waits as well."""
        return min(self.capacity or MOST_SERVERS, MOST_SERVERS)

    @property
    def served_s(self) -> float:
        """Service time of a record at each of `servers`, if all are busy."""
        return self.servers / self.subtask_per_s

    def used(self, in_per_s: np.ndarray, busiest_per_s: np.ndarray) -> np.ndarray:
        """Utilisation of the calls: the higher one of places and of calls a second. [N]

        in_per_s: records a second to all subtasks; busiest_per_s: to the subtask that gets most of them.
        """
        share = busiest_per_s / self.subtask_per_s
        return np.asarray(share if self.most_per_s is None else np.maximum(share, in_per_s / self.most_per_s))


@lru_cache(maxsize=256)
def _attempts(calls: Calls) -> Attempts:
    """Sums over the number of attempts that a call would take without a timeout: the time of n attempts is a Gamma
    variable of n times the shape, and the delays between them."""
    found, delays_s, delay_s = np.zeros(6), 0.0, calls.delay_s  # the fields, but for those that have failed
    scv, each_s, timeout_s = calls.latency_scv, calls.latency_s, calls.timeout_s
    exact, still = scv <= 0.0 or each_s <= 0.0, 1.0
    scale = 1.0 if exact else each_s * scv

    def within(number: int, limit_s: float) -> float:
        """Probability that so many attempts take no longer than a limit."""
        return float(number * each_s <= limit_s) if exact else below(number / scv, limit_s / scale)

    for number in range(1, calls.retries + 2):
        last = number == calls.retries + 1
        ends = still if last else still * (1.0 - calls.failure_share)
        left_s = max(0.0, timeout_s - delays_s)
        if exact:
            cut_s = min(number * each_s, left_s)
            cut = cut_s, cut_s**2
        else:
            cut = cut_moments(number / scv, scale, left_s)
        in_time = within(number, timeout_s - delays_s)
        part_s = number * each_s * (in_time if exact else below(number / scv + 1.0, (timeout_s - delays_s) / scale))
        found += np.array(
            [
                ends * (min(delays_s, timeout_s) + cut[0]),
                ends * (min(delays_s, timeout_s) ** 2 + 2.0 * min(delays_s, timeout_s) * cut[0] + cut[1]),
                still * (1.0 - calls.failure_share) * (delays_s * in_time + part_s),
                still * (1.0 - calls.failure_share) * in_time,
                ends * (1.0 - in_time),
                still * within(number - 1, timeout_s - delays_s),
            ]
        )
        still *= calls.failure_share
        delays_s, delay_s = delays_s + delay_s, min(delay_s * calls.multiplier, calls.most_delay_s)
        if still < RARE:
            break
    mean_s, square_s2, answered_s, answered, late, made = found.tolist()
    return Attempts(mean_s, square_s2, answered_s, answered, max(0.0, 1.0 - answered - late), late, made)


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
    """Rate and bunching (see `Calls`) of calls whose answers leave in order while records always wait, by simulation.

    Each record begins when the one `capacity` places before it leaves, and leaves after all others before it.
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


@lru_cache(maxsize=256)
def _between_marks(calls: Calls) -> float:
    """Rate of calls among which watermarks come while records always wait, by simulation: each record, and each
    watermark, begins when a place is free. A watermark leaves when all before it have left, and what comes behind it
    leaves later; in order, everything does."""
    capacity = calls.capacity
    assert capacity is not None
    turns, chains = max(TURNS, 20 * capacity), max(1, min(CHAINS, CHAINS * 100 // capacity))
    rng, every, each_s = np.random.default_rng(0), np.arange(chains), 1.0 / calls.marks_per_s
    answers_s, left_s, count = calls.drawn_s(rng, (turns, chains)), np.zeros((capacity, chains)), np.zeros(chains)
    now_s, latest_s, behind_s, next_s = (np.zeros(chains), *np.zeros((2, chains)), rng.random(chains) * each_s)
    for k in range(turns):
        if k == turns // 5:
            count, began_s = np.zeros(chains), now_s
        place = left_s.argmin(axis=0)
        now_s = np.maximum(now_s, left_s[place, every])
        marks = now_s >= next_s
        leaves_s = np.maximum(now_s + np.where(marks, 0.0, answers_s[k]), behind_s)
        latest_s = np.maximum(latest_s, leaves_s)
        leaves_s = latest_s if calls.ordered else np.where(marks, latest_s, leaves_s)
        behind_s, next_s = np.where(marks, leaves_s, behind_s), next_s + marks * each_s
        left_s[place, every], count = leaves_s, count + ~marks
    lasted_s = float((now_s - began_s).sum())
    return float(count.sum()) / lasted_s if lasted_s > 0.0 else np.inf  # calls may take no time


def _where_places_suffice(calls: Calls, capacity: int) -> float:
    """Rate at which that many places are kept on average, by bisection."""
    low, high = 0.0, capacity / calls.mean_s
    for _ in range(60):
        middle = (low + high) / 2.0
        low, high = (middle, high) if middle * calls.kept_s(middle) < capacity else (low, middle)
    return low
