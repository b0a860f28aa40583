"""Fans: all channels into one operator while it is being changed, and the key groups or shares that move.

Producers deal tuples to indices. At an index sits a replica, a buffer for tuples whose state is on its way, or nobody.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from twin.engine.draws import Draws
from twin.engine.measure.ledger import Buffer
from twin.engine.station.task import Task
from twin.engine.streams.channel import UNBOUNDED, Inbox, Paths, Port
from twin.keys import contiguous
from twin.randomness import random_stream
from twin.wiring.streams import make_inboxes, make_port, room_of

if TYPE_CHECKING:
    from twin.engine.keys.groups import KeyGroups
    from twin.engine.state import Leaves
    from twin.plan import Location
    from twin.query import Stream
    from twin.wiring.wiring import Wiring


NO_SHARE = 1e-12


class Fan:
    """Channels into one operator. At index i, `slots[i]` receives, at `places[i]`, the part `shares[i]` of the tuples.

    Seats of buffers and replicas that are gone are kept, without a share, for later ones.
    """

    def __init__(self, wiring: Wiring, operator: str) -> None:
        self.wiring = wiring
        self.operator = operator
        tasks = wiring.world.tasks[operator]
        self.slots: list[Task | Buffer] = list(tasks)
        self.places: list[Location] = [task.place for task in tasks]
        self.inboxes: dict[Stream, list[Inbox]] = {
            stream: list(wiring.world.streams[stream.producer, stream.consumer].inboxes)
            for stream in wiring.query.inputs(operator)
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
        return self.wiring.world.key_groups.get(self.operator)

    def ports(self) -> Iterator[tuple[Stream, Task, Port]]:
        """Ports of all producer replicas on all streams into the operator."""
        for stream in self.wiring.query.inputs(self.operator):
            position = self.wiring.query.outputs(stream.producer).index(stream)
            for task in self.wiring.tasks_of(stream.producer):
                yield stream, task, task.ports[position]

    def index(self, receiver: Task | Buffer) -> int:
        """Index of a replica or buffer. Raises ValueError if it has none."""
        return self.slots.index(receiver)

    # receivers -----------------------------------------------------------------------------------------------------

    def add(self, receiver: Task | Buffer, place: Location) -> int:
        """Seats a replica or buffer that gets no tuples yet; returns its index."""
        if self._free:
            index = self._free.pop(0)
            self.slots[index], self.places[index] = receiver, place
        else:
            index = len(self.slots)
            self.slots.append(receiver)
            self.places.append(place)
            self.shares.append(0.0)
        for stream, inboxes in self.inboxes.items():
            capacity = room_of(self.wiring, stream) if isinstance(receiver, Task) else UNBOUNDED  # a buffer takes all
            made = make_inboxes(self.wiring, stream, [receiver], capacity)
            inboxes[index : index + 1] = made
        self.renew()
        return index

    def leave(self, receiver: Task | Buffer) -> None:
        """Empties the seat of a receiver that has no share any more."""
        index = self.index(receiver)
        self.slots[index] = Buffer()
        self._free = sorted([*self._free, index])

    def renew(self) -> None:
        """Makes all paths into the operator anew, after a replica or buffer came or moved."""
        for stream, producer, port in self.ports():
            port.flush()  # batches are for the former receivers
            port.paths = self._paths(stream, producer)
        self.refresh()

    def renew_from(self, producer: Task, stream: Stream, port: Port) -> None:
        """Makes the paths from one producer anew, after it moved."""
        port.flush()
        port.paths = self._paths(stream, producer)
        port.refresh()

    def port_of(self, producer: Task, stream: Stream, sibling: Port) -> Port:
        """Makes a new producer replica's port, dealing as that of a sibling does."""
        draws = Draws(random_stream(self.wiring.settings.seed, f"keys:{producer.name}->{self.operator}"))
        partitioner = sibling.partitioner.another(draws, producer)
        return make_port(self.wiring, producer, self._paths(stream, producer), partitioner, stream)

    def _paths(self, stream: Stream, producer: Task) -> Paths:
        size = self.wiring.engine.output_bytes(self.wiring.query, stream.producer)
        return self.wiring.network.paths(producer.place, self.places, self.inboxes[stream], size)

    # shares --------------------------------------------------------------------------------------------------------

    def shift(self, source: int, target: int, amount: float, groups: Sequence[int] = ()) -> None:
        """Redirects a share of all tuples, or key groups, from one index to another."""
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
    """Share of an operator's tuples, with its state, that moves from one index of its fan to another."""

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
    """Flows of key groups from replicas that leave or carry too much to those that carry least, to few targets each."""
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
