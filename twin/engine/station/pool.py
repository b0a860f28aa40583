"""Competing consumers: replicas that take from one shared queue, as in M/M/c; a free one takes the next record."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

from twin.engine.record import Record
from twin.engine.station.task import Task


class Pool:
    """Shared queue of several tasks. It stands where a task stands as the receiver of an inbox.

    Waiting records are assigned to the members in turn: they count as queued there, for memory and statistics. idle:
    idle members, the longest idle first; some may have found other work meanwhile. listed: the members in `idle`.
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
        """Gives waiting records to a replica that may be free."""
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
        """Sends a control item whose turn has come to all members: each heeds it when it has served what it has."""
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
    """Makes a pool of the tasks of one operator."""
    pool = Pool()
    for task in tasks:
        task.pool = pool
        pool.join(task)
    return pool
