"""Bounded channels: credits, backpressure, and the path a segment takes.

An inbox holds the credits of one replica for one stream: tuples on the way count, half of a segment's credits come
back when its service starts and the rest when it ends. A producer sends when there is room for all of a segment; else
the segment waits in the port's outbox, and a producer with a waiting segment does not work: that is backpressure.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from operator import mul
from typing import TYPE_CHECKING, Protocol

from twin.engine.compute.bunches import ALONE
from twin.engine.measure.way import Way
from twin.engine.segment import Segment
from twin.engine.streams.confluence import Lane
from twin.engine.streams.pieces import in_pieces, paced

if TYPE_CHECKING:
    from twin.engine.dealing.in_turn import Deal
    from twin.engine.station.task import Task
    from twin.engine.streams.control import Mark
    from twin.engine.streams.network import Nic
    from twin.engine.streams.route import Leg


UNBOUNDED = 10**15
"""Credits of a channel in which nothing waits for room."""
DEEP = 128
"""Half a channel that holds so many tuples hardly ever blocks below saturation: idle, it takes any smooth segment."""
LOTS = 2
"""A segment for one of many replicas holds at most one part in so many of what may travel: what belongs to all of them
in turn would fill one's channel else, and hold its producer up while the others run dry."""
FINER, FINEST = 8, 16
"""A burst that does not fit into a channel is cut so much finer than other segments; what waits for room, at most."""

CRAWL = 2.0
"""Gaps between tuples after which a producer that was held up has its next tuple ready, at most."""


class Receiver(Protocol):
    """A task, or what stands for one."""

    def deliver(self, segment: Segment) -> None:
        """Takes a segment whose last tuple has arrived."""


class Inbox:
    """Where one replica receives one stream. `side` is the stream's place among the consumer's inputs.

    beyond_s: CPU seconds that a tuple of this stream takes beyond the task's `service_s`, which is of all its streams.
    tuple_bytes: size of each. way: what is known of the way here, of all replicas together. coming: how tuples come.
    """

    __slots__ = (
        "_draining",
        "beyond_s",
        "capacity",
        "coming",
        "credits",
        "lane",
        "sent",
        "side",
        "task",
        "tuple_bytes",
        "waiters",
        "way",
    )

    def __init__(
        self,
        task: Receiver,
        side: int,
        capacity: int,
        turns: int = 1,
        beyond_s: float = 0.0,
        tuple_bytes: float = 0.0,
        way: Way | None = None,
    ) -> None:
        self.way = way or Way()
        self.task: Receiver = task
        self.lane = Lane(turns)
        self.coming = ALONE
        self.side = side
        self.beyond_s = beyond_s
        self.tuple_bytes = tuple_bytes
        self.capacity = capacity
        self.credits = capacity
        self.sent = 0
        self.waiters: deque[Port] = deque()
        self._draining = False

    def wake(self) -> None:
        """Lets waiting producers send what the credits now allow."""
        waiters = self.waiters
        if self._draining:  # a delivery may give credits back while the loop below runs
            return
        self._draining = True
        while waiters and waiters[0].retry(self):
            pass
        self._draining = False


class Path:
    """From one producer's host to one inbox: a network card with latency, a route of hops, or none within a host."""

    __slots__ = ("bytes_each", "fetch_s", "inbox", "latency_s", "nic", "send_s")

    def __init__(
        self, inbox: Inbox, nic: Nic | Leg | None, latency_s: float, bytes_each: float, send_s: float, fetch_s: float
    ) -> None:
        self.inbox = inbox
        self.nic = nic
        self.latency_s = latency_s
        self.bytes_each = bytes_each
        self.send_s = send_s  # CPU seconds a tuple at the producer
        self.fetch_s = fetch_s  # CPU seconds a tuple at the consumer


class Paths(dict[int, Path]):
    """The paths from one place to the replicas of a stream, each made when it is first used.

    send_s: CPU seconds that a tuple to each replica costs the producer.
    """

    __slots__ = ("_make", "_send_s")

    def __init__(self, make: Callable[[int], Path], send_s: Sequence[float]) -> None:
        super().__init__()
        self._make = make
        self._send_s = send_s

    def mean_send_s(self, weights: Sequence[float]) -> float:
        """CPU seconds a tuple, at these shares of the replicas."""
        return sum(map(mul, self._send_s, weights))

    def __missing__(self, replica: int) -> Path:
        path = self[replica] = self._make(replica)
        return path


class Port:
    """One producer replica's end of one stream."""

    __slots__ = (
        "_only",
        "cap",
        "deal",
        "dropped",
        "fine",
        "lot",
        "outbox",
        "passed_over",
        "paths",
        "room",
        "send_s",
        "sent_s",
        "task",
        "told",
    )

    def __init__(self, task: Task, paths: Paths, deal: Deal, cap: int, fine: int = UNBOUNDED) -> None:
        self.task = task
        self.paths = paths
        self.deal = deal
        self.cap = cap  # largest segment that may travel
        self.fine = max(fine, cap // FINEST)  # ... that has waited for room
        self.lot = max(1, cap // LOTS)
        self.outbox: deque[tuple[Path, Segment]] = deque()
        self.sent_s = 0.0  # when a segment last left that had been held back, or met the first that was
        self.room = 0.0  # for that part of the first one there was room by then
        self.dropped = 0
        self.passed_over = 0  # tuples that left the task and were not for this stream
        self.told: dict[str, float] = {}  # values of the last control items, by kind
        self.refresh()

    def refresh(self) -> None:
        """After a change of the deal's weights."""
        weights = self.deal.weights
        self._only = self.paths[0] if len(weights) == 1 and not self.deal.tags else None
        self.send_s = self.paths.mean_send_s(weights)  # CPU seconds a tuple sent

    def unsent(self) -> Iterable[tuple[Path, Segment]]:
        """What has not left, and which way it will go."""
        return self.outbox

    def waiting(self) -> int:
        """Tuples that have not left."""
        return sum([segment.n for _, segment in self.unsent()])

    def flush(self) -> None:
        """Lets go what waits for others to travel with; nothing in a port that sends at once."""

    def clear(self) -> None:
        """Drops what has not left."""
        self.outbox.clear()

    def mark(self, mark: Mark) -> None:
        """Sends a control item to every replica that gets, or may get, tuples, behind all that was sent before."""
        self.told[mark.kind] = mark.value
        self.flush()
        for index, weight in enumerate(self.deal.weights):
            if weight > 0.0 or self.deal.tags:
                self._pass(self.paths[index], mark.copy())

    def barrier(self, replicas: Iterable[int], mark: Mark, overtakes: bool) -> None:
        """Sends a control item to these replicas, whether or not they get tuples; behind what waits, or before it."""
        self.flush()
        for index in replicas:
            path, item = self.paths[index], mark.copy()
            if overtakes or not self.outbox:
                self._transfer(path, item)
            else:
                self.outbox.append((path, item))

    def send(self, segment: Segment) -> None:
        """Deals a segment to the consumer's replicas, in pieces of at most `cap` unless the channel is idle."""
        only = self._only
        if only is not None and segment.n <= self.cap:  # the usual case, without the two calls it takes otherwise
            if self.outbox or only.inbox.credits < segment.n:
                self._pass(only, segment)
            else:
                self._transfer(only, segment)
            return
        pieces = in_pieces(segment, self.lot * self.deal.receivers(segment)) if self.deal.wide else (segment,)
        for piece in pieces:
            for index, part in self.deal.parts(piece):
                self._send_part(self.paths[index], part)

    def _send_part(self, path: Path, part: Segment) -> None:
        idle = path.inbox.credits == path.inbox.capacity and not self.outbox  # all has been served as it came
        if idle and part.n > self.cap >= DEEP and part.b_s > part.a_s:
            self._transfer(path, part)
            return
        for piece in in_pieces(part, self.cap):
            self._pass(path, piece)

    def _pass(self, path: Path, segment: Segment) -> None:
        n = segment.n
        if not self.outbox and path.inbox.credits >= n:
            self._transfer(path, segment)
            return
        if self.fine < segment.n and self._crawled(segment):
            room = path.inbox.credits
            if 0 < room < segment.n:
                first, segment = paced(segment, room)
                for piece in in_pieces(first, self.fine):
                    self._transfer(path, piece)
        burst = segment.a_s == segment.b_s  # as much of it leaves as there is room for
        for piece in in_pieces(segment, max(1, self.cap // FINER) if burst else self.fine):
            self._queue(path, piece)

    def _crawled(self, segment: Segment) -> bool:
        """Whether there was no room when its first tuple was ready, so that each left when one was taken."""
        gap_s = (segment.b_s - segment.a_s) / (segment.n - 1) if segment.n > 1 else 0.0
        return gap_s > 0.0 and not self.outbox and segment.a_s - self.sent_s < CRAWL * gap_s

    def _queue(self, path: Path, segment: Segment) -> None:
        if not self.outbox and path.inbox.credits >= segment.n:
            self._transfer(path, segment)
            return
        self.outbox.append((path, segment))
        if len(self.outbox) == 1:
            self.sent_s = self.task.env.now
            self.room = max(0, path.inbox.credits) / max(1, segment.n)
            self.task.block()
            path.inbox.waiters.append(self)

    def retry(self, inbox: Inbox) -> bool:
        """Sends what waits for `inbox`; True if the port no longer waits there."""
        outbox = self.outbox
        while outbox and outbox[0][0].inbox is inbox:
            path, segment = outbox[0]
            if inbox.credits < segment.n:
                return False
            outbox.popleft()
            self.task.held_back(segment, self._let_in_since_s(segment))
            self.sent_s, self.room = self.task.env.now, 0.0
            self._transfer(path, segment)
        inbox.waiters.popleft()
        if outbox:
            outbox[0][0].inbox.waiters.append(self)
            head = outbox[0][0].inbox
            if head.credits >= outbox[0][1].n:
                head.wake()
        else:
            self.task.unblock()
        return True

    def _let_in_since_s(self, segment: Segment) -> float:
        """From when on room came: for a part of the first that waited it came while that was made.

        A segment then leaves as late as its tuples do on average: that part over the time in which they were made, the
        rest from then until now. Where room comes evenly it leaves from its own beginning on, and streams that are held
        back have no gaps.
        """
        if segment.a_s == segment.b_s:
            return self.sent_s
        return self.sent_s - self.room * (self.task.env.now - segment.a_s)

    def _transfer(self, path: Path, segment: Segment) -> None:
        inbox = path.inbox
        inbox.credits -= segment.n
        inbox.sent += segment.n
        segment.inbox = inbox
        segment.sender = self.task
        segment.fetch_s = path.fetch_s
        if path.nic is None:
            inbox.task.deliver(segment)
        else:
            path.nic.transmit(segment, path)
