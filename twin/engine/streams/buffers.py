"""Channels with network buffers, as Flink has them.

Each producer replica has a pool of buffers for all channels of a stream. It takes one when a tuple comes to a channel
whose last buffer is full, and is backpressured while its pool is used up or one channel has as many as it may. Within
a host, a buffer is recycled when the consumer has taken up the last tuple in it. To another host, tuples are sent over
when the consumer's gate has a buffer for them, where each channel has some of its own and all share some; the
producer's buffer is recycled when its last tuple was sent over.
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
    """The buffers of one consumer replica for what one stream brings from other hosts.

    exclusive: of each channel; floating: shared by all, of which `free` are not in use. waiters: channels that wait.
    """

    def __init__(self, memory: NetworkMemory, spans: float) -> None:
        self.exclusive = int(memory.exclusive(spans))
        self.floating = self.free = int(memory.floating(spans))
        self.waiters: deque[BufferedChannel] = deque()

    def clear(self) -> None:
        """Nothing is in use."""
        self.free = self.floating
        self.waiters.clear()

    def wake(self) -> None:
        """Lets channels go on as far as there are free buffers."""
        while self.waiters and self.free > 0:
            channel = self.waiters.popleft()
            channel.waits = False
            channel.go_on()


class BufferedChannel:
    """From a port to one replica. written, sent, taken: tuples that came into its buffers, went over to the consumer,
    and were taken up there. used: buffers in use at the producer, and there: at the gate. unsent: what waits for the
    gate; waits: whether it is among those that do.
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
        """A tuple comes into a buffer."""
        if self.written % self.port.size == 0:
            self.port.hold(self)
        self.written += 1

    def is_open(self) -> bool:
        """Whether a tuple may go over."""
        if not self.remote or self.sent % self.port.size != 0:
            return True
        return self.there < self.gate.exclusive or self.gate.free > 0

    def send(self) -> bool:
        """A tuple goes over. Returns whether a buffer of the producer comes back."""
        if self.remote and self.sent % self.port.size == 0:
            if self.there >= self.gate.exclusive:
                self.gate.free -= 1
            self.there += 1
        self.sent += 1
        return self.remote and self.sent % self.port.size == 0

    def wait(self, path: Path, record: Record) -> None:
        """A record waits for the gate."""
        self.unsent.append((path, record))
        self._queue()

    def _queue(self) -> None:
        if not self.waits:
            self.waits = True
            self.gate.waiters.append(self)

    def go_on(self) -> None:
        """Sends what waits for the gate, as far as that has buffers."""
        while self.unsent:
            path, record = self.unsent[0]
            if record.n and not self.is_open():
                self._queue()
                return
            self.unsent.popleft()
            record.at_s = max(record.at_s, self.port.task.env.now)
            self.port.pass_over(self, path, record)

    def take(self) -> None:
        """The consumer takes up a tuple."""
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
        """Puts a tuple of a checkpoint back to where it was, at the consumer."""
        self.write()
        if self.send():
            self.port.give_back(self)

    def move(self, remote: bool) -> None:
        """From now on it leads to another host, or to its own."""
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
    """A port with a pool of buffers. size: tuples in a buffer. spans: buffers that a larger tuple takes up, which count
    as one. pool: number of buffers, and used: of those in use;
    most: of a channel, and full: channels that have so many. stopped: whether the producer stands still. sheds:
    whether it drops instead what finds no room. batching: None where each record leaves at once.
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
        """After a change of weights or paths: sizes the pool, and drops channels that get nothing any more."""
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
        """Puts a record into a buffer; if there is none, into the outbox, or it is dropped."""
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
        """Sends what is in a buffer; a control item waits behind what waits for one."""
        if self.outbox and not record.n:
            self.outbox.append((path, record))
        else:
            self.forward(path, record)

    def forward(self, path: Path, record: Record) -> None:
        """See Port: behind what waits for the gate."""
        channel = path.channel
        if channel is None:
            self.transfer(path, record)
        elif channel.unsent or (record.n and not channel.is_open()):
            channel.wait(path, record)
        else:
            self.pass_over(channel, path, record)

    def pass_over(self, channel: BufferedChannel, path: Path, record: Record) -> None:
        """A record goes over."""
        empty = record.n > 0 and channel.send()
        self.transfer(path, record)
        if empty:
            self.release(channel)

    # the pool --------------------------------------------------------------------------------------------------------

    def hold(self, channel: BufferedChannel) -> None:
        """A channel takes a buffer."""
        self.used += 1
        channel.used += 1
        if channel.used == self.most:
            self.full += 1

    def give_back(self, channel: BufferedChannel) -> None:
        """A channel gives one back."""
        self.used -= 1
        channel.used -= 1
        if channel.used == self.most - 1:
            self.full -= 1

    def release(self, channel: BufferedChannel) -> None:
        """The same, and the producer goes on if it can."""
        self.give_back(channel)
        self._go_on()

    def _stop(self) -> None:
        if not self.stopped:
            self.stopped = True
            self.task.output.block()

    def _go_on(self) -> None:
        """Lets what waits into buffers; then the producer works again, unless the pool is used up by that."""
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
        """See Port. In the order in which it will be sent."""
        waiting = [each for channel in self.channels.values() for each in channel.unsent]
        gathered = [(self.path_to(index), each) for index, buffer in self._buffers.items() for each in buffer]
        return [*waiting, *gathered, *self.outbox]

    def clear(self) -> None:
        """Drops what has not left; nothing is in use any more."""
        super().clear()
        for channel in self.channels.values():
            channel.unsent.clear()
            channel.waits = False
            channel.written = channel.sent = channel.taken = channel.used = channel.there = 0
        self.used = self.full = 0
        self.stopped = False
