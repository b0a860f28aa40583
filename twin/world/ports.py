"""Ports of subtasks, the paths and channels that lead from them, and the inboxes in which these end."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from ctypes import addressof
from operator import mul
from statistics import fmean
from typing import TYPE_CHECKING

import numpy as np
import simpy

from twin.machine import layout as k
from twin.machine.advance import refill
from twin.world.memory import KINDS, ItemCells, RunMemory, StructView, dated, write
from twin.world.parts import Counts, Item, Pool, Task, chain

if TYPE_CHECKING:
    from twin.operators.records import Mark, Record
    from twin.plan import Location
    from twin.profiles import BufferDebloat, NetworkMemory
    from twin.world.network import Buffer, Network
    from twin.world.streams import Partitioner
    from twin.world.world import World

UNBOUNDED = 10**15
"""Credits of a channel in which no record waits for room."""
BARE = np.zeros(0, k.BUFFER)


class Path(StructView, layout=k.PATH):
    """Way from a port to a subtask."""


class Inbox(StructView, layout=k.INBOX):
    """Receiving end of a stream at a subtask, at the queue that subtasks share, or at a buffer."""

    task: Task | Pool | Buffer

    def __init__(self, here: int, task: Task | Pool | Buffer, record_bytes: float) -> None:
        super().__init__(here)
        self.task = task
        self.record_bytes = record_bytes
        self.gated = False
        self.floating = 0
        self.limit = UNBOUNDED  # of records in each of its channels
        self.room = 0


class Channel(StructView, layout=k.CHANNEL):
    """Channel with network buffers, from a port (`sender`) to an inbox (`receiver`)."""

    sender: Port
    receiver: Inbox

    def __init__(self, memory: RunMemory, sender: Port, receiver: Inbox) -> None:
        super().__init__(memory.add(k.CHANNEL, port=sender.here, inbox=receiver.here, limit=receiver.limit))
        self.memory, self.sender, self.receiver = memory, sender, receiver
        memory.at[self.here] = self

    def move(self, remote: bool) -> None:
        """Makes it lead to another host, or within its own, from now on."""
        if remote == bool(self.remote):
            return
        port, inbox, size, before = self.sender, self.receiver, self.sender.batch, self.there
        there = -(-self.sent // size) - self.taken // size if remote else 0
        self.set(remote=remote, there=there)
        inbox.free += max(0, before - inbox.exclusive) - max(0, there - inbox.exclusive)
        used = -(-self.written // size) - (self.sent if remote else self.taken) // size
        while self.used < used:
            port.hold(self)
        while self.used > used:
            port.give_back(self)
        self.memory.do(k.GO_ON, self.here)

    def put_back(self) -> None:
        """Puts a record of a checkpoint back to its place at the consumer."""
        port, inbox, size = self.sender, self.receiver, self.sender.batch
        if self.written % size == 0:
            port.hold(self)
        self.written += 1
        if self.remote and self.sent % size == 0:
            if self.there >= inbox.exclusive:
                inbox.free -= 1
            self.set(there=self.there + 1)
        self.sent += 1
        if self.remote and self.sent % size == 0:
            port.give_back(self)


class Port(StructView, layout=k.PORT):
    """Sending end of a stream at a subtask.

    partitioner: how it deals records. inboxes, ends: of the consumer's subtasks, and their places; these may grow
    later, for new paths. start: where its paths begin. costs: CPU seconds of sending a record to each. buffers_law,
    spans: of network buffers, if there are any. shares_paths: whether ports at one place have the same paths. told:
    progress in event time that it has announced, by kind of mark.
    """

    task: Task
    counts: Counts
    partitioner: Partitioner
    inboxes: Sequence[Inbox]
    ends: Sequence[Location]
    costs: Sequence[float]

    def __init__(self, network: Network, task: Task, counts: Counts, bytes_each: float) -> None:
        memory = network.memory
        super().__init__(memory.add(k.PORT, task=task.here))
        memory.at[self.here] = self
        self.network, self.memory, self.task, self.counts, self.bytes_each = network, memory, task, counts, bytes_each
        self.start = task.place
        self.channels: dict[int, Channel] = {}
        self.buffers_law: NetworkMemory | None = None
        self.spans = 1.0
        self.shares_paths = True
        self.told: dict[str, float] = {}

    @property
    def weights(self) -> Sequence[float]:
        """Shares of the consumer's subtasks."""
        return self.partitioner.weights

    @property
    def elsewhere(self) -> int:
        """Number of records that have not left, as `waiting`."""
        return self.waiting()

    def inbox(self, subtask: int) -> Inbox:
        """Inbox to which records for a subtask go."""
        return self.inboxes[0 if self.to_one_queue else subtask]

    def receiver(self, subtask: int) -> Task | Pool | Buffer:
        """Subtask, shared queue or buffer to which records for a subtask go."""
        return self.inbox(subtask).task

    @property
    def to_one_queue(self) -> bool:
        """Whether all records go to one queue, which the consumer's subtasks share."""
        return len(self.inboxes) < len(self.ends)

    # paths -----------------------------------------------------------------------------------------------------------

    def lead(self, inboxes: Sequence[Inbox], ends: Sequence[Location]) -> None:
        """Gets new paths, to these inboxes at these places."""
        self.inboxes, self.ends, self.start = inboxes, ends, self.task.place
        remote_s = self.network.serialise_s(self.bytes_each)
        self.costs = [0.0 if end.host == self.start.host else remote_s for end in ends[: len(inboxes)]]
        self.paths = self.memory.block(self.here, "paths", (), np.int64, len(ends))
        if self.kind == k.GATHERING:
            self.make_batches(len(ends))
        if self.to_one_queue:
            self.path(0)

    def make_batches(self, count: int) -> None:
        """Makes room for the batches of so many subtasks; those that were begun stay."""
        blocks = self.memory.blocks
        before = blocks.get((self.here, "buffers"), BARE)
        if len(before) < count:
            order = blocks[self.here, "open_order"][: self.opened].tolist() if len(before) else ()
            self.buffers = self.memory.array(k.BUFFER, self.here, "buffers", count)
            made = blocks[self.here, "buffers"]
            made["tail"] = -1
            made[: len(before)] = before
            self.open_order = self.memory.block(self.here, "open_order", order, np.int64, count)

    def path(self, subtask: int) -> int:
        """Path to a subtask, made when it is first used; returns its address."""
        paths = self.memory.blocks[self.here, "paths"]
        if not paths[subtask]:
            common = int(paths.max()) if self.to_one_queue else 0
            paths[subtask] = common or self.network.way(self, subtask)
        return int(paths[subtask])

    def channel(self, subtask: int, remote: bool) -> int:
        """Channel of the path to a subtask, which keeps it where the path is new; 0 if there is none."""
        inbox = self.inbox(subtask)
        if not inbox.gated:
            return 0
        channel = self.channels.get(subtask)
        if channel is None or channel.receiver is not inbox:
            channel = self.channels[subtask] = Channel(self.memory, self, inbox)
        channel.move(remote)
        return channel.here

    def refresh(self) -> None:
        """Updates the cost of sending, and the pool of buffers, after a change of weights or paths. Channels that get
        nothing any more are dropped."""
        weights = self.weights
        if len(weights) == 1 and not self.partitioner.gives_keys:
            self.path(0)
        self.send_s = sum(map(mul, self.costs, weights))
        if self.buffers_law is None:
            return
        live = 1 if self.partitioner.one_queue else sum([weight > 0.0 for weight in weights])
        self.pool = int(self.buffers_law.pool(max(1, live), self.spans))
        awaited = {Path(Item(here).path).subtask for here in chain(self.first_held if self.held else 0)}
        for number, channel in list(self.channels.items()):
            over = channel.written == channel.taken and number not in awaited
            if over and (number >= len(weights) or not weights[number]):
                while channel.used:
                    self.give_back(channel)
                del self.channels[number]
                self.memory.blocks[self.here, "paths"][number] = 0
            else:
                self.path(number)
        self.go_on()

    def go_on(self) -> None:
        """Lets records go on that wait for room, as far as there is some."""
        if self.stopped and not self.draining:
            refill(self.memory.state.here, self.here)

    def hold(self, channel: Channel) -> None:
        """Takes a buffer out of the pool for a channel."""
        self.used += 1
        channel.used += 1
        self.full += channel.used == self.most

    def give_back(self, channel: Channel) -> None:
        """Returns a channel's buffer to the pool."""
        self.used -= 1
        channel.used -= 1
        self.full -= channel.used == self.most - 1

    # event time ------------------------------------------------------------------------------------------------------

    @property
    def tags(self) -> bool:
        """Whether it looks at each record, and all subtasks get marks."""
        return self.partitioner.tags

    def mark(self, mark: Mark) -> None:
        """Sends a mark to every subtask that gets, or may get, records, behind all that was sent before."""
        self.told[mark.kind], first = mark.value, True
        for subtask, weight in enumerate(self.weights):
            if weight > 0.0 or self.tags:
                item = self.memory.item(mark)
                item.mark, item.born_s, item.key = KINDS[mark.kind], mark.value, int(first)
                item.step, item.path, item.sender = self.here, self.path(subtask), self.task.here
                first = False
                self.task.leave(item)

    def ship(self, subtask: int, record: Record) -> float:
        """Sends a record past all that waits, without a credit; returns the CPU seconds of sending it."""
        item = self.memory.item(record)
        item.step, item.path = self.here, self.path(subtask)
        self.task.leave(item)
        return self.costs[subtask]

    def deal(self) -> None:
        """Deals the record that compiled code shows, which gets its key and digest."""
        item, following = ItemCells.from_address(self.dealt), 0
        record = dated(item)
        for subtask, each in reversed(self.partitioner.parts(record)):
            there = item if each is record else self.memory.item(each)
            if each is record:
                write(item, each)
            there.step, there.next = subtask, following
            following = addressof(there)
        self.set(dealt=following)

    def lose(self) -> None:
        """Notes that the record that compiled code shows, which has an event time, was dropped."""
        self.partitioner.lose(dated(ItemCells.from_address(self.dealt)))

    # records ---------------------------------------------------------------------------------------------------------

    def flush(self) -> None:
        """Sends incomplete batches."""
        self.memory.do(k.FLUSH, self.here)

    def unsent(self) -> Iterator[tuple[int, Item]]:
        """Records and marks that have not left, each with its path, in the order in which they will be sent."""
        for channel in self.channels.values():
            yield from ((Item(here).path, Item(here)) for here in chain(channel.first_unsent if channel.unsent else 0))
        held = [(Item(here).path, Item(here)) for here in chain(self.first_held if self.held else 0)]
        gathered = []
        if self.kind == k.GATHERING:
            buffers = self.memory.blocks[self.here, "buffers"]
            order = self.memory.blocks[self.here, "open_order"][: self.opened].tolist()
            for subtask in order:
                if buffers["head"][subtask]:
                    path = self.path(subtask)
                    gathered += [(path, Item(here)) for here in chain(int(buffers["head"][subtask]))]
        yield from ([*gathered, *held] if self.buffers_law is not None else [*held, *gathered])

    def waiting(self) -> int:
        """Number of records that have not left."""
        marks = sum([Item(here).mark != 0 for first in self._lists for here in chain(first)]) if self._heeds else 0
        return self.remaining - marks

    @property
    def remaining(self) -> int:
        """Number of records that have not left, with marks, except marks in batches."""
        gathered = 0
        if self.kind == k.GATHERING:
            gathered = int(self.memory.blocks[self.here, "buffers"]["count"].sum())
        return int(self.held + gathered + sum([each.unsent for each in self.channels.values()]))

    @property
    def holds_records(self) -> bool:
        """Whether a record has not left; looks no further than the first, as there may be very many."""
        if not self._heeds or not self.remaining:
            return self.remaining > 0
        if self.kind == k.GATHERING and self.memory.blocks[self.here, "buffers"]["count"].any():
            return True  # marks are not counted there
        for here in self._lists:
            while here and Item(here).mark:
                here = Item(here).next
            if here:
                return True
        return False

    @property
    def gathers(self) -> bool:
        """Whether records or watermarks wait for a flush."""
        return bool(self.kind == k.GATHERING and self.memory.blocks[self.here, "buffers"]["head"].any())

    @property
    def _heeds(self) -> bool:
        return self.task.barriers is not None or self.task.heeds

    @property
    def _lists(self) -> list[int]:
        """First ones of the lists of what has not left, of which some may be marks; 0 for none."""
        return [self.first_held, *[each.first_unsent for each in self.channels.values() if each.unsent]]

    def clear(self) -> None:
        """Drops what has not left, and frees all buffers."""
        self.first_held = self.last_held = self.held = self.used = self.full = self.stopped = 0
        if self.kind == k.GATHERING:
            buffers = self.memory.blocks[self.here, "buffers"]
            buffers["head"], buffers["tail"], buffers["count"] = 0, -1, 0
            self.set(opened=0)
        for channel in self.channels.values():
            channel.first_unsent = channel.last_unsent = channel.unsent = channel.waits = 0
            channel.written = channel.sent = channel.taken = channel.used = channel.there = 0


# debloating ----------------------------------------------------------------------------------------------------------
# Buffer debloating, as in Flink: what is on the way to a subtask is no more than it takes in a given time, so that
# aligned barriers get through soon.
#
# Flink makes buffers smaller; here, the channels of a gate hold fewer records. Both have the same part of their full
# size, by the same rule (BufferDebloater and BufferSizeEMA, `flink-runtime`).


class Debloater:
    """Debloater of one input of a subtask. least: smallest part of the room of its channels.

    per_s: records that the subtask takes a second while it is not idle. part: moving average of the part of the room
    that it needs; told: what the channels know of it. seen: records taken so far, by channel; active_s: seconds that
    the subtask was not idle.
    """

    def __init__(self, inbox: Inbox, law: BufferDebloat, least: float) -> None:
        self.inbox, self.law, self.least = inbox, law, least
        self.per_s = self.active_s = 0.0
        self.part = self.told = 1.0
        self.seen: dict[Channel, int] = {}

    def look(self, channels: list[Channel]) -> None:
        """Sets the limits of the channels that there are, by what was taken since the last look."""
        self._measure(channels)
        law, needed = self.law, self.per_s * self.law.target_s / self.inbox.room
        if self.per_s:
            self.part += 2.0 / (law.samples + 1.0) * (min(needed, 2.0 * self.part) - self.part)
            self.part = min(max(self.part, self.least), 1.0)
        differs = abs(self.part - self.told) >= law.threshold_percentages / 100.0 * self.told
        if differs or self.part in (self.least, 1.0):
            self.told = self.part
        filled = sum([channel.written > channel.taken for channel in channels])
        each = max(1, round(self.told * self.inbox.room / max(filled, 1)))
        self.inbox.limit = UNBOUNDED if self.told == 1.0 else each
        for channel in channels:
            channel.limit = self.inbox.limit
            channel.sender.go_on()

    def _measure(self, channels: list[Channel]) -> None:
        """Measures how fast the subtask is, if it took anything. A channel that was emptied counts from 0 again."""
        before, self.seen = self.seen, {channel: channel.taken for channel in channels}
        came = sum([now - (then if (then := before.get(each, 0)) <= now else 0) for each, now in self.seen.items()])
        receiver = self.inbox.task
        takers = receiver.members if isinstance(receiver, Pool) else [receiver]
        active_s = fmean([each.busy_until_now_s() + each.output.blocked_until_now_s() for each in takers])
        spent_s, self.active_s = min(active_s - self.active_s, self.law.period_s), active_s
        if came and spent_s > 0.0:
            self.per_s = came / spent_s


def debloating(world: World, law: BufferDebloat) -> Generator[simpy.Event, None, None]:
    """Looks at all channels of a run once a period."""
    engine, debloaters = world.engine, dict[Inbox, Debloater]()
    while True:
        yield world.env.timeout(law.period_s)
        channels = dict[Inbox, list[Channel]]()
        for port in [port for task in world.every_task() for port in task.ports]:
            for channel in port.channels.values():
                channels.setdefault(channel.receiver, []).append(channel)
        for inbox, each in channels.items():
            if inbox not in debloaters:
                least = law.least(engine.buffer_bytes, engine.batch_of(inbox.record_bytes))
                debloaters[inbox] = Debloater(inbox, law, float(least))
            debloaters[inbox].look(each)
