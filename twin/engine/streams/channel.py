"""Bounded channels: credits, backpressure, and the path a record takes.

An inbox holds the credits of one replica for one stream: records on the way count, and each one's credit comes back
when its service starts. A producer sends when there is a credit; else the record waits in the port's outbox, and a
producer with a waiting record does not work: that is backpressure. Where producers have pools of buffers, as in Flink,
nothing waits for credits (`twin.engine.streams.buffers`).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from operator import mul
from typing import TYPE_CHECKING, Protocol

import simpy

from twin.engine.record import Record

if TYPE_CHECKING:
    from twin.engine.partitioners import Partitioner
    from twin.engine.record import Mark
    from twin.engine.streams.buffers import BufferedChannel, InputGate
    from twin.engine.streams.network import Leg, Nic


UNBOUNDED = 10**15
"""Credits of a channel in which nothing waits for room."""


class Receiver(Protocol):
    """A task, or what stands for one."""

    def deliver(self, record: Record) -> None:
        """Takes a record that has arrived."""


class ProducerOutput(Protocol):
    """See twin.engine.output."""

    tuples_out: int

    def block(self) -> None:
        """A port has a record that its channel cannot take."""

    def unblock(self) -> None:
        """A port has sent all it held."""

    def held_back(self, record: Record) -> None:
        """A record that a full channel held back leaves now."""


class Sender(Protocol):
    """A task."""

    env: simpy.Environment

    @property
    def output(self) -> ProducerOutput:
        """What leaves it."""


class Inbox:
    """Where one replica receives one stream. `side` is the stream's place among the consumer's inputs.

    beyond_s: CPU seconds that a tuple of this stream takes beyond the task's `service_s`, which is of all its streams.
    tuple_bytes: size of each. way: what is known of the way here, of all replicas together. gate: its buffers for what
    comes from other hosts; None: credits count.
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
    """From a producer's host to an inbox: a network card with latency, a route of hops, or none within a host.

    channel: whose buffers the records on this path take up, if any. replica: number of the inbox. Ports with buffers
    set both, and have paths of their own.
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
        """Writes on a record which way it goes."""
        record.inbox, record.channel, record.fetch_s = self.inbox, self.channel, self.fetch_s


class Paths(dict[int, Path]):
    """The paths from one place to the replicas of a stream, each made when it is first used.

    send_s: CPU seconds that a tuple to each replica costs the producer. inbox: where the path to a replica ends, also
    if it has not been made.
    """

    __slots__ = ("_make", "_send_s", "inbox")

    def __init__(self, make: Callable[[int], Path], send_s: Sequence[float], inbox: Callable[[int], Inbox]) -> None:
        super().__init__()
        self._make = make
        self._send_s = send_s
        self.inbox = inbox

    def mean_send_s(self, weights: Sequence[float]) -> float:
        """CPU seconds a tuple, at these shares of the replicas."""
        return sum(map(mul, self._send_s, weights))

    def __missing__(self, replica: int) -> Path:
        path = self[replica] = self._make(replica)
        return path


class Port:
    """One producer replica's end of one stream.

    outbox: what waits for room, in order. dropped: records for which there was none. passed_over: records that left the
    task and were not for this stream. told: values of the last control items, by kind.
    """

    def __init__(self, task: Sender, paths: Paths, partitioner: Partitioner) -> None:
        self.task = task
        self.paths = paths
        self.partitioner = partitioner
        self.outbox: deque[tuple[Path, Record]] = deque()
        self.dropped = 0
        self.passed_over = 0
        self.told: dict[str, float] = {}
        self.refresh()

    def refresh(self) -> None:
        """After a change of the partitioner's weights."""
        weights = self.partitioner.weights
        self._only = (
            self.paths[0] if len(weights) == 1 and not (self.partitioner.tags or self.partitioner.gives_keys) else None
        )
        self.send_s = self.paths.mean_send_s(weights)  # CPU seconds a record sent

    def path_to(self, replica: int) -> Path:
        """The path to a replica."""
        return self.paths[replica]

    def unsent(self) -> Iterable[tuple[Path, Record]]:
        """What has not left, and which way it will go."""
        return self.outbox

    def waiting(self) -> int:
        """Records that have not left."""
        return sum([record.n for _, record in self.unsent()])

    def flush(self) -> None:
        """Lets go what waits for others to travel with; nothing in a port that sends at once."""

    def clear(self) -> None:
        """Drops what has not left."""
        self.outbox.clear()

    def mark(self, mark: Mark) -> None:
        """Sends a control item to every replica that gets, or may get, records, behind all that was sent before."""
        self.told[mark.kind] = mark.value
        self.flush()
        for index, weight in enumerate(self.partitioner.weights):
            if weight > 0.0 or self.partitioner.tags:
                self.pass_on(self.path_to(index), mark.copy())

    def barrier(self, replicas: Iterable[int], mark: Mark, overtakes: bool) -> None:
        """Sends a control item to these replicas, whether or not they get records; behind what waits, or before it."""
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
        """Sends a record to the replica, or the replicas, that it is dealt to."""
        only = self._only
        if only is not None:
            self.pass_on(only, record)
            return
        for index, each in self.partitioner.parts(record):
            self.pass_on(self.paths[index], each)

    def pass_on(self, path: Path, record: Record) -> None:
        """Sends it if there is room, and nothing that came before waits; else it waits, and holds its producer up."""
        if self.outbox:
            self.outbox.append((path, record))
        elif path.inbox.credits >= record.n:
            self.transfer(path, record)
        else:
            self.outbox.append((path, record))
            self.task.output.block()
            path.inbox.waiters.append(self)

    def retry(self, inbox: Inbox) -> bool:
        """Sends what waits for `inbox`; True if the port no longer waits there."""
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
        """Sends what has its room already."""
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
    """Counts of a stream, over all replicas. tuples: tuples taken up. took_s: sum of their seconds on the way. copies:
    those that were sent twice, into an operator over event time, to the owners before and after a cut.
    """

    def __init__(self) -> None:
        self.tuples = 0
        self.took_s = 0.0
        self.copies = 0
