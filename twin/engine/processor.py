"""Processors: CPU sharing among the tasks of one socket, as exact processor sharing on one virtual clock.

Each task that has work has one job. All jobs run at one level, min(1, C / k) of a core for k jobs on C cores. The
virtual clock runs at that level, so the end of a job on it is known when the job starts.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from heapq import heapify, heappop, heappush
from typing import Protocol

import simpy

from twin.engine.calendar import Alarm

EPSILON = 1e-11
"""Core-seconds below which a job is done: rounding must not stall the clock."""


class Worker(Protocol):
    """Interface of a task that sits on the processor."""

    def left_s(self) -> float:
        """Core-seconds that the work under way still needs."""


class Processor:
    """One socket of `capacity` reference cores; a task uses at most one of them at a time.

    shared: whether more tasks sit here than there are cores; else each has a core, and starts no jobs. jobs: a heap of
    (end on the virtual clock, number, task, function to call at the end). clock: reading of the virtual clock at
    `since_s`.
    """

    def __init__(self, env: simpy.Environment, capacity: float) -> None:
        self.env = env
        self.capacity = capacity
        self.slowdown = 1.0  # factor on all work that begins now
        self.factors: dict[str, float] = {}
        self.tasks: list[Worker] = []
        self.shared = False
        self.speed = min(1.0, capacity)  # in cores, of a task alone
        self.work_s = 0.0  # core-seconds taken up, for utilisation
        self.level = min(1.0, capacity)
        self.clock = 0.0
        self.since_s = 0.0
        self.jobs: list[tuple[float, int, Worker, Callable[[], None]]] = []
        self._sequence = 0
        self._armed: Alarm | None = None
        self._armed_at = math.inf
        self._rung: Alarm | None = None  # to be armed again
        self._ringing = False

    def slow(self, cause: str, factor: float) -> None:
        """Sets one cause's factor on work; the slowdown is the product of all causes' factors."""
        if self.factors.get(cause) != factor:
            self.factors[cause] = factor
            self.slowdown = math.prod(self.factors.values())

    def pause(self, until_s: float) -> None:
        """Stops all work until `until_s`."""
        self._advance(self.env.now)
        self.since_s = max(self.since_s, until_s)

    def attach(self, task: Worker) -> None:
        """Adds a task."""
        self.tasks.append(task)
        self._count()
        self.refresh()

    def detach(self, task: Worker) -> None:
        """Takes a task away, with the work that it still had to do."""
        self.cancel(task)
        self.tasks.remove(task)
        self._count()

    def start(self, task: Worker, work_s: float, done: Callable[[], None]) -> None:
        """Runs a job of `work_s` core-seconds; calls `done` when it has been served."""
        self._advance(self.env.now)
        self._sequence += 1
        heappush(self.jobs, (self.clock + work_s, self._sequence, task, done))
        self._relevel()

    def cancel(self, task: Worker) -> None:
        """Drops a task's job; its `done` is never called."""
        self._advance(self.env.now)
        self.jobs = [job for job in self.jobs if job[2] is not task]
        heapify(self.jobs)
        self._relevel()

    def refresh(self) -> None:
        """Brings the clock up to now."""
        self._advance(self.env.now)
        self._relevel()

    def left_s(self, task: Worker) -> float:
        """Core-seconds that a task's job still needs; 0 without one."""
        clock = self.clock + self.level * max(0.0, self.env.now - self.since_s)
        return sum([max(0.0, job[0] - clock) for job in self.jobs if job[2] is task])

    def _count(self) -> None:
        tasks = len(self.tasks)
        self.shared = tasks > 1 and tasks > self.capacity

    def _advance(self, now: float) -> None:
        elapsed = now - self.since_s
        if elapsed > 0.0:
            self.clock += self.level * elapsed
            self.since_s = now

    def _relevel(self) -> None:
        """Sets the level of all jobs and the alarm for the next end; after the last of several jobs that end
        together."""
        jobs = len(self.jobs)
        if jobs and not self._ringing:
            level = self.capacity / jobs
            self.level = level if level < 1.0 else 1.0
            self._arm()

    def _arm(self) -> None:
        """Sets the one pending alarm for the next end; sets it again only when that end moves earlier."""
        now, since_s = self.env.now, self.since_s
        due_s, left_s = now if now > since_s else since_s, self.jobs[0][0] - self.clock
        if left_s > 0.0:
            due_s += left_s / self.level
        if due_s < self._armed_at - 1e-12:
            alarm = self._rung or Alarm(self.env, self._ring)
            self._rung = None
            self._armed, self._armed_at = alarm, due_s
            alarm.set(due_s)

    def _ring(self, alarm: Alarm) -> None:
        self._rung = alarm
        if alarm is not self._armed:
            return
        self._armed, self._armed_at = None, math.inf
        jobs = self.jobs
        if not jobs:
            return
        self._advance(self.env.now)
        if jobs[0][0] - self.clock > EPSILON:  # its end has moved later
            self._arm()
            return
        finished = []
        while jobs and jobs[0][0] - self.clock <= EPSILON:
            finished.append(heappop(jobs))
        self._ringing = True
        for _, _, _, done in finished:
            done()
        self._ringing = False
        self._relevel()
