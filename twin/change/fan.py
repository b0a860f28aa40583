"""Channels between tasks: all of a job, and those into one operator while it is being changed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from twin.workload import contiguous
from twin.world.network import Buffer
from twin.world.parts import Task
from twin.world.ports import Inbox, Port
from twin.world.streams import PairedPartitioner, keys_drawn, make_inboxes, make_port

if TYPE_CHECKING:
    from twin.operators.key_groups import KeyGroups
    from twin.operators.records import Leaves
    from twin.plan import Location
    from twin.query import Stream
    from twin.world.world import World


# channels ------------------------------------------------------------------------------------------------------------
# Channels between tasks, whether or not records take them, and what they connect: failover regions, after Flink.


class Channel(NamedTuple):
    """A channel from port `port` of the producer to subtask number `subtask`, on input `side` of the consumer."""

    producer: Task
    port: int
    subtask: int
    consumer: Task
    side: int


def channels(world: World) -> Iterator[Channel]:
    """Channels of a job: from each producer subtask to each consumer subtask, or in a pointwise stream to those to
    which it sends."""
    job = world.job
    for component in job.components:
        for number, edge in enumerate(job.outputs(component.name)):
            side = job.inputs(edge.stream.consumer).index(edge)
            for producer in world.tasks[component.name]:
                port = producer.ports[number]
                for index, weight in enumerate(port.weights):
                    receiver = port.receiver(index) if weight > 0.0 or not edge.how.pointwise else None
                    if isinstance(receiver, Task) and not receiver.halted:
                        yield Channel(producer, number, index, receiver, side)


def regions(world: World) -> list[list[Task]]:
    """Groups of tasks that channels connect, in order; each task is in exactly one group."""
    import networkx as nx  # a tenth of a second, for jobs in which something fails

    graph = nx.Graph()
    graph.add_nodes_from(tasks := world.every_task())
    graph.add_edges_from((channel.producer, channel.consumer) for channel in channels(world))
    place = {task: number for number, task in enumerate(tasks)}
    return [sorted(group, key=place.__getitem__) for group in nx.connected_components(graph)]


# fans ----------------------------------------------------------------------------------------------------------------
# Fans: all channels into one operator while it is being changed, and the key groups or shares that move.
#
# Producers deal records to indices. At an index sits a subtask, a buffer for records whose state is on its way, or
# nobody.


NO_SHARE = 1e-12


class Fan:
    """Channels into one operator. At index i, `slots[i]` receives, at `places[i]`, the part `shares[i]` of the records.

    Seats of buffers and subtasks that are gone are kept, without a share, for later ones.
    """

    def __init__(self, world: World, operator: str) -> None:
        self.world = world
        self.operator = operator
        tasks = world.tasks[operator]
        self.slots: list[Task | Buffer] = list(tasks)
        self.places: list[Location] = [task.place for task in tasks]
        self.inboxes: dict[Stream, list[Inbox]] = {
            stream: list(world.streams[stream.key].inboxes) for stream in world.query.inputs(operator)
        }
        first = next((port for _, _, port in self.ports()), None)
        known = first.partitioner.weights if first else []
        self.shares: list[float] = list(known if self.keys is None else self.keys.shares())
        self._built_with: list[float] | None = list(self.shares) if self.keys is None else None
        self._free: list[int] = []
        if self.keys is not None:
            self.keys.tasks = self.slots

    @property
    def keys(self) -> KeyGroups | None:
        """Key groups of the operator, if it has them."""
        return self.world.key_groups.get(self.operator)

    def ports(self) -> Iterator[tuple[Stream, Task, Port]]:
        """Ports of all producer subtasks on all streams into the operator."""
        for stream in self.world.query.inputs(self.operator):
            position = self.world.job.position(stream)
            for task in self.world.tasks_of(stream.producer):
                yield stream, task, task.ports[position]

    def index(self, receiver: Task | Buffer) -> int:
        """Index of a subtask or buffer. Raises ValueError if it has none."""
        return self.slots.index(receiver)

    # receivers -----------------------------------------------------------------------------------------------------

    def add(self, receiver: Task | Buffer, place: Location) -> int:
        """Seats a subtask or buffer that gets no records yet; returns its index."""
        if self._free:
            index = self._free.pop(0)
            self.slots[index], self.places[index] = receiver, place
        else:
            index = len(self.slots)
            self.slots.append(receiver)
            self.places.append(place)
            self.shares.append(0.0)
        for stream, inboxes in self.inboxes.items():
            inboxes[index : index + 1] = self.make_inbox(stream, receiver)
        self.renew()
        return index

    def make_buffer(self) -> Buffer:
        """Makes a buffer of records whose state is on its way."""
        return Buffer(self.world.memory, self.world.network.lanes)

    def make_inbox(self, stream: Stream, receiver: Task | Buffer) -> list[Inbox]:
        """Makes the inbox of a receiver of a stream."""
        return make_inboxes(self.world, self.world.job.edge(stream), [receiver])

    def leave(self, receiver: Task | Buffer) -> None:
        """Empties the seat of a receiver that has no share any more."""
        index = self.index(receiver)
        self.slots[index] = self.make_buffer()
        self._free = sorted([*self._free, index])

    def renew(self) -> None:
        """Makes all paths into the operator anew, after a subtask or buffer came or moved."""
        for stream, _, port in self.ports():
            self._lead(stream, port)
        self.refresh()

    def renew_from(self, stream: Stream, port: Port) -> None:
        """Makes the paths from one producer's port anew, after it moved."""
        self._lead(stream, port)
        port.refresh()

    def _lead(self, stream: Stream, port: Port) -> None:
        port.flush()  # batches are for the former receivers
        port.shares_paths = False
        port.lead(self.inboxes[stream], self.places)

    def port_of(self, producer: Task, stream: Stream, sibling: Port) -> Port:
        """Makes the port of a new subtask of a producer, which deals as that of a sibling does."""
        partitioner = sibling.partitioner.another(keys_drawn(self.world, producer, stream), producer)
        edge, inboxes = self.world.job.edge(stream), self.inboxes[stream]
        return make_port(self.world, producer, edge, inboxes, self.places, partitioner, own=True)

    # shares --------------------------------------------------------------------------------------------------------

    def shift(self, source: int, target: int, amount: float, groups: Sequence[int] = ()) -> None:
        """Redirects a share of all records, or key groups, from one index to another."""
        keys = self.keys
        if keys is not None:
            for group in groups:
                keys.owner[group] = target
        else:
            self.shares[source] -= amount
            self.shares[target] += amount
            if self.shares[source] < NO_SHARE:
                self.shares[source] = 0.0
        self.refresh()

    def pair(self, stream: Stream, producers: Sequence[Task], consumers: Sequence[Task]) -> None:
        """Leads a forward stream from each of these subtasks of its producer to the one of the same number here."""
        position = self.world.job.position(stream)
        for producer, consumer in zip(producers, consumers, strict=True):
            port = producer.ports[position]
            assert isinstance(port.partitioner, PairedPartitioner)
            port.partitioner.pair(self.index(consumer), len(self.slots))
            port.refresh()
            producer.know_ports()

    def become(self, shares: Sequence[float]) -> None:
        """Gives the receivers new shares; only for an operator without key groups."""
        self.shares = list(shares)
        self.refresh()

    def refresh(self) -> None:
        """Updates the partitioners and sending costs of all producers, after any change. Until shares change, each
        stream is dealt as it was built, since streams into one operator may have different shares."""
        keys = self.keys
        if keys is not None:
            keys.places = len(self.slots)
            keys.refresh()
            self.shares = list(keys.shares())
        if self.shares != self._built_with:
            self._built_with = None
        for _, task, port in self.ports():
            if self._built_with is None:
                port.partitioner.reweigh(list(port.partitioner.due(self.shares)))
            port.refresh()
            task.know_ports()


@dataclass(frozen=True, slots=True)
class KeyFlow:
    """Share of an operator's records, with its state, that moves from one index of its fan to another."""

    source: int
    target: int
    amount: float
    groups: tuple[int, ...] = ()


def keys_of(keys: KeyGroups, flow: KeyFlow) -> Leaves:
    """Returns a function that tells whether a key is in the key groups that move."""
    groups = set(flow.groups)
    return lambda key: keys.group_of(key) in groups


def flows_to(keys: KeyGroups, owners: Mapping[int, int]) -> list[KeyFlow]:
    """Flows that bring key groups to new owners: one from each old owner to each new one."""
    moves: dict[tuple[int, int], list[int]] = {}
    for group, owner in owners.items():
        if keys.owner[group] != owner:
            moves.setdefault((keys.owner[group], owner), []).append(group)
    return [
        KeyFlow(source, target, float(sum(keys.weights[group] for group in groups)), tuple(groups))
        for (source, target), groups in moves.items()
    ]


def even_flows(shares: Sequence[float], stay: Sequence[int]) -> list[KeyFlow]:
    """Fewest flows that give each index of `stay` the same share and all others none."""
    even = 1.0 / len(stay)
    surplus = {k: share - (even if k in stay else 0.0) for k, share in enumerate(shares)}
    givers = [k for k, more in surplus.items() if more > NO_SHARE]
    flows = []
    for taker in (k for k, more in surplus.items() if more < -NO_SHARE):
        while givers and surplus[taker] < -NO_SHARE:
            amount = min(surplus[givers[0]], -surplus[taker])
            flows.append(KeyFlow(givers[0], taker, amount))
            surplus[givers[0]] -= amount
            surplus[taker] += amount
            if surplus[givers[0]] <= NO_SHARE:
                givers.pop(0)
    return flows


def dealt_group_flows(keys: KeyGroups, stay: Sequence[int]) -> list[KeyFlow]:
    """Flows of key groups to where a restart deals them: contiguous ranges, whatever each of them carries."""
    return flows_to(keys, {group: stay[owner] for group, owner in enumerate(contiguous(len(keys.owner), len(stay)))})


def even_group_flows(keys: KeyGroups, stay: Sequence[int]) -> list[KeyFlow]:
    """Flows of key groups from subtasks that leave or carry too much to those that carry least, to few targets each."""
    load = dict.fromkeys(stay, 0.0)
    homeless: list[int] = []
    even = sum(keys.weights) / len(stay)
    for group in sorted(range(len(keys.owner)), key=lambda group: (-keys.weights[group], group)):
        owner = keys.owner[group]
        if owner in load and load[owner] + keys.weights[group] <= even * (1.0 + 1e-9):
            load[owner] += keys.weights[group]
        else:
            homeless.append(group)
    owners: dict[int, int] = {}
    target = stay[0]
    for group in sorted(homeless, key=lambda group: keys.owner[group]):  # stable: heaviest first of each owner
        if load[target] + keys.weights[group] > even * (1.0 + 1e-9):
            target = min(stay, key=lambda index: (load[index], index))
        load[target] += keys.weights[group]
        owners[group] = target
    return flows_to(keys, owners)
