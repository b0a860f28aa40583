"""Competing consumers: replicas that take from one queue; a free one takes the next tuple.

Exact: one inbox and one queue (M/M/c). Fast: every segment is dealt to all replicas in equal parts; that the queue is
common shows in what their load varies by, which is the whole pool's, and in their hidden wait.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

import numpy as np

from twin.engine.draws import Draws
from twin.engine.segment import Segment
from twin.engine.station.intake import Intake


class Pool:
    """The common queue of an exact run. It stands where a task stands as the receiver of an inbox.

    Waiting tuples are kept by the members in turn: they count as queued there, for memory and statistics.
    """

    def __init__(self) -> None:
        self.members: list[Intake] = []
        self._queue: deque[tuple[Segment, Intake]] = deque()
        self._idle: deque[Intake] = deque()  # the longest idle one first; some may have found other work meanwhile
        self._listed: set[Intake] = set()
        self._turn = 0

    def join(self, member: Intake) -> None:
        """Adds a replica."""
        self.members.append(member)
        self._list(member)

    def deliver(self, segment: Segment) -> None:
        """Hands a segment to the replica that has been idle longest, or lets it wait."""
        if not (segment.n or self._queue):
            self._tell(segment)
            return
        while self._idle and segment.n:
            member = self._idle.popleft()
            self._listed.remove(member)
            if free(member):
                member.deliver(segment)
                return
        keeper = self.members[self._turn]
        self._turn = (self._turn + 1) % len(self.members)
        keeper.queued += segment.n
        self._queue.append((segment, keeper))

    def feed(self, member: Intake) -> None:
        """Gives a replica that may be free what waits."""
        while free(member):
            if not self._queue:
                self._list(member)
                return
            segment, keeper = self._queue.popleft()
            if not segment.n:
                self._tell(segment)
                continue
            keeper.queued -= segment.n
            member.queued += segment.n
            segment.waited = True
            member.begin(segment)

    def _tell(self, mark: Segment) -> None:
        """A control item whose turn has come goes to all: each heeds it when it has served what it has."""
        for member in self.members:
            member.deliver(mark.copy())

    def _list(self, member: Intake) -> None:
        if member not in self._listed:
            self._listed.add(member)
            self._idle.append(member)


def free(task: Intake) -> bool:
    """Whether the task could begin a service now."""
    return not (task.busy or task.blocked or task.halted or task.queue)


def make_pool(tasks: Sequence[Intake]) -> Pool:
    """Joins members of one operator to a new pool."""
    pool = Pool()
    for task in tasks:
        task.pool = pool
        pool.join(task)
    return pool


class PoolDraws(Draws):
    """Random numbers of a member in a fast run: what one replica's work varies by, the others make up for."""

    __slots__ = ("_root",)

    def __init__(self, rng: np.random.Generator, service_scv: float, servers: int) -> None:
        super().__init__(rng, service_scv)
        self._root = servers**-0.5

    def services(self, n: int) -> float:
        """The sum of n service times of mean 1, with the variance of the pool's divided by its size."""
        return max(0.0, n + (super().services(n) - n) * self._root)
