"""CPU sharing among the tasks of one socket: event-driven max-min sharing with two kinds of demand.

*Jobs* are backlog: each wants a whole core, all run at one level L, by one virtual clock (processor sharing). *Flat
demands* are tasks that keep up with their input: they work at their own rate and ask for no event. With single tuples
only jobs exist and the scheme is exact processor sharing with rate min(1, C / k).
"""

from __future__ import annotations

import heapq
import math
from functools import cache
from typing import TYPE_CHECKING

import simpy

from twin.engine.alarm import Alarm

if TYPE_CHECKING:
    from collections.abc import Callable

EPSILON = 1e-11
"""Core-seconds below which a job is done: rounding must not stall the clock."""
MANY = 500
"""From so many tasks that share a processor on, how many of them are busy is as good as certain."""
FORGET = 0.7
"""Per segment, in the estimate of a flat demand."""


class Share:
    """A task's standing on its processor."""

    __slots__ = (
        "_free_s",
        "_since_s",
        "blocked",
        "flat",
        "mark_fixed",
        "mark_s",
        "mark_slope",
        "running",
        "spare_s",
        "time_sum",
        "work_sum",
    )

    def __init__(self) -> None:
        self.flat = 0.0  # demand while keeping up, in cores
        self.running = False  # has a job
        self.blocked = False
        self.work_sum = 0.0
        self.time_sum = 0.0
        self.mark_fixed = 0.0
        self.mark_slope = 0.0
        self.mark_s = 0.0
        self.spare_s = 0.0  # core-seconds that it could have worked lately and did not
        self._free_s = 0.0  # time outside of jobs and not blocked, since it was last asked for
        self._since_s: float | None = 0.0  # since when it is neither running nor blocked

    def engage(self, now_s: float) -> None:
        """It gets a job or is blocked: its flat demand rests."""
        if self._since_s is not None:
            self._free_s += now_s - self._since_s
            self._since_s = None

    def disengage(self, now_s: float) -> None:
        """Its job has ended, or it is unblocked."""
        if not self.running and not self.blocked:
            self._since_s = now_s

    def could_s(self, now_s: float, speed: float) -> float:
        """Core-seconds that it can have worked since `free_time_s` was last asked for, and did not before."""
        free_s = self._free_s + (now_s - self._since_s if self._since_s is not None else 0.0)
        return self.spare_s + free_s * speed

    def free_time_s(self, now_s: float) -> float:
        """Time in which flat work could be done, since it was last asked for."""
        free_s = self._free_s
        if self._since_s is not None:
            free_s += now_s - self._since_s
            self._since_s = now_s
        self._free_s = 0.0
        return free_s


class Processor:
    """One socket of `capacity` reference cores; a task uses at most one of them at a time."""

    __slots__ = (
        "_armed",
        "_armed_at",
        "_clock",
        "_fixed",
        "_jobs",
        "_level",
        "_sequence",
        "_since",
        "_slope",
        "capacity",
        "env",
        "factors",
        "shared",
        "shares",
        "slowdown",
        "speed",
        "work_s",
    )

    def __init__(self, env: simpy.Environment, capacity: float) -> None:
        self.env = env
        self.capacity = capacity
        self.slowdown = 1.0  # factor on all work that begins now
        self.factors: dict[str, float] = {}
        self.shares: list[Share] = []
        self.shared = False
        self.speed = min(1.0, capacity)
        self.work_s = 0.0  # core-seconds taken up, for utilisation
        self._level = min(1.0, capacity)
        self._clock = 0.0
        self._since = 0.0
        self._jobs: list[tuple[float, int, Share, Callable[[], None]]] = []
        self._sequence = 0
        self._armed: Alarm | None = None
        self._armed_at = math.inf
        self._fixed = 0.0
        self._slope = 0.0

    def slow(self, cause: str, factor: float) -> None:
        """Sets one cause's factor on work; the slow-down is the product of all causes'."""
        self.factors[cause] = factor
        self.slowdown = math.prod(self.factors.values())

    def pause(self, until_s: float) -> None:
        """Nothing proceeds before that time."""
        self._advance()
        self._since = max(self._since, until_s)

    def attach(self) -> Share:
        """Adds a task. Sharing begins when more tasks sit here than there are cores."""
        self.shares.append(Share())
        self.shared = len(self.shares) > 1 and len(self.shares) > self.capacity
        return self.shares[-1]

    def detach(self, share: Share) -> None:
        """Takes a task away, with whatever it still had to do."""
        self.cancel(share)
        self.shares = [other for other in self.shares if other is not share]
        self.shared = len(self.shares) > 1 and len(self.shares) > self.capacity

    def cancel(self, share: Share) -> None:
        """Drops a task's job; its `done` is never called."""
        self._advance()
        self._jobs = [job for job in self._jobs if job[2] is not share]
        heapq.heapify(self._jobs)
        share.running = False
        self._relevel()

    def available(self, share: Share) -> float:
        """Rate, in cores, that a task which keeps up would have got on average since it last asked."""
        self._advance()
        elapsed = self.env.now - share.mark_s
        if elapsed <= 0.0:
            rate = self._offer(share)
        else:
            fixed = (self._fixed - share.mark_fixed) / elapsed
            rate = fixed + share.flat * (self._slope - share.mark_slope) / elapsed
        self._mark(share)
        floor = min(1.0, self.capacity / len(self.shares))
        return min(1.0, max(rate, floor))

    def kept_up(self, share: Share, work_s: float, speed: float) -> None:
        """Records work that a task did while its input arrived: its flat demand is the ratio of the two sums.

        speed: in cores, at which it could have worked.
        """
        time_s = share.free_time_s(self.env.now)
        share.work_sum = share.work_sum * FORGET + work_s
        share.time_sum = share.time_sum * FORGET + time_s
        share.spare_s = max(0.0, share.spare_s + time_s * speed - work_s) * FORGET
        if share.time_sum > 0.0:
            flat = min(1.0, share.work_sum / share.time_sum)
            if flat != share.flat:
                self._advance()
                share.flat = flat
                self._relevel()

    def start(self, share: Share, work_s: float, done: Callable[[], None]) -> None:
        """Runs a job of `work_s` core-seconds; calls `done` when it has been served."""
        self._advance()
        share.engage(self.env.now)
        share.running = True
        self._sequence += 1
        heapq.heappush(self._jobs, (self._clock + work_s, self._sequence, share, done))
        self._relevel()

    def block(self, share: Share, blocked: bool) -> None:
        """A blocked task has no demand; an unblocked one starts a fresh average."""
        if share.blocked != blocked:
            self._advance()
            share.blocked = blocked
            if blocked:
                share.engage(self.env.now)
            else:
                share.disengage(self.env.now)
            self._mark(share)
            self._relevel()

    def _mark(self, share: Share) -> None:
        share.mark_fixed, share.mark_slope, share.mark_s = self._fixed, self._slope, self.env.now

    def _advance(self) -> None:
        elapsed = self.env.now - self._since
        if elapsed > 0.0:
            jobs = len(self._jobs)
            self._clock += self._level * elapsed
            flat = self._flat_demand()
            self._fixed += elapsed * (self.capacity - flat) / (jobs + 1)
            self._slope += elapsed / (jobs + 1)
            self._since = self.env.now

    def _flat_demand(self) -> float:
        return sum(share.flat for share in self.shares if not share.running and not share.blocked)

    def _offer(self, share: Share) -> float:
        own = 0.0 if share.running or share.blocked else share.flat
        return (self.capacity - self._flat_demand() + own) / (len(self._jobs) + 1)

    def _relevel(self) -> None:
        """Water filling: a flat demand above the level is held to the level, like a job."""
        jobs = len(self._jobs)
        if jobs:
            flats = sorted(share.flat for share in self.shares if not share.running and not share.blocked)
            demand, members = sum(flats), jobs
            level = (self.capacity - demand) / members
            while flats and flats[-1] > level:
                demand -= flats.pop()
                members += 1
                level = (self.capacity - demand) / members
            self._level = min(1.0, level) * _collisions(self.capacity, jobs, len(flats), demand)
        self._arm()

    def _arm(self) -> None:
        """One pending event: re-armed only when the next completion moves earlier."""
        if not self._jobs:
            self._armed, self._armed_at = None, math.inf
            return
        due = max(self.env.now, self._since) + max(0.0, self._jobs[0][0] - self._clock) / self._level
        if due < self._armed_at - 1e-12:
            self._armed, self._armed_at = Alarm(self.env, self._ring), due
            self._armed.set(due)

    def _ring(self, alarm: Alarm) -> None:
        if alarm is not self._armed:
            return
        self._armed, self._armed_at = None, math.inf
        self._advance()
        finished = []
        while self._jobs and self._jobs[0][0] - self._clock <= EPSILON:
            finished.append(heapq.heappop(self._jobs))
        for _, _, share, _ in finished:
            share.running = False
            share.disengage(self.env.now)
            self._mark(share)
        self._relevel()
        for _, _, _, done in finished:
            done()


def _collisions(capacity: float, jobs: int, flats: int, demand: float) -> float:
    """Factor <= 1 by which colliding tasks lower the fluid level on more than one core.

    Two flat demands of 0.7 and one job could use two cores fully as fluids; tuples collide. The flat tasks are taken
    as equal and independent; for at most one core the fluid level is exact.
    """
    if capacity <= 1.0 or not flats or demand <= 0.0 or jobs + flats <= capacity:
        return 1.0
    return _collision_factor(capacity, jobs, flats, min(32, round(32 * demand / min(flats, capacity))))


@cache
def _collision_factor(capacity: float, jobs: int, flats: int, step: int) -> float:
    demand = min(flats, capacity) * step / 32
    if not step:
        return 1.0
    each = demand / flats
    low, high = each, 1.0
    for _ in range(40):  # busy probability b with b * rate(b) = each
        b = (low + high) / 2
        rate = _mean_rate(capacity, 1, flats - 1, b, jobs)
        low, high = (b, high) if b * rate < each else (low, b)
    fluid = min(1.0, max((capacity - demand) / jobs, capacity / (jobs + flats)))
    return min(1.0, _mean_rate(capacity, 0, flats, (low + high) / 2, jobs) / fluid)


def _mean_rate(capacity: float, own: int, others: int, busy: float, jobs: int) -> float:
    """E[min(1, C / (own + jobs + K))] with K binomial(others, busy); of many, K is close to its mean."""
    if others > MANY:
        return min(1.0, capacity / (own + jobs + others * busy))
    return sum(
        math.comb(others, k) * busy**k * (1.0 - busy) ** (others - k) * min(1.0, capacity / (own + jobs + k))
        for k in range(others + 1)
        if own + jobs + k
    )
