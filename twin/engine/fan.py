"""The ways into one operator, while it is being changed.

Behind each index of its producers' deals sits a replica, a buffer for tuples whose state is on its way, or nobody.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, cast

from twin.engine.channel import Inbox, Path, Port
from twin.engine.ledger import Buffer
from twin.engine.partition import Deal
from twin.engine.task import Task

if TYPE_CHECKING:
    from twin.engine.keys import KeyGroups
    from twin.plan import Location
    from twin.query import Stream
    from twin.rewiring import Rewiring

UNBOUNDED = 10**15
"""Credits of a buffer: redirected tuples never block their producers."""
NO_SHARE = 1e-12


class Fan:
    """One operator's. `shares[i]`: the part of its tuples that goes to whoever sits at index i."""

    def __init__(self, wiring: Rewiring, operator: str) -> None:
        self.wiring = wiring
        self.operator = operator
        self.slots: list[Task | Buffer | None] = list(wiring.world.tasks[operator])
        self.places: list[Location] = [wiring.places[task] for task in wiring.world.tasks[operator]]
        first = next((port for _, _, port in self.ports()), None)
        self.shares: list[float] = list(first.deal.weights) if first else []

    @property
    def keys(self) -> KeyGroups | None:
        """The operator's key groups, if it has them."""
        return self.wiring.world.key_groups.get(self.operator)

    def ports(self) -> Iterator[tuple[Stream, Task, Port]]:
        """Every producer replica's end of every stream into the operator."""
        for stream in self.wiring.query.inputs(self.operator):
            position = self.wiring.query.outputs(stream.producer).index(stream)
            for task in self.wiring.world.tasks[stream.producer]:
                yield stream, task, task.ports[position]

    def index(self, receiver: Task | Buffer) -> int:
        """Where a replica or buffer sits. Raises ValueError if it does not."""
        return self.slots.index(receiver)

    # who sits where ------------------------------------------------------------------------------------------------

    def add(self, receiver: Task | Buffer, place: Location) -> int:
        """Seats a replica or buffer that gets no tuples yet; its index."""
        index = next((k for k, there in enumerate(self.slots) if there is None), len(self.slots))
        if index == len(self.slots):
            self.slots.append(None)
            self.places.append(place)
            self.shares.append(0.0)
        self.slots[index], self.places[index] = receiver, place
        capacity = self.wiring.engine.channel_tuples if isinstance(receiver, Task) else UNBOUNDED
        inboxes: dict[Stream, Inbox] = {}
        for stream, task, port in self.ports():
            if stream not in inboxes:
                inboxes[stream] = Inbox(cast(Task, receiver), self.wiring.side(stream), capacity)
                self.wiring.world.inboxes[stream.producer, stream.consumer].append(inboxes[stream])
            path = self._path(stream, task, inboxes[stream], place)
            port.paths[index : index + 1] = [path]
        self.refresh()
        return index

    def leave(self, receiver: Task | Buffer) -> None:
        """Empties a seat whose share is gone."""
        self.slots[self.index(receiver)] = None

    def move(self, task: Task, place: Location) -> None:
        """A replica is elsewhere now: all paths to it are new."""
        index = self.index(task)
        self.places[index] = place
        for stream, producer, port in self.ports():
            port.paths[index] = self._path(stream, producer, port.paths[index].inbox, place)
        self.refresh()

    def rewire(self, producer: Task, stream: Stream, port: Port) -> None:
        """A producer is elsewhere now: all its paths into this operator are new."""
        port.paths[:] = [
            self._path(stream, producer, path.inbox, place) for path, place in zip(port.paths, self.places, strict=True)
        ]
        port.refresh()

    def port_of(self, producer: Task, stream: Stream, sibling: Port) -> Port:
        """A new producer replica's port, dealing as that of a sibling does."""
        paths = [
            self._path(stream, producer, path.inbox, place)
            for path, place in zip(sibling.paths, self.places, strict=True)
        ]
        deal = Deal(sibling.deal.weights, sibling.deal.copies)
        if self.keys is not None:
            self.keys.deals.append(deal)
        return Port(producer, paths, deal, sibling.cap)

    def forget(self, port: Port) -> None:
        """A producer replica is gone."""
        keys = self.keys
        if keys is not None and port.deal in keys.deals:
            keys.deals.remove(port.deal)

    def _path(self, stream: Stream, producer: Task, inbox: Inbox, place: Location) -> Path:
        size = self.wiring.engine.bytes_of(self.wiring.query.columns_out[stream.producer])
        return self.wiring.path(self.wiring.places[producer], place, inbox, size)

    # who gets what -------------------------------------------------------------------------------------------------

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

    def refresh(self) -> None:
        """Deals and sending costs of all producers, after any change."""
        keys = self.keys
        if keys is not None:
            keys.places = len(self.slots)
            self.shares = keys.shares()
        for _, task, port in self.ports():
            port.deal.reweigh(self.shares)
            port.refresh()
            task.send_s = sum(each.send_s for each in task.ports)
