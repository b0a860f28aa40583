"""Competing consumers: replicas that take from one queue; a free one takes the next record.

One inbox and one queue, as in M/M/c.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

from twin.engine.record import Record
from twin.engine.station.task import Task


class Pool:
    """The common queue. It stands where a task stands as the receiver of an inbox.

    Waiting records are kept by the members in turn: they count as queued there, for memory and statistics. idle: the
    longest idle member first, of which some may have found other work meanwhile; listed: those that are there.
    """

    def __init__(self) -> None:
        self.members: list[Task] = []
        self.queue: deque[tuple[Record, Task]] = deque()
        self.idle: deque[Task] = deque()
        self.listed: set[Task] = set()
        self.turn = 0

    def join(self, member: Task) -> None:
        """Adds a replica."""
        self.members.append(member)
        self._list(member)

    def deliver(self, record: Record) -> None:
        """Hands a record to the replica that has been idle longest, or lets it wait."""
        if not (record.n or self.queue):
            self._tell(record)
            return
        while self.idle and record.n:
            member = self.idle.popleft()
            self.listed.remove(member)
            if free(member):
                member.deliver(record)
                return
        keeper = self.members[self.turn]
        self.turn = (self.turn + 1) % len(self.members)
        keeper.queued += record.n
        self.queue.append((record, keeper))

    def feed(self, member: Task) -> None:
        """Gives a replica that may be free what waits."""
        while free(member):
            if not self.queue:
                self._list(member)
                return
            record, keeper = self.queue.popleft()
            if not record.n:
                self._tell(record)
                continue
            keeper.queued -= record.n
            member.queued += record.n
            member.begin(record)

    def _tell(self, mark: Record) -> None:
        """A control item whose turn has come goes to all: each heeds it when it has served what it has."""
        for member in self.members:
            member.deliver(mark.copy())

    def _list(self, member: Task) -> None:
        if member not in self.listed:
            self.listed.add(member)
            self.idle.append(member)


def free(task: Task) -> bool:
    """Whether the task could begin a service now."""
    return not (task.busy or task.output.blocked or task.halted or task.queue)


def make_pool(tasks: Sequence[Task]) -> Pool:
    """Joins members of one operator to a new pool."""
    pool = Pool()
    for task in tasks:
        task.pool = pool
        pool.join(task)
    return pool
