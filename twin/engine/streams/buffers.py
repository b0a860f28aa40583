"""Channels with network buffers, as in Flink.

Each producer replica has a pool of buffers for all channels of a stream. It takes one when a tuple comes to a channel
whose last buffer is full, and is backpressured while its pool is used up or one channel has as many as it may. Within a
host, a buffer is recycled when the consumer has taken the last tuple in it. To another host, tuples are sent when the
consumer's gate has a buffer for them; each channel has some gate buffers of its own, and all share some. The producer's
buffer is recycled when its last tuple was sent.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

from twin.engine.partitioners import Partitioner, SharedQueue
from twin.engine.record import Record
from twin.engine.streams.channel import Inbox, Path, Paths, Sender
from twin.engine.streams.ports import Batching, GatheringPort
from twin.profiles import NetworkMemory


class InputGate:
    """Buffers of one consumer replica for the tuples that one stream brings from other hosts.

    exclusive: buffers of each channel. floating: buffers shared by all channels, of which `free` are not in use.
    waiters: channels that wait for a buffer.
    """

    def __init__(self, memory: NetworkMemory, spans: float) -> None:
        self.exclusive = int(memory.exclusive(spans))
        self.floating = self.free = int(memory.floating(spans))
        self.waiters: deque[BufferedChannel] = deque()

    def clear(self) -> None:
        """Frees all buffers."""
        self.free = self.floating
        self.waiters.clear()

    def wake(self) -> None:
        """Lets waiting channels send as far as there are free buffers."""
        while self.waiters and self.free > 0:
            channel = self.waiters.popleft()
            channel.waits = False
            channel.go_on()


class BufferedChannel:
    """Channel with buffers, from a port to one replica.

    written, sent, taken: tuples that came into its buffers, were sent to the consumer, and were taken there. used,
    there: buffers in use at the producer, and at the gate. unsent: records that wait for the gate. waits: whether the
    channel is among the gate's waiters.
    """

    def __init__(self, port: BufferPort, inbox: Inbox, gate: InputGate) -> None:
        self.port = port
        self.inbox = inbox
        self.gate = gate
        self.remote = False
        self.unsent: deque[tuple[Path, Record]] = deque()
        self.waits = False
        self.written = self.sent = self.taken = 0
        self.used = self.there = 0

    def has_room(self) -> bool:
        """Whether the producer may write a tuple."""
        port = self.port
        return self.written % port.size != 0 or (port.used < port.pool and self.used < port.most)

    def write(self) -> None:
        """Counts a tuple that comes into a buffer."""
        if self.written % self.port.size == 0:
            self.port.hold(self)
        self.written += 1

    def is_open(self) -> bool:
        """Whether a tuple may be sent to the consumer."""
        if not self.remote or self.sent % self.port.size != 0:
            return True
        return self.there < self.gate.exclusive or self.gate.free > 0

    def send(self) -> bool:
        """Counts a tuple that is sent to the consumer. Returns whether that frees a buffer of the producer."""
        if self.remote and self.sent % self.port.size == 0:
            if self.there >= self.gate.exclusive:
                self.gate.free -= 1
            self.there += 1
        self.sent += 1
        return self.remote and self.sent % self.port.size == 0

    def wait(self, path: Path, record: Record) -> None:
        """Lets a record wait for the gate."""
        self.unsent.append((path, record))
        self._queue()

    def _queue(self) -> None:
        if not self.waits:
            self.waits = True
            self.gate.waiters.append(self)

    def go_on(self) -> None:
        """Sends the records that wait for the gate, as far as it has buffers."""
        while self.unsent:
            path, record = self.unsent[0]
            if record.n and not self.is_open():
                self._queue()
                return
            self.unsent.popleft()
            record.at_s = max(record.at_s, self.port.task.env.now)
            self.port.pass_over(self, path, record)

    def take(self) -> None:
        """Counts a tuple that the consumer takes; this may free a buffer."""
        self.taken += 1
        if self.taken % self.port.size != 0:
            return
        if not self.remote:
            self.port.release(self)
            return
        self.there -= 1
        if self.there >= self.gate.exclusive:
            self.gate.free += 1
            self.gate.wake()
        else:
            self.go_on()

    # restores and moves ----------------------------------------------------------------------------------------------

    def put_back(self) -> None:
        """Puts a tuple of a checkpoint back to its place at the consumer."""
        self.write()
        if self.send():
            self.port.give_back(self)

    def move(self, remote: bool) -> None:
        """Makes the channel lead to another host, or within its own, from now on."""
        if remote == self.remote:
            return
        size, before = self.port.size, self.there
        self.remote = remote
        self.there = -(-self.sent // size) - self.taken // size if remote else 0
        self.gate.free += max(0, before - self.gate.exclusive) - max(0, self.there - self.gate.exclusive)
        used = -(-self.written // size) - (self.sent if remote else self.taken) // size
        while self.used < used:
            self.port.hold(self)
        while self.used > used:
            self.port.give_back(self)
        self.go_on()


class BufferPort(GatheringPort):
    """Port with a pool of buffers. size: tuples in a buffer. spans: buffers that one large tuple takes up, which count
    as one buffer here.

    pool: number of buffers, of which `used` are in use. most: most buffers of a channel. full: number of channels that
    have so many. stopped: whether the producer is blocked. sheds: whether it drops records without room instead of
    blocking. batching: None where each record leaves at once.
    """

    def __init__(
        self,
        task: Sender,
        paths: Paths,
        partitioner: Partitioner,
        memory: NetworkMemory,
        size: int,
        spans: float,
        batching: Batching | None,
        sheds: bool,
    ) -> None:
        self.memory = memory
        self.size = size
        self.spans = spans
        self.most = int(memory.most(spans))
        self.sheds = sheds
        self.channels: dict[int, BufferedChannel] = {}
        self.pool = self.used = self.full = 0
        self.stopped = self._draining = False
        super().__init__(task, paths, partitioner, batching or Batching(1, 0.0, 0.0))
        self.gathers = batching is not None

    def refresh(self) -> None:
        """Sizes the pool after a change of weights or paths, and drops channels that get nothing any more."""
        super().refresh()
        weights = self.partitioner.weights
        live = 1 if isinstance(self.partitioner, SharedQueue) else sum([weight > 0.0 for weight in weights])
        self.pool = int(self.memory.pool(max(1, live), self.spans))
        for index, channel in list(self.channels.items()):
            if channel.written == channel.taken and (index >= len(weights) or not weights[index]):
                while channel.used:
                    self.give_back(channel)
                del self.channels[index]
                self.paths.pop(index, None)
            else:
                self.path_to(index)
        self._go_on()

    def path_to(self, replica: int) -> Path:
        path = self.paths[replica]
        if path.replica < 0:
            path.replica, gate = replica, path.inbox.gate
            if gate is not None:
                channel = self.channels.get(replica)
                if channel is None or channel.gate is not gate:
                    channel = self.channels[replica] = BufferedChannel(self, path.inbox, gate)
                path.channel = channel
                channel.move(path.nic is not None)
        return path

    @property
    def available(self) -> bool:
        """Whether the producer may go on."""
        return self.used < self.pool and not self.full

    def send(self, record: Record) -> None:
        """Puts a record into a buffer; without room it goes to the outbox, or is dropped."""
        for index, each in self.partitioner.parts(record):
            path = self.path_to(index)
            if self.outbox or (path.channel is not None and not path.channel.has_room()):
                if self.sheds:
                    self.dropped += each.n
                    continue
                self.outbox.append((path, each))
                self._stop()
            else:
                self._write(path, each)
                if not (self.available or self.sheds):
                    self._stop()

    def _write(self, path: Path, record: Record) -> None:
        if path.channel is not None:
            path.channel.write()
        if self.gathers:
            self.gather(path.replica, record)
        else:
            self.forward(path, record)

    def pass_on(self, path: Path, record: Record) -> None:
        """Sends a record that is in a buffer; a control item waits behind records that wait for a buffer."""
        if self.outbox and not record.n:
            self.outbox.append((path, record))
        else:
            self.forward(path, record)

    def forward(self, path: Path, record: Record) -> None:
        """Sends a record that has a buffer, behind the records that wait for the gate."""
        channel = path.channel
        if channel is None:
            self.transfer(path, record)
        elif channel.unsent or (record.n and not channel.is_open()):
            channel.wait(path, record)
        else:
            self.pass_over(channel, path, record)

    def pass_over(self, channel: BufferedChannel, path: Path, record: Record) -> None:
        """Sends a record to the consumer, and frees the producer's buffer if that is empty."""
        empty = record.n > 0 and channel.send()
        self.transfer(path, record)
        if empty:
            self.release(channel)

    # the pool --------------------------------------------------------------------------------------------------------

    def hold(self, channel: BufferedChannel) -> None:
        """Takes a buffer out of the pool for a channel."""
        self.used += 1
        channel.used += 1
        if channel.used == self.most:
            self.full += 1

    def give_back(self, channel: BufferedChannel) -> None:
        """Returns a channel's buffer to the pool."""
        self.used -= 1
        channel.used -= 1
        if channel.used == self.most - 1:
            self.full -= 1

    def release(self, channel: BufferedChannel) -> None:
        """Returns a channel's buffer to the pool, and lets the producer go on if it can."""
        self.give_back(channel)
        self._go_on()

    def _stop(self) -> None:
        if not self.stopped:
            self.stopped = True
            self.task.output.block()

    def _go_on(self) -> None:
        """Lets waiting records into buffers; then the producer works again, unless they used the pool up."""
        if not self.stopped or self._draining:
            return
        self._draining = True
        while self.outbox:
            path, record = self.outbox[0]
            if record.n and path.channel is not None and not path.channel.has_room():
                break
            self.outbox.popleft()
            if record.n:
                self.task.output.held_back(record)
                self._write(path, record)
            else:
                self.leave(path.replica)
                self.forward(path, record)
        self._draining = False
        if self.available and not self.outbox:
            self.stopped = False
            self.task.output.unblock()

    # what it holds ---------------------------------------------------------------------------------------------------

    def unsent(self) -> Iterable[tuple[Path, Record]]:
        """Records that have not left, with their paths, in the order in which they will be sent."""
        waiting = [each for channel in self.channels.values() for each in channel.unsent]
        gathered = [(self.path_to(index), each) for index, buffer in self._buffers.items() for each in buffer]
        return [*waiting, *gathered, *self.outbox]

    def clear(self) -> None:
        """Drops records that have not left, and frees all buffers."""
        super().clear()
        for channel in self.channels.values():
            channel.unsent.clear()
            channel.waits = False
            channel.written = channel.sent = channel.taken = channel.used = channel.there = 0
        self.used = self.full = 0
        self.stopped = False
