"""Bounded channels: credits, backpressure, and the path a segment takes.

An inbox holds the credits of one replica for one stream: tuples on the way count, half of a segment's credits come
back when its service starts and the rest when it ends. A producer sends when half of what it needs is there; else its
segment waits in the port's outbox, and a producer with a waiting segment does not work: that is backpressure.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from twin.engine.segment import Segment

if TYPE_CHECKING:
    from twin.engine.network import Nic
    from twin.engine.partition import Deal
    from twin.engine.task import Task


class Inbox:
    """Where one replica receives one stream. `side` is the stream's place among the consumer's inputs."""

    __slots__ = ("_draining", "credits", "sent", "side", "task", "waiters")

    def __init__(self, task: Task, side: int, capacity: int) -> None:
        self.task = task
        self.side = side
        self.credits = capacity
        self.sent = 0
        self.waiters: deque[Port] = deque()
        self._draining = False

    def release(self, returned: int) -> None:
        """Gives credits back and lets waiting producers send."""
        self.credits += returned
        waiters = self.waiters
        if not waiters or self._draining:  # a delivery may release credits while the loop below runs
            return
        self._draining = True
        while waiters and waiters[0].retry(self):
            pass
        self._draining = False


class Path:
    """From one producer's host to one inbox: a network card with latency, or none within a host."""

    __slots__ = ("bytes_each", "fetch_s", "inbox", "latency_s", "nic", "send_s")

    def __init__(
        self, inbox: Inbox, nic: Nic | None, latency_s: float, bytes_each: float, send_s: float, fetch_s: float
    ) -> None:
        self.inbox = inbox
        self.nic = nic
        self.latency_s = latency_s
        self.bytes_each = bytes_each
        self.send_s = send_s  # CPU seconds a tuple at the producer
        self.fetch_s = fetch_s  # CPU seconds a tuple at the consumer


class Port:
    """One producer replica's end of one stream."""

    __slots__ = ("_only", "cap", "deal", "outbox", "paths", "send_s", "task")

    def __init__(self, task: Task, paths: list[Path], deal: Deal, cap: int) -> None:
        self.task = task
        self.paths = paths
        self.deal = deal
        self.cap = cap  # largest segment that may travel
        self.outbox: deque[tuple[Path, Segment]] = deque()
        self.refresh()

    def refresh(self) -> None:
        """After a change of the paths or of the deal's weights."""
        paths = self.paths
        self._only = paths[0] if len(paths) == 1 else None
        self.send_s = sum(path.send_s * weight for path, weight in zip(paths, self.deal.weights, strict=True))

    def send(self, segment: Segment) -> None:
        """Deals a segment to the consumer's replicas, in pieces no larger than a channel can take."""
        only = self._only
        if only is not None and segment.n <= self.cap:  # the usual case, without the two calls it takes otherwise
            if self.outbox or only.inbox.credits * 2 < segment.n:
                self._pass(only, segment)
            else:
                self._transfer(only, segment)
            return
        for index, piece in self.deal.parts(segment):
            if piece.n <= self.cap:
                self._pass(self.paths[index], piece)
                continue
            pieces = -(-piece.n // self.cap)
            taken = 0
            for k in range(pieces):
                n = (piece.n * (k + 1)) // pieces - taken
                self._pass(self.paths[index], piece.part(n, taken / piece.n, (taken + n) / piece.n))
                taken += n

    def _pass(self, path: Path, segment: Segment) -> None:
        if not self.outbox and path.inbox.credits * 2 >= segment.n:
            self._transfer(path, segment)
            return
        self.outbox.append((path, segment))
        if len(self.outbox) == 1:
            self.task.block()
            path.inbox.waiters.append(self)

    def retry(self, inbox: Inbox) -> bool:
        """Sends what waits for `inbox`; True if the port no longer waits there."""
        outbox = self.outbox
        while outbox and outbox[0][0].inbox is inbox:
            path, segment = outbox[0]
            if inbox.credits * 2 < segment.n:
                return False
            outbox.popleft()
            now = self.task.env.now  # held back: the tuples leave now, whenever they were made
            if segment.a_s < now:
                segment.a_s = now
            if segment.b_s < now:
                segment.b_s = now
            self._transfer(path, segment)
        inbox.waiters.popleft()
        if outbox:
            outbox[0][0].inbox.waiters.append(self)
            head = outbox[0][0].inbox
            if head.credits * 2 >= outbox[0][1].n:
                head.release(0)
        else:
            self.task.unblock()
        return True

    def _transfer(self, path: Path, segment: Segment) -> None:
        inbox = path.inbox
        inbox.credits -= segment.n
        inbox.sent += segment.n
        segment.inbox = inbox
        segment.fetch_s = path.fetch_s
        if path.nic is None:
            inbox.task.deliver(segment)
        else:
            path.nic.transmit(segment, path)
