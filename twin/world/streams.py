"""Streams of a run: an inbox for each subtask of the consumer, and a port for each of the producer."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from operator import mul
from typing import TYPE_CHECKING

import numpy as np

from twin.alignment import parts
from twin.engine.keys.aligned import AlignedKeys
from twin.engine.keys.groups import KeyGroups
from twin.engine.keys.likeness import cumulative
from twin.engine.streams.channel import UNBOUNDED
from twin.engine.streams.ports import FLUSH_DRIFT
from twin.job import Edge
from twin.kernel import layout as k
from twin.partitionings.traits import Ends
from twin.query import Windowed
from twin.world.memory import StructView
from twin.world.parts import Counts, Inbox, Port, Task

if TYPE_CHECKING:
    from twin.world.world import World


class Keys(StructView, layout=k.KEYS):
    """Key groups, as compiled code knows them."""


class Aligned(StructView, layout=k.ALIGNED):
    """Alignment of a producer's key groups with its consumer's."""


def connect(world: World, edge: Edge) -> None:
    """Makes the inboxes and ports of a stream whose subtasks exist."""
    producer, consumer = (world.job.components[each] for each in (edge.producer, edge.consumer))
    counts = Counts(world.memory.add(k.COUNTS))
    inboxes = _inboxes(world, edge)
    world.streams[edge.ends] = StreamParts(counts, inboxes)
    groups, aligned = world.key_groups.get(consumer.name), _align(world, edge)
    ports = []
    for number, task in enumerate(world.tasks[producer.name]):
        world.env.watch.built()
        port = Port(world.memory, task)
        port.inboxes, port.ends, port.counts, port.bytes_each = inboxes, consumer.places, counts, edge.bytes_each
        remote_s = world.network.serialise_s(edge.bytes_each)
        port.costs = [0.0 if end.host == task.place.host else remote_s for end in consumer.places[: len(inboxes)]]
        port.weights = _deal(world, port, edge, number, groups, aligned)
        port.replicas = len(port.weights)
        port.paths = world.memory.block(port.here, "paths", (), np.int64, len(port.weights))
        port.send_s = sum(map(mul, port.costs, port.weights))
        _gather(world, port, edge)
        if len(inboxes) == 1 and groups is None:
            world.path(port, 0)
        task.ports.append(port)
        ports.append(port)
    if groups is not None:
        groups.watch(partial(_reweighed, world, groups, aligned, ports))


class StreamParts:
    """Parts of one stream: its counts, and the inboxes of all receivers that it has had."""

    def __init__(self, counts: Counts, inboxes: list[Inbox]) -> None:
        self.counts = counts
        self.inboxes = inboxes


def _inboxes(world: World, edge: Edge) -> list[Inbox]:
    consumer, memory = world.job.components[edge.consumer], world.memory
    side, beyond_s = world.job.inputs(consumer.name).index(edge), edge.service_s - consumer.service_s
    buffers, merged = world.job.engine.network_memory, world.query.operator(edge.stream.consumer).merges
    room = UNBOUNDED if merged or buffers is not None else edge.room
    pool, tasks = world.pools.get(consumer.name), world.tasks[consumer.name]
    made = []
    for receiver in [pool] if pool is not None else tasks:
        whose = {"pool" if receiver is pool else "task": receiver.here}
        here = memory.add(k.INBOX, side=side, capacity=room, credits=room, beyond_s=beyond_s, **whose)
        inbox = memory.at[here] = Inbox(here, receiver, edge.bytes_each)
        inbox.gated = buffers is not None and not merged
        if buffers is not None and not merged:
            spans = world.job.engine.spans_of(edge.bytes_each)
            inbox.exclusive, inbox.free = int(buffers.exclusive(spans)), int(buffers.floating(spans))
            inbox.floating = inbox.free
        for taker in tasks if receiver is pool else [receiver]:
            taker.inboxes.append(inbox)
        made.append(inbox)
    return made


# how records are dealt -----------------------------------------------------------------------------------------------


def _deal(
    world: World, port: Port, edge: Edge, index: int, groups: KeyGroups | None, aligned: AlignedKeys | None
) -> Sequence[float]:
    """Fills in how a port deals records; returns the shares of the subtasks."""
    name, memory, task = edge.stream.consumer, world.memory, port.task
    producers, consumers = world.job.components[edge.producer].replicas, len(world.tasks[name])
    stream = f"keys:{task.name}->{name}"
    if groups is not None:
        port.stream, port.keys = memory.draws(stream).here, _keys(world, groups).here
        port.dealing = k.BY_KEY if aligned is None else k.ALONG
        port.kin = aligned is None and name in world.kin.meet
        if aligned is not None:
            port.aligned = _aligned(world, aligned).here
            port.sends = memory.block(port.here, "sends", aligned.sent_steps(task))
        if groups.two_choice:
            port.sent = memory.block(port.here, "sent", (), np.int64, groups.places)
        return groups.shares() if aligned is None else aligned.shares(task)
    if edge.how.one_queue:
        port.dealing, port.only = k.ONLY, 0
        return [1.0 / consumers] * consumers
    consumer, host = world.query.operator(name), task.place.host
    near = tuple(n for n, place in enumerate(port.ends) if place.host == host)
    weights = edge.how.shares(Ends(index, consumers, consumer.values(consumers), near))
    live = [n for n, weight in enumerate(weights) if weight > 0.0]
    if len(live) == 1:
        port.dealing, port.only = k.ONLY, live[0]
    elif edge.how.by_key and consumers > 1:
        port.dealing, port.stream, port.kin = k.AT_RANDOM, memory.draws(stream).here, name in world.kin.meet
        port.keys = memory.block(port.here, "keys", cumulative(weights))
    else:
        first = index * consumers // producers
        port.dealing = k.COPIES if edge.how.copies and consumers > 1 else k.IN_TURN
        port.keys, port.shares = memory.block(port.here, "keys", live, np.int64), len(live)
        port.turn = next((place for place, n in enumerate(live) if n >= first), 0)
    return weights


def _keys(world: World, groups: KeyGroups) -> Keys:
    """Structure of an operator's key groups; keys are filled in when they are numbered (`number`)."""
    if id(groups) not in world.keys:
        memory = world.memory
        keys = world.keys[id(groups)] = Keys(memory.add(k.KEYS, groups=len(groups)))
        keys.steps = memory.block(keys.here, "steps", groups.group_steps)
        keys.owners = memory.block(keys.here, "owners", groups.owner, np.int64)
        if groups.two_choice:
            keys.second = memory.block(keys.here, "second", groups.second, np.int64)
    return world.keys[id(groups)]


def number(world: World) -> None:
    """Numbers the keys of all key groups."""
    for name, groups in world.key_groups.items():
        groups.number()
        if id(groups) not in world.keys:
            continue
        keys, memory = world.keys[id(groups)], world.memory
        for task in world.tasks[name]:
            if groups.likeness is not None:
                task.logic.steps[0].window.repeats = groups.likeness.repeats
        keys.firsts = memory.block(keys.here, "firsts", groups.first, np.int64)
        if groups._within:
            keys.within = memory.block(keys.here, "within", groups._within)
        else:
            keys.scales = memory.block(keys.here, "scales", [each.scale for each in groups._splits])
            keys.counts = memory.block(keys.here, "counts", [each.keys for each in groups._splits], np.int64)


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
    if id(aligned) not in world.keys:
        memory, count = world.memory, len(aligned.producer)
        receivers = [aligned.receivers_of(group) for group in range(count)]
        made = world.keys[id(aligned)] = Aligned(memory.add(k.ALIGNED, share=aligned.share))
        made.producer = _keys(world, aligned.producer).here
        made.own_steps = memory.block(made.here, "own_steps", aligned.consumer.own_steps)
        firsts = np.cumsum([0, *[len(groups) for groups, _ in receivers]]).tolist()
        made.rows = memory.block(made.here, "rows", firsts, np.int64)
        made.receivers = memory.block(
            made.here, "receivers", [each for groups, _ in receivers for each in groups], np.int64
        )
        made.steps = memory.block(made.here, "steps", [each for _, steps in receivers for each in steps])
    return world.keys[id(aligned)]


def _reweighed(
    world: World, groups: KeyGroups, aligned: AlignedKeys | None, ports: Sequence[Port], shares: Sequence[float]
) -> None:
    """Notes that the shares of key groups, and so of subtasks, have changed."""
    blocks = world.memory.blocks
    blocks[world.keys[id(groups)].here, "steps"][:] = groups.group_steps
    if aligned is not None:
        blocks[world.keys[id(aligned)].here, "own_steps"][:] = groups.own_steps
    for port in ports:
        if aligned is not None:
            blocks[port.here, "sends"][:] = aligned.sent_steps(port.task)
            shares = aligned.shares(port.task)
        before, port.weights = port.send_s, shares
        port.send_s = sum(map(mul, port.costs, shares))
        port.task.send_s += port.send_s - before
        port.task.logic.know_send()


# room, and batches ---------------------------------------------------------------------------------------------------


def _gather(world: World, port: Port, edge: Edge) -> None:
    """Fills in whether a port sends at once, in batches, or drops records without room, and its buffers."""
    engine, memory, task = world.job.engine, world.memory, port.task
    size, sheds, buffers = engine.batch_of(edge.bytes_each), edge.stream.overflow == "drop", engine.network_memory
    if buffers is not None:
        spans, live = engine.spans_of(edge.bytes_each), sum([weight > 0.0 for weight in port.weights])
        port.pool = int(buffers.pool(max(1, 1 if edge.how.one_queue else live), spans))
        port.batch, port.most = size, int(buffers.most(spans))
    if sheds:
        port.kind = k.SHEDDING
    elif size > 1 and engine.flush_s is not None:
        rng = memory.random(f"batches:{task.name}->{edge.stream.consumer}")
        port.kind, port.batch, port.slot = k.GATHERING, size, memory.slots.add(k.PORTS, port.here)
        port.flush_s = engine.flush_s * (1.0 + FLUSH_DRIFT * float(rng.uniform(-1.0, 1.0)))
        port.phase_s = float(rng.random()) * port.flush_s
        port.buffers = memory.array(k.BUFFER, port.here, "buffers", len(port.weights))
        memory.blocks[port.here, "buffers"]["tail"] = -1
        port.open_order = memory.block(port.here, "open_order", (), np.int64, len(port.weights))


def ports_know(task: Task) -> None:
    """Notes the cost of sending a record on all ports of a subtask."""
    task.raw_ports = len(task.ports)
    task.port = task.memory.block(task.here, "port", [port.here for port in task.ports], np.int64)
    task.send_s = sum([port.send_s for port in task.ports])
    task.logic.know_send()
