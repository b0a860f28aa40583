"""CPU sharing among the tasks of one socket: event-driven max-min sharing with two kinds of demand.

*Jobs* are backlog: each wants a whole core, all run at one level L, by one virtual clock (processor sharing). *Flat
demands* are tasks that keep up with their input: they work at their own rate and ask for no event. With single tuples
only jobs exist and the scheme is exact processor sharing with rate min(1, C / k).
"""

from __future__ import annotations

import heapq
import math
from typing import TYPE_CHECKING

import simpy

from twin.engine.alarm import Alarm
from twin.engine.compute.collisions import collisions
from twin.engine.compute.company import Tally
from twin.engine.compute.crowd import Crowd
from twin.engine.compute.flats import Flats, grained
from twin.engine.compute.share import Share

if TYPE_CHECKING:
    from collections.abc import Callable

EPSILON = 1e-11
"""Core-seconds below which a job is done: rounding must not stall the clock."""
RENEW_S = 1.0
"""Simulated seconds for which it is known who gets work together."""
FORGET = 0.7
"""Per moment at which segments come, in the estimate of a flat demand: were it per segment, a burst of them would leave
next to nothing of the time that passed before it, and cores would be kept free for a demand that is not there."""
OVERDRAFT, OVERDRAFT_S = 0.02, 0.25
"""Of the time since the beginning, and seconds besides: by how much work may be ahead of the cores. What tasks need is
estimated, and where it proves to be more, the jobs beside them were given too much: they wait until it is made up for.
Of 1,500 random runs of coarse segments, six were ahead by more than 5 %."""


class Processor:
    """One socket of `capacity` reference cores; a task uses at most one of them at a time."""

    __slots__ = (
        "_armed",
        "_armed_at",
        "_clock",
        "_done_s",
        "_flats",
        "_floor",
        "_jobs",
        "_level",
        "_made_up_s",
        "_ringing",
        "_rung",
        "_sequence",
        "_since",
        "capacity",
        "crowd",
        "env",
        "factors",
        "overdrawn_s",
        "shared",
        "shares",
        "slowdown",
        "speed",
        "tally",
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
        self.overdrawn_s = 0.0  # for which jobs had to wait, as too much had been worked
        self._level = min(1.0, capacity)
        self._clock = 0.0
        self._done_s = 0.0  # core-seconds of jobs, and of tasks that kept up
        self._made_up_s = 0.0  # until when nothing proceeds, as too much was done
        self._since = 0.0
        self._flats = Flats()  # of the tasks that neither have a job nor are blocked
        self._jobs: list[tuple[float, int, Share, Callable[[], None]]] = []
        self._sequence = 0
        self._armed: Alarm | None = None
        self._armed_at = math.inf
        self._rung: Alarm | None = None  # to be armed again
        self._ringing = False
        self._floor = min(1.0, capacity)  # cores that each task gets at least
        self.tally = Tally()
        self.crowd: Crowd | None = None  # of few tasks, where all know each other

    def slow(self, cause: str, factor: float) -> None:
        """Sets one cause's factor on work; the slow-down is the product of all causes'."""
        if self.factors.get(cause) != factor:
            self.factors[cause] = factor
            self.slowdown = math.prod(self.factors.values())

    def pause(self, until_s: float) -> None:
        """Nothing proceeds before that time."""
        self._advance(self.env.now)
        self._since = max(self._since, until_s)

    def attach(self) -> Share:
        """Adds a task. Sharing begins when more tasks sit here than there are cores."""
        self._advance(self.env.now)
        share = Share()
        self.shares.append(share)
        self._flats.add(share.flat)
        self._count()
        self._relevel()
        return share

    def detach(self, share: Share) -> None:
        """Takes a task away, with whatever it still had to do."""
        self._drop(share)
        self.shares.remove(share)
        share.attached = False
        self._rest(share)
        self._relevel()
        self._count()

    def cancel(self, share: Share) -> None:
        """Drops a task's job; its `done` is never called."""
        self._drop(share)
        self._relevel()

    def available(self, share: Share) -> float:
        """Rate, in cores, that a task which keeps up would have got on average while busy since it last asked.

        Among others, an equal part of the cores with each that is busy then; jobs are busy all the time.
        """
        now: float = self.env.now
        self._advance(now)
        if now >= share.renew_s:
            self._renew(share, now)
        crowd = self.crowd
        if crowd is not None:
            crowd.renew(now)
        rate = share.company.rate(self.tally, self.capacity, now, len(self._jobs), share, crowd)
        if rate < self._floor:
            return self._floor
        return rate if rate < 1.0 else 1.0

    def _renew(self, share: Share, now: float) -> None:
        """Looks at who gets work when a task does."""
        share.renew_s = now + RENEW_S
        inputs = share.inputs
        if inputs is None or not inputs.inboxes:
            return
        used = self.work_s / (self.capacity * now) if now > 0.0 else 0.0
        found = inputs.bunch(self.capacity, share.usual, used)
        if not share.resting:
            self.tally.remove(share)
        share.bunch = found
        if not share.resting:
            self.tally.add(share)

    def kept_up(self, share: Share, work_s: float, speed: float) -> None:
        """Records work that a task did while its input arrived: its flat demand is the ratio of the two sums.

        speed: in cores, at which it could have worked.
        """
        now: float = self.env.now
        time_s = share.free_time_s(now)
        keep = FORGET if time_s > 0.0 else 1.0
        share.work_sum = share.work_sum * keep + work_s
        share.time_sum = share.time_sum * keep + time_s
        spare_s = share.spare_s + time_s * speed - work_s
        share.spare_s = spare_s * keep if spare_s > 0.0 else 0.0
        self._advance(now)
        self._done_s += work_s
        ahead_s = self._done_s / self.capacity - now * (1.0 + OVERDRAFT) - OVERDRAFT_S
        if ahead_s > 0.0:
            self._make_up(now + ahead_s)
        usual = share.expect(work_s, time_s)
        if not share.resting:
            self.tally.remove(share)
        share.usual = usual
        share.present = grained(usual / speed) if usual < speed else 1.0
        if not share.resting:
            self.tally.add(share)
        if share.time_sum > 0.0:
            flat = grained(share.work_sum / share.time_sum) if share.work_sum < share.time_sum else 1.0
            if flat != share.flat:
                if not share.resting:
                    self._flats.remove(share.flat)
                    self._flats.add(flat)
                share.flat = flat
                self._relevel()

    def start(self, share: Share, work_s: float, done: Callable[[], None]) -> None:
        """Runs a job of `work_s` core-seconds; calls `done` when it has been served."""
        now: float = self.env.now
        self._advance(now)
        share.begin(now)
        share.given_s += work_s
        self._rest(share)
        self._sequence += 1
        heapq.heappush(self._jobs, (self._clock + work_s, self._sequence, share, done))
        self._relevel()

    def block(self, share: Share, blocked: bool) -> None:
        """A blocked task has no demand; an unblocked one starts a fresh average."""
        if share.blocked != blocked:
            now: float = self.env.now
            self._advance(now)
            share.blocked = blocked
            if blocked:
                share.engage(now)
            else:
                share.disengage(now)
            self._rest(share)
            share.company.begin(self.tally, now)
            self._relevel()

    def stopped(self, share: Share) -> bool:
        """Whether too much has been worked already. Then a task did nothing as its input came, nor will it have."""
        if self._made_up_s <= self.env.now:
            return False
        share.forgo(self.env.now)
        return True

    def _make_up(self, until_s: float) -> None:
        """More has been worked than there are cores for until then: no job proceeds before."""
        begin_s = max(self.env.now, self._made_up_s)
        if until_s > begin_s:
            self.overdrawn_s += until_s - begin_s
            self._made_up_s = until_s
            self.pause(until_s)

    def _count(self) -> None:
        tasks = len(self.shares)
        self.shared = tasks > 1 and tasks > self.capacity
        self._floor = min(1.0, self.capacity / max(1, tasks))

    def _drop(self, share: Share) -> None:
        self._advance(self.env.now)
        if share.running:
            self._jobs = [job for job in self._jobs if job[2] is not share]
            heapq.heapify(self._jobs)
            share.end(self.env.now)
            self._rest(share)

    def _rest(self, share: Share) -> None:
        """Counts its flat demand in or out."""
        resting = share.running or share.blocked or not share.attached
        if resting != share.resting:
            share.resting = resting
            if resting:
                self._flats.remove(share.flat)
                self.tally.remove(share)
            else:
                self._flats.add(share.flat)
                self.tally.add(share)

    def _advance(self, now: float) -> None:
        elapsed = now - self._since
        if elapsed > 0.0:
            self._clock += self._level * elapsed
            self._done_s += len(self._jobs) * self._level * elapsed
            self.tally.spend(elapsed, len(self._jobs), self.capacity, self._level)
            self._since = now

    def _relevel(self) -> None:
        """What each job gets now, and when the first will end. Not while jobs ring: once when the last has rung."""
        jobs = len(self._jobs)
        if jobs and not self._ringing:
            flats, capacity = self._flats, self.capacity
            level = flats.level(capacity, jobs)
            if level > 1.0:
                level = 1.0
            if capacity > 1.0:
                level = self._among(level, jobs)
            self._level = level
            self._arm()

    def _among(self, fluid: float, jobs: int) -> float:
        """What each job gets of that, as tuples collide: with others that are alike, or with those that are known."""
        flats = self._flats
        level = fluid * collisions(self.capacity, jobs, flats.low, flats.demand)
        if jobs == 1 and self.crowd is not None:
            level = max(level, min(fluid, self.crowd.always_rate(self._jobs[0][2].place)))
        return level

    def _arm(self) -> None:
        """One pending event: armed again only when the next completion moves earlier."""
        now, since = self.env.now, self._since
        due, left_s = now if now > since else since, self._jobs[0][0] - self._clock
        if left_s > 0.0:
            due += left_s / self._level
        if due < self._armed_at - 1e-12:
            alarm = self._rung or Alarm(self.env, self._ring)
            self._rung = None
            self._armed, self._armed_at = alarm, due
            alarm.set(due)

    def _ring(self, alarm: Alarm) -> None:
        self._rung = alarm
        if alarm is not self._armed:
            return
        self._armed, self._armed_at = None, math.inf
        jobs, now = self._jobs, self.env.now
        if not jobs:
            return
        self._advance(now)
        if jobs[0][0] - self._clock > EPSILON:  # its end has moved later
            self._arm()
            return
        finished = []
        while jobs and jobs[0][0] - self._clock <= EPSILON:
            finished.append(heapq.heappop(jobs))
        for _, _, share, _ in finished:
            share.end(now)
            share.disengage(now)
            self._rest(share)
            share.company.begin(self.tally, now)
        self._ringing = True
        for _, _, _, done in finished:
            done()
        self._ringing = False
        self._relevel()
