"""Streams: an inbox for each consumer replica, a port for each producer replica."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING

from twin.alignment import parts
from twin.engine.draws import Draws
from twin.engine.keys.aligned import AlignedKeys
from twin.engine.partitioners import AlignedPartitioner, HashPartitioner, Partitioner, RandomPartitioner, SharedQueue
from twin.engine.station.pool import Pool
from twin.engine.station.task import Task
from twin.engine.streams.buffers import BufferPort, InputGate
from twin.engine.streams.channel import UNBOUNDED, Inbox, Paths, Port
from twin.engine.streams.ports import FLUSH_DRIFT, Batching, GatheringPort, SheddingPort
from twin.errors import BadInput
from twin.job import Edge, unpaired
from twin.partitionings.traits import Ends, Partitioning
from twin.plan import Location
from twin.query import AnyOperator, Stream, Windowed
from twin.randomness import random_stream
from twin.wiring.event_time import timed_deal
from twin.wiring.wiring import Wiring
from twin.wiring.world import StreamParts

if TYPE_CHECKING:
    from twin.engine.measure.ledger import Buffer


def connect(wiring: Wiring, edge: Edge) -> None:
    """Makes the inboxes and ports of a stream whose tasks exist."""
    each = edge.stream
    producers = wiring.tasks_of(each.producer)
    wiring.world.streams[edge.ends] = StreamParts()
    inboxes = _inboxes(wiring, each)
    groups = wiring.world.key_groups.get(each.consumer)
    align(wiring, edge)
    paths: dict[Location, Paths] = {}
    for index, task in enumerate(producers):
        start = wiring.locations[each.producer][index]
        if start not in paths or wiring.engine.network_memory is not None:  # buffered channels belong to one producer
            paths[start] = wiring.network.paths(start, wiring.locations[each.consumer], inboxes, edge.bytes_each)
        task.ports.append(make_port(wiring, task, paths[start], _partitioner(wiring, edge, index), each))
    if groups is not None:
        groups.watch(partial(_resend, producers, len(producers[0].ports) - 1))


def align(wiring: Wiring, edge: Edge) -> None:
    """Aligns the keys of a stream's consumer with those of its producer, if the stream says so."""
    each, world = edge.stream, wiring.world
    if each.alignment is None:
        return
    producer, consumer = world.key_groups[each.producer], world.key_groups[each.consumer]
    together = parts(each.alignment, len(producer), len(consumer))
    by_values = isinstance(wiring.query.operator(each.producer), Windowed)
    per_s = _expected_per_s(wiring, each)
    aligned = AlignedKeys(producer, consumer, together, each.alignment.share, by_values, per_s)
    world.streams[edge.ends].aligned = aligned


def _expected_per_s(wiring: Wiring, each: Stream) -> float:
    """Tuples a second on a stream if nothing is slowed, where its consumer has other aligned streams; else 1."""
    if sum(other.alignment is not None for other in wiring.query.inputs(each.consumer)) == 1:
        return 1.0
    return float(wiring.job.offered_flow[each.producer].out_per_s[0])


def _partitioner(wiring: Wiring, edge: Edge, index: int) -> Partitioner:
    """Makes the partitioner of a producer replica."""
    each = edge.stream
    producers, consumers = wiring.tasks_of(each.producer), len(wiring.world.tasks[each.consumer])
    groups = wiring.world.key_groups.get(each.consumer)

    def draws() -> Draws:
        return Draws(random_stream(wiring.settings.seed, f"keys:{producers[index].name}->{each.consumer}"))

    if each.consumer in wiring.world.owners:
        return timed_deal(wiring, each, draws(), index * consumers // len(producers))
    if groups is None:
        consumer = wiring.query.operator(each.consumer)
        host = wiring.locations[each.producer][index].host
        near = (k for k, place in enumerate(wiring.locations[each.consumer]) if place.host == host)
        ends = Ends(index, consumers, consumer.values(consumers), tuple(near))
        return partitioner(edge.how, consumer, len(producers), ends, draws, each.consumer in wiring.kin.meet)
    aligned = wiring.world.streams[edge.ends].aligned
    if aligned is not None:
        return AlignedPartitioner(aligned, producers[index], draws(), index * consumers // len(producers))
    first, kin = index * consumers // len(producers), each.consumer in wiring.kin.meet
    return HashPartitioner(groups, draws(), first, kin)


def _inboxes(wiring: Wiring, each: Stream) -> list[Inbox]:
    """Makes the inboxes of a stream: one a replica, or one for a shared queue."""
    consumers, room = wiring.world.tasks[each.consumer], room_of(wiring, each)
    pool = wiring.world.pools.get(each.consumer)
    if pool is not None:
        return make_inboxes(wiring, each, [pool], room)
    return make_inboxes(wiring, each, consumers, room)


def room_of(wiring: Wiring, each: Stream) -> int:
    """Number of credits of a channel; without bound for partial results, and where there are network buffers."""
    merged = wiring.query.operator(each.consumer).merges
    return UNBOUNDED if merged or wiring.engine.network_memory is not None else wiring.job.edge(each).room


def make_inboxes(wiring: Wiring, each: Stream, receivers: Sequence[Task | Pool | Buffer], room: int) -> list[Inbox]:
    """Makes the inboxes of the receivers of a stream, which tasks register."""
    edge = wiring.job.edge(each)
    side = wiring.job.inputs(each.consumer).index(edge)
    beyond_s = edge.service_s - wiring.job.components[edge.consumer].service_s
    made, memory = wiring.world.streams[edge.ends], wiring.engine.network_memory
    inboxes = [Inbox(receiver, side, room, beyond_s, edge.bytes_each, made.counts) for receiver in receivers]
    if memory is not None and not wiring.query.operator(each.consumer).merges:
        for receiver, inbox in zip(receivers, inboxes, strict=True):
            inbox.gate = (
                InputGate(memory, wiring.engine.spans_of(edge.bytes_each))
                if isinstance(receiver, Task | Pool)
                else None
            )
    made.inboxes += inboxes
    for receiver, inbox in zip(receivers, inboxes, strict=True):
        takers = receiver.members if isinstance(receiver, Pool) else [receiver]
        for taker in takers:
            if isinstance(taker, Task):
                taker.inputs.add(inbox)
    return inboxes


def make_port(wiring: Wiring, task: Task, paths: Paths, partitioner: Partitioner, each: Stream) -> Port:
    """Makes a port that sends at once, sends in batches, or drops tuples for which there is no room."""
    wiring.world.env.watch.built()
    size, memory, sheds = (
        wiring.engine.batch_of(wiring.job.edge(each).bytes_each),
        wiring.engine.network_memory,
        each.overflow == "drop",
    )
    batching = None if sheds or size == 1 else _batching(wiring, task, each, size)
    if memory is not None:
        spans = wiring.engine.spans_of(wiring.job.edge(each).bytes_each)
        return BufferPort(task, paths, partitioner, memory, size, spans, batching, sheds)
    if sheds:
        return SheddingPort(task, paths, partitioner)
    return Port(task, paths, partitioner) if batching is None else GatheringPort(task, paths, partitioner, batching)


def _batching(wiring: Wiring, task: Task, each: Stream, tuples: int) -> Batching | None:
    if wiring.engine.flush_s is None:
        return None
    rng = random_stream(wiring.settings.seed, f"batches:{task.name}->{each.consumer}")
    flush_s = wiring.engine.flush_s * (1.0 + FLUSH_DRIFT * float(rng.uniform(-1.0, 1.0)))
    return Batching(tuples, flush_s, float(rng.random()) * flush_s)


def _resend(producers: Sequence[Task], number: int, shares: Sequence[float]) -> None:
    """Updates weights and the cost of sending on one port of each producer, as the replicas' shares have changed."""
    for task in producers:
        port = task.ports[number]
        port.partitioner.reweigh(port.partitioner.due(shares))
        before, port.send_s = port.send_s, port.paths.mean_send_s(port.partitioner.weights)
        task.output.send_s += port.send_s - before


def partitioner(
    how: Partitioning,
    consumer: AnyOperator,
    producers: int,
    ends: Ends,
    draws: Callable[[], Draws],
    kin: bool = False,
) -> Partitioner:
    """Makes the partitioner of one of `producers` replicas, for a consumer without key groups.

    Keys are the groups of an aggregate, or as many as replicas. draws: makes the random numbers, which only keys need.
    kin: whether copies of a record have the same key.
    Raises BadInput if a forward stream has unequal numbers of replicas at its ends.
    """
    consumers = ends.consumers
    if how.paired and producers != consumers:
        raise BadInput(unpaired(consumer.name, how, producers, consumers))
    if how.one_queue:
        return SharedQueue(consumers)
    first = ends.producer * consumers // producers
    weights = how.shares(ends)
    if how.by_key and consumers > 1:
        return RandomPartitioner(weights, draws(), first, kin)
    return Partitioner(weights, copies=how.copies and consumers > 1, first=first)
