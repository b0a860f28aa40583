"""Streams of a run: an inbox for each subtask of the consumer, a port for each of the producer, and how these deal."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from operator import mul
from typing import TYPE_CHECKING, Any

import numpy as np

from twin.job import Edge
from twin.key_skew import parts
from twin.machine import layout as k
from twin.operators.key_groups import AlignedKeys, KeyGroups, cumulative
from twin.partitionings import Ends, first_in_turn
from twin.query import Windowed
from twin.world.event_time import timed_deal
from twin.world.memory import Draws, StructView
from twin.world.network import Buffer
from twin.world.parts import Counts, Pool, Task
from twin.world.ports import UNBOUNDED, Inbox, Port

if TYPE_CHECKING:
    from twin.operators.ownership import EventTimePartitioner
    from twin.operators.records import Record
    from twin.plan import Location
    from twin.query import Stream
    from twin.world.world import World


# partitioners --------------------------------------------------------------------------------------------------------
# Partitioners of a run's ports: they fill in how compiled code deals records to the consumer's subtasks.
#
# Each shows its weights to compiled code in the structure of its port, again whenever they change.


class Partitioner:
    """Deals a stream's records by `weights`, which sum to 1 (a broadcast's are all 1).

    The base deals in turn to all subtasks that have a share, or with `copies` to all of them. A round begins at subtask
    `first`. gives_keys: whether each record gets a key here.
    """

    gives_keys = False
    one_queue = False
    tags = False

    def __init__(self, weights: Sequence[float], copies: bool = False, first: int = 0) -> None:
        self.weights = weights
        self.copies = copies
        self.first = first
        self.port: Port | None = None

    def serve(self, port: Port) -> None:
        """Begins to deal the records of a port."""
        self.port = port
        self.reweigh(self.weights)

    def reweigh(self, weights: Sequence[float]) -> None:
        """Deals by these weights from now on."""
        self.weights = weights
        if self.port is not None:
            self.port.parallelism = len(weights)
            self.show(self.port)

    def show(self, port: Port) -> None:
        """Writes how records are dealt into the structure of its port."""
        live = [number for number, weight in enumerate(self.weights) if weight > 0.0]
        if len(live) == 1:
            port.dealing, port.only = k.ONLY, live[0]
        else:
            self.show_several(port, live)

    def show_several(self, port: Port, live: Sequence[int]) -> None:
        """Writes how records are dealt to several subtasks."""
        port.dealing = k.COPIES if self.copies else k.IN_TURN
        port.keys, port.shares = port.memory.block(port.here, "keys", live, np.int64), len(live)
        port.turn = next((place for place, number in enumerate(live) if number >= self.first), 0)

    def due(self, shares: Sequence[float]) -> Sequence[float]:
        """Weights of this partitioner where the consumer's subtasks get these shares of the stream."""
        return shares

    def another(self, draws: Draws, producer: Task) -> Partitioner:
        """Partitioner of another subtask of the producer, which has its own random numbers."""
        return Partitioner(list(self.weights), self.copies)

    def lose(self, record: Record) -> None:
        """Notes that a record that it dealt was dropped, as there was no room for it."""

    def parts(self, record: Record) -> Sequence[tuple[int, Record]]:
        """Deals a record in Python: where it goes, and copies of it, with the subtasks to which they go."""
        raise NotImplementedError


class PairedPartitioner(Partitioner):
    """Deals to one subtask, whatever the shares of the consumer's subtasks are: of a forward stream."""

    def __init__(self, partner: int, consumers: int) -> None:
        self.partner = partner
        super().__init__(self.due([0.0] * consumers))

    def pair(self, partner: int, consumers: int) -> None:
        """Deals to this one of so many subtasks from now on."""
        self.partner = partner
        self.reweigh(self.due([0.0] * consumers))

    def due(self, shares: Sequence[float]) -> Sequence[float]:
        return [float(number == self.partner) for number in range(len(shares))]

    def another(self, draws: Draws, producer: Task) -> Partitioner:
        return PairedPartitioner(self.partner, len(self.weights))


class SharedQueue(Partitioner):
    """Deals to a queue that subtasks share."""

    one_queue = True

    def __init__(self, consumers: int) -> None:
        super().__init__([1.0 / consumers] * consumers)

    def show(self, port: Port) -> None:
        port.dealing, port.only = k.ONLY, 0


class RandomPartitioner(Partitioner):
    """Deals by chance. kin: whether a record's lot decides."""

    def __init__(self, weights: Sequence[float], draws: Draws, first: int = 0, kin: bool = False) -> None:
        super().__init__(weights, first=first)
        self.draws = draws
        self.kin = kin

    def show_several(self, port: Port, live: Sequence[int]) -> None:
        port.dealing, port.stream, port.kin = k.AT_RANDOM, self.draws.here, self.kin
        port.keys = port.memory.block(port.here, "keys", cumulative(self.weights))

    def another(self, draws: Draws, producer: Task) -> Partitioner:
        return RandomPartitioner(list(self.weights), draws, kin=self.kin)


class HashPartitioner(Partitioner):
    """Deals by key group, or to the less loaded of a key group's two subtasks. kin: whether a record's lot decides."""

    gives_keys = True

    def __init__(self, groups: KeyGroups, keys: Keys, draws: Draws, kin: bool = False) -> None:
        super().__init__(groups.shares())
        self.groups = groups
        self.keys = keys
        self.draws = draws
        self.kin = kin

    def serve(self, port: Port) -> None:
        port.dealing, port.stream, port.keys, port.kin = k.BY_KEY, self.draws.here, self.keys.here, self.kin
        if self.groups.two_choice:
            port.sent = port.memory.block(port.here, "sent", (), np.int64, self.groups.places)
        super().serve(port)

    def show(self, port: Port) -> None:
        """Shows nothing, as the owners of key groups are with the key groups."""

    def another(self, draws: Draws, producer: Task) -> Partitioner:
        return HashPartitioner(self.groups, self.keys, draws, self.kin)


class AlignedPartitioner(HashPartitioner):
    """Deals by a record's key group at the producer, through the pattern between key groups."""

    def __init__(self, aligned: AlignedKeys, pattern: Aligned, keys: Keys, producer: Task, draws: Draws) -> None:
        super().__init__(aligned.consumer, keys, draws)
        self.aligned = aligned
        self.pattern = pattern
        self.producer = producer
        self.weights = self.due(self.weights)

    def serve(self, port: Port) -> None:
        super().serve(port)
        port.dealing, port.aligned = k.ALONG, self.pattern.here

    def show(self, port: Port) -> None:
        port.sends = port.memory.block(port.here, "sends", self.aligned.sent_steps(self.producer))

    def due(self, shares: Sequence[float]) -> Sequence[float]:
        return self.aligned.shares(self.producer)

    def another(self, draws: Draws, producer: Task) -> Partitioner:
        return AlignedPartitioner(self.aligned, self.pattern, self.keys, producer, draws)


class TimedPartitioner(HashPartitioner):
    """Deals by key group and event time. Python does it (`dealing`) where compiled code cannot."""

    tags = True

    def __init__(self, groups: KeyGroups, keys: Keys, draws: Draws, dealing: EventTimePartitioner) -> None:
        super().__init__(groups, keys, draws, dealing.kin)
        self.dealing = dealing

    def serve(self, port: Port) -> None:
        super().serve(port)
        port.dealing = k.BY_TIME
        if self.dealing.mask:
            port.keys = 0
        else:
            self.draws.show_generator()
            owners: Any = self.dealing.ownership
            notes: Any = self.dealing.notes
            port.notes, owners.dealt_by = notes.notes.here, self.keys

    def another(self, draws: Draws, producer: Task) -> Partitioner:
        return TimedPartitioner(self.groups, self.keys, draws, self.dealing.another(draws))

    def parts(self, record: Record) -> Sequence[tuple[int, Record]]:
        return self.dealing.parts(record)

    def lose(self, record: Record) -> None:
        self.dealing.lose(record)


# streams -------------------------------------------------------------------------------------------------------------
# Streams of a run: an inbox for each subtask of the consumer, and a port for each of the producer.


FLUSH_DRIFT = 0.05
"""Share by which the periods of ports differ at most."""


class Keys(StructView, layout=k.KEYS):
    """Key groups, as compiled code knows them."""


class Aligned(StructView, layout=k.ALIGNED):
    """Alignment of a producer's key groups with its consumer's."""


def connect(world: World, edge: Edge) -> None:
    """Makes the inboxes and ports of a stream whose subtasks exist."""
    name, producer = edge.stream.consumer, world.job.components[edge.producer]
    made = world.streams[edge.key] = StreamParts(Counts(world.memory.add(k.COUNTS)))
    pool, ends = world.pools.get(name), world.job.components[edge.consumer].places
    inboxes = make_inboxes(world, edge, world.tasks[name] if pool is None else [pool])
    made.aligned = _align(world, edge)
    for number, task in enumerate(world.tasks[producer.name]):
        task.ports.append(make_port(world, task, edge, inboxes, ends, _partitioner(world, task, edge, number, ends)))
    groups = world.key_groups.get(name)
    if groups is not None:
        groups.watch(partial(_resend, world.tasks[producer.name], len(task.ports) - 1))


class StreamParts:
    """Parts of one stream: its counts, the inboxes of all receivers that it has had, and the alignment of its keys."""

    def __init__(self, counts: Counts) -> None:
        self.counts = counts
        self.inboxes: list[Inbox] = []
        self.aligned: AlignedKeys | None = None


def make_inboxes(world: World, edge: Edge, receivers: Sequence[Task | Pool | Buffer]) -> list[Inbox]:
    """Makes the inboxes of receivers of a stream, which subtasks register. A buffer takes all that comes."""
    consumer, memory = world.job.components[edge.consumer], world.memory
    side, beyond_s = world.job.inputs(consumer.name).index(edge), edge.service_s - consumer.service_s
    buffers, merged = world.job.engine.network_memory, world.query.operator(edge.stream.consumer).merges
    made = []
    for receiver in receivers:
        waits = isinstance(receiver, Buffer)
        room = UNBOUNDED if merged or buffers is not None or waits else edge.room
        whose = {"task" if isinstance(receiver, Task) else "pool": receiver.here}
        here = memory.add(k.INBOX, side=side, capacity=room, credits=room, beyond_s=beyond_s, **whose)
        inbox = memory.at[here] = Inbox(here, receiver, edge.bytes_each)
        if buffers is not None and not merged and not waits:
            spans = world.job.engine.spans_of(edge.bytes_each)
            inbox.gated, inbox.room, inbox.exclusive = True, edge.room, int(buffers.exclusive(spans))
            inbox.floating = inbox.free = int(buffers.floating(spans))
        if not isinstance(receiver, Buffer):
            for taker in receiver.members if isinstance(receiver, Pool) else [receiver]:
                taker.inboxes.append(inbox)
        made.append(inbox)
    world.streams[edge.key].inboxes += made
    return made


def make_port(
    world: World,
    task: Task,
    edge: Edge,
    inboxes: Sequence[Inbox],
    ends: Sequence[Location],
    partitioner: Partitioner,
    own: bool = False,
) -> Port:
    """Makes a port of a subtask, which deals by a partitioner. own: whether it has paths of its own."""
    world.env.watch.built()
    port = Port(world.network, task, world.streams[edge.key].counts, edge.bytes_each)
    port.shares_paths = not own
    port.partitioner = partitioner
    _gather(world, port, edge)
    port.lead(inboxes, ends)
    partitioner.serve(port)
    port.refresh()
    return port


def _resend(producers: Sequence[Task], number: int, shares: Sequence[float]) -> None:
    """Updates weights and the cost of sending on one port of each producer, as the shares of subtasks have changed."""
    for task in producers:
        port = task.ports[number]
        port.partitioner.reweigh(port.partitioner.due(shares))
        before, port.send_s = port.send_s, sum(map(mul, port.costs, port.weights))
        task.send_s += port.send_s - before
        task.logic.know_send()


# how records are dealt -----------------------------------------------------------------------------------------------


def _partitioner(world: World, task: Task, edge: Edge, number: int, ends: Sequence[Location]) -> Partitioner:
    """Makes the partitioner of subtask `number` of a producer."""
    name, how = edge.stream.consumer, edge.how
    producers, consumers = world.job.components[edge.producer].parallelism, len(world.tasks[name])
    groups, aligned, kin = world.key_groups.get(name), world.streams[edge.key].aligned, name in world.kin.meet
    if groups is not None and name in world.owners:
        draws = keys_drawn(world, task, edge.stream)
        dealing = timed_deal(world, edge.stream, draws, world.streams[edge.key].counts)
        return TimedPartitioner(groups, _keys(world, groups), draws, dealing)
    if groups is not None:
        keys, draws = _keys(world, groups), keys_drawn(world, task, edge.stream)
        if aligned is not None:
            return AlignedPartitioner(aligned, _aligned(world, aligned), keys, task, draws)
        return HashPartitioner(groups, keys, draws, kin)
    if how.one_queue:
        return SharedQueue(consumers)
    if how.paired:
        return PairedPartitioner(number, consumers)
    near = tuple(place for place, end in enumerate(ends) if end.host == task.place.host)
    dealt = Ends(number, consumers, world.query.operator(name).values(consumers), near, producers)
    weights, first = how.shares(dealt), first_in_turn(how, dealt)
    if how.by_key and consumers > 1:
        return RandomPartitioner(weights, keys_drawn(world, task, edge.stream), first, kin)
    return Partitioner(weights, how.copies and consumers > 1, first)


def keys_drawn(world: World, producer: Task, stream: Stream) -> Draws:
    """Random numbers that decide on the keys, and so on the receivers, of a producer's records."""
    return world.memory.draws(f"keys:{producer.name}->{'.'.join(stream.key[1:])}")


def _keys(world: World, groups: KeyGroups) -> Keys:
    """Structure of an operator's key groups; keys are filled in when they are numbered (`number`)."""
    if groups not in world.keys:
        memory = world.memory
        keys = world.keys[groups] = Keys(memory.add(k.KEYS, groups=len(groups)))
        keys.steps = memory.block(keys.here, "steps", groups.group_steps)
        keys.owners = memory.block(keys.here, "owners", groups.owner, np.int64)
        if groups.two_choice:
            keys.second = memory.block(keys.here, "second", groups.second, np.int64)
        groups.watch(lambda _shares: _show(world, groups))
    return world.keys[groups]


def number(world: World) -> None:
    """Numbers the keys of all key groups."""
    for name, groups in world.key_groups.items():
        groups.number()
        if groups not in world.keys:
            continue
        keys, memory = world.keys[groups], world.memory
        for task in world.tasks[name]:
            if groups.likeness is not None and name not in world.owners:
                task.logic.steps[0].window.repeats = groups.likeness.repeats
        keys.firsts = memory.block(keys.here, "firsts", groups.first, np.int64)
        if groups.within:
            keys.within = memory.block(keys.here, "within", groups.within)
        else:
            keys.scales = memory.block(keys.here, "scales", [each.scale for each in groups.splits])
            keys.counts = memory.block(keys.here, "counts", [each.keys for each in groups.splits], np.int64)


def _align(world: World, edge: Edge) -> AlignedKeys | None:
    """Aligns the keys of a stream's consumer with those of its producer, if the stream says so."""
    each = edge.stream
    if each.alignment is None:
        return None
    producer, consumer = world.key_groups[each.producer], world.key_groups[each.consumer]
    together = parts(each.alignment, len(producer), len(consumer))
    by_values = isinstance(world.query.operator(each.producer), Windowed)
    return AlignedKeys(producer, consumer, together, each.alignment.share, by_values, _expected_per_s(world, edge))


def _expected_per_s(world: World, edge: Edge) -> float:
    """Records a second on a stream if nothing is slowed, where its consumer has other aligned streams; else 1."""
    if sum(other.alignment is not None for other in world.query.inputs(edge.stream.consumer)) == 1:
        return 1.0
    return float(world.job.offered_flow[edge.stream.producer].out_per_s[0])


def _aligned(world: World, aligned: AlignedKeys) -> Aligned:
    """Structure of aligned key groups."""
    if aligned not in world.aligned:
        memory, count = world.memory, len(aligned.producer)
        receivers = [aligned.receivers_of(group) for group in range(count)]
        made = world.aligned[aligned] = Aligned(memory.add(k.ALIGNED, share=aligned.share))
        made.producer = _keys(world, aligned.producer).here
        made.own_steps = memory.block(made.here, "own_steps", aligned.consumer.own_steps)
        firsts = np.cumsum([0, *[len(groups) for groups, _ in receivers]]).tolist()
        made.rows = memory.block(made.here, "rows", firsts, np.int64)
        made.receivers = memory.block(
            made.here, "receivers", [each for groups, _ in receivers for each in groups], np.int64
        )
        made.steps = memory.block(made.here, "steps", [each for _, steps in receivers for each in steps])
    return world.aligned[aligned]


def _show(world: World, groups: KeyGroups) -> None:
    """Shows the owners and shares of key groups to compiled code, as they have changed."""
    blocks, keys = world.memory.blocks, world.keys
    blocks[keys[groups].here, "steps"][:] = groups.group_steps
    blocks[keys[groups].here, "owners"][:] = groups.owner
    for aligned, made in world.aligned.items():
        if aligned.consumer is groups:
            blocks[made.here, "own_steps"][:] = groups.own_steps


# room, and batches ---------------------------------------------------------------------------------------------------


def _gather(world: World, port: Port, edge: Edge) -> None:
    """Fills in whether a port sends at once, in batches, or drops records without room, and its buffers."""
    engine, memory, task = world.job.engine, world.memory, port.task
    size, sheds, buffers = engine.batch_of(edge.bytes_each), edge.stream.overflow == "drop", engine.network_memory
    if buffers is not None:
        port.buffers_law, port.spans = buffers, engine.spans_of(edge.bytes_each)
        port.batch, port.most = size, int(buffers.most(port.spans))
    if sheds:
        port.kind = k.SHEDDING
    elif size > 1 and engine.flush_s is not None:
        rng = memory.random(f"batches:{task.name}->{'.'.join(edge.key[1:])}")
        port.kind, port.batch, port.slot = k.GATHERING, size, memory.slots.add(k.PORTS, port.here)
        port.flush_s = engine.flush_s * (1.0 + FLUSH_DRIFT * float(rng.uniform(-1.0, 1.0)))
        port.phase_s = float(rng.random()) * port.flush_s
