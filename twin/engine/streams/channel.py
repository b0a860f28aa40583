"""Bounded channels: credits, backpressure, and the path a record takes.

An inbox holds the credits of one replica for one stream: records on the way count, and each one's credit comes back
when its service starts. A producer sends when there is a credit; else the record waits in the port's outbox, and a
producer with a waiting record does not work: that is backpressure. Where producers have pools of buffers, as in Flink,
no record waits for credits (`twin.engine.streams.buffers`).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from operator import mul
from typing import TYPE_CHECKING, Any, Protocol

from twin.engine.calendar import Calendar
from twin.engine.record import Record

if TYPE_CHECKING:
    from twin.engine.partitioners import Partitioner
    from twin.engine.record import Mark
    from twin.engine.streams.buffers import BufferedChannel, InputGate
    from twin.engine.streams.network import Leg, Nic


UNBOUNDED = 10**15
"""Credits of a channel in which no record waits for room."""


class Receiver(Protocol):
    """Interface of a task, or of what receives records in its place."""

    def deliver(self, record: Record) -> None:
        """Takes a record that has arrived."""


class ProducerOutput(Protocol):
    """Part of a task's output (`twin.engine.output.Output`) that ports use."""

    tuples_out: int

    def block(self) -> None:
        """Counts a port that has a record for which its channel has no room."""

    def unblock(self) -> None:
        """Counts a port that has sent what it held back."""

    def held_back(self, record: Record) -> None:
        """Updates the stamps of a record that a full channel held back and that leaves now."""


class Sender(Protocol):
    """Part of a task that ports use."""

    env: Calendar

    @property
    def output(self) -> ProducerOutput:
        """Output of the task."""


class Inbox:
    """Receiving end of one stream at one replica. side: the stream's position among the consumer's inputs.

    capacity: credits in all. beyond_s: CPU seconds of a tuple of this stream beyond the task's `service_s`, which is
    common to all streams. tuple_bytes: size of a tuple. counts: counts of the stream, over all replicas. gate: buffers
    for tuples from other hosts; None where credits count.
    """

    def __init__(
        self,
        task: Receiver,
        side: int,
        capacity: int,
        beyond_s: float = 0.0,
        tuple_bytes: float = 0.0,
        counts: StreamCounts | None = None,
        gate: InputGate | None = None,
    ) -> None:
        self.counts = counts or StreamCounts()
        self.task: Receiver = task
        self.side = side
        self.beyond_s = beyond_s
        self.tuple_bytes = tuple_bytes
        self.gate = gate
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
    """Path from a producer's host to an inbox: a network card with latency, a route of hops, or neither within a host.

    channel: the channel whose buffers the records on this path take up, if any. replica: number of the inbox. Ports
    with buffers set both, and have paths of their own.
    """

    __slots__ = ("bytes_each", "channel", "fetch_s", "inbox", "latency_s", "nic", "replica", "send_s")

    def __init__(
        self, inbox: Inbox, nic: Nic | Leg | None, latency_s: float, bytes_each: float, send_s: float, fetch_s: float
    ) -> None:
        self.inbox = inbox
        self.nic = nic
        self.latency_s = latency_s
        self.bytes_each = bytes_each
        self.send_s = send_s  # CPU seconds a tuple at the producer
        self.fetch_s = fetch_s  # CPU seconds a tuple at the consumer
        self.channel: BufferedChannel | None = None
        self.replica = -1

    def direct(self, record: Record) -> None:
        """Writes a path's inbox, channel and fetch cost on a record."""
        record.inbox, record.channel, record.fetch_s = self.inbox, self.channel, self.fetch_s


class Paths(dict[int, Path]):
    """Paths from one place to the replicas of a stream, each made when it is first used.

    send_s: CPU seconds that a tuple to each replica costs the producer. inbox: returns the inbox at the end of the path
    to a replica, also of a path that has not been made.
    """

    __slots__ = ("_make", "_send_s", "inbox")

    def __init__(self, make: Callable[[int], Path], send_s: Sequence[float], inbox: Callable[[int], Inbox]) -> None:
        super().__init__()
        self._make = make
        self._send_s = send_s
        self.inbox = inbox

    def mean_send_s(self, weights: Sequence[float]) -> float:
        """Mean CPU seconds of sending a tuple, at these shares of the replicas."""
        return sum(map(mul, self._send_s, weights))

    def __missing__(self, replica: int) -> Path:
        path = self[replica] = self._make(replica)
        return path


class Port:
    """Sending end of one stream at one producer replica.

    outbox: records that wait for room, in order. dropped: number of records for which there was none. passed_over:
    number of records that left the task and were not for this stream. told: values of the last control items, by kind.
    elsewhere: number of waiting records that something else holds for it.
    """

    def __init__(self, task: Sender, paths: Paths, partitioner: Partitioner) -> None:
        self.task = task
        self.paths = paths
        self.partitioner = partitioner
        self.outbox: deque[tuple[Path, Record]] = deque()
        self.dropped = 0
        self.passed_over = 0
        self.told: dict[str, float] = {}
        self.elsewhere = 0
        self.refresh()

    def refresh(self) -> None:
        """Updates the cost of sending, after a change of the partitioner's weights."""
        weights = self.partitioner.weights
        self._only = (
            self.paths[0] if len(weights) == 1 and not (self.partitioner.tags or self.partitioner.gives_keys) else None
        )
        self.send_s = self.paths.mean_send_s(weights)  # CPU seconds a record sent

    @property
    def weights(self) -> Sequence[float]:
        """Shares of the consumer's replicas."""
        return self.partitioner.weights

    def receiver(self, replica: int) -> Any:
        """Task, or what stands in for it, to which records for a replica go."""
        return self.paths.inbox(replica).task

    def path_to(self, replica: int) -> Path:
        """Path to a replica."""
        return self.paths[replica]

    def unsent(self) -> Iterable[tuple[Path, Record]]:
        """Records that have not left, with their paths."""
        return self.outbox

    def waiting(self) -> int:
        """Number of records that have not left."""
        return sum([record.n for _, record in self.unsent()])

    def flush(self) -> None:
        """Sends incomplete batches; does nothing in a port that sends at once."""

    def clear(self) -> None:
        """Drops records that have not left."""
        self.outbox.clear()

    def mark(self, mark: Mark) -> None:
        """Sends a control item to every replica that gets, or may get, records, behind all that was sent before."""
        self.told[mark.kind] = mark.value
        self.flush()
        for index, weight in enumerate(self.partitioner.weights):
            if weight > 0.0 or self.partitioner.tags:
                self.pass_on(self.path_to(index), mark.copy())

    def barrier(self, replicas: Iterable[int], mark: Mark, overtakes: bool) -> None:
        """Sends a control item to these replicas, even if they get no records; behind waiting records, or before
        them."""
        self.flush()
        for index in replicas:
            path, item = self.path_to(index), mark.copy()
            if overtakes:
                self.transfer(path, item)
            elif self.outbox:
                self.outbox.append((path, item))
            else:
                self.forward(path, item)

    def send(self, record: Record) -> None:
        """Sends a record to the replicas that the partitioner chooses."""
        only = self._only
        if only is not None:
            self.pass_on(only, record)
            return
        for index, each in self.partitioner.parts(record):
            self.pass_on(self.paths[index], each)

    def pass_on(self, path: Path, record: Record) -> None:
        """Sends a record if there is room and none waits before it; else it waits, and its producer is blocked."""
        if self.outbox:
            self.outbox.append((path, record))
        elif path.inbox.credits >= record.n:
            self.transfer(path, record)
        else:
            self.outbox.append((path, record))
            self.task.output.block()
            path.inbox.waiters.append(self)

    def retry(self, inbox: Inbox) -> bool:
        """Sends records that wait for `inbox`; returns whether the port no longer waits there."""
        outbox = self.outbox
        while outbox and outbox[0][0].inbox is inbox:
            path, record = outbox[0]
            if inbox.credits < record.n:
                return False
            outbox.popleft()
            self.task.output.held_back(record)
            self.transfer(path, record)
        inbox.waiters.popleft()
        if outbox:
            outbox[0][0].inbox.waiters.append(self)
            head = outbox[0][0].inbox
            if head.credits >= outbox[0][1].n:
                head.wake()
        else:
            self.task.output.unblock()
        return True

    def forward(self, path: Path, record: Record) -> None:
        """Sends a record that has its room already."""
        self.transfer(path, record)

    def transfer(self, path: Path, record: Record) -> None:
        """Sends a record, which takes its credit along."""
        inbox = path.inbox
        inbox.credits -= record.n
        inbox.sent += record.n
        path.direct(record)
        record.sender = self.task
        if path.nic is None:
            inbox.task.deliver(record)
        else:
            path.nic.transmit(record, path.bytes_each, path.latency_s)


class StreamCounts:
    """Counts of a stream, over all replicas. tuples: tuples taken. took_s: sum of their seconds on the way. copies:
    tuples sent twice into an operator over event time, to the owners before and after a cut."""

    def __init__(self) -> None:
        self.tuples = 0
        self.took_s = 0.0
        self.copies = 0
