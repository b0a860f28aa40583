"""Windows by processing time or count: a trigger decides when they are evaluated, contents hold the records, and a
combiner makes the results."""

from __future__ import annotations

from operator import itemgetter
from typing import TYPE_CHECKING

from twin.engine.logic import Logic
from twin.engine.output import Result, send_results
from twin.engine.record import Record
from twin.engine.state import Every, Item, Leaves, State, parted
from twin.engine.windows.combiner import Combiner
from twin.engine.windows.content import Content
from twin.engine.windows.trigger import Trigger

if TYPE_CHECKING:
    from twin.engine.keys.groups import KeyGroups
    from twin.engine.logic import Station
    from twin.engine.output import Outlet


class WindowKept:
    """State of a window at a checkpoint. planned: results of the service under way. contents, trigger: copies."""

    def __init__(self, planned: list[Result], contents: tuple[Content, ...], trigger: object) -> None:
        self.planned = planned
        self.contents = contents
        self.trigger = trigger


class WindowLogic(Logic):
    """Logic of a window: it has one content for all inputs, or in a join one for each side. found: number of results
    under way that something else holds for it."""

    def __init__(self, trigger: Trigger, combiner: Combiner, sides: int = 1) -> None:
        super().__init__()
        self.keeps = True
        self.follows = trigger.extent.by_time
        self.trigger = trigger
        self.combiner = combiner
        self.contents = tuple([Content() for _ in range(sides)])
        self.planned: list[Result] = []
        self.found = 0
        trigger.window = self

    def start(self, station: Station, out: Outlet) -> None:
        super().start(station, out)
        self.combiner.made = station.env.tick
        self.trigger.start()

    # what a record becomes -------------------------------------------------------------------------------------------

    def plan(self, record: Record) -> float:
        """Gives a record without a key one, and lets the trigger plan it."""
        if self.combiner.groups is None:
            record.key = self.combiner.draw_key(self._side(record), self.chance(record))
        return self.trigger.plan(record)

    def _side(self, record: Record) -> int:
        return record.inbox.side if len(self.contents) > 1 else 0

    def put(self, record: Record, position: float) -> None:
        """Puts a record into the window, at `position`."""
        self.contents[self._side(record)].add(position, record.key, record.born_s, record.taken_s)

    def forget(self, position: float) -> None:
        """Drops records up to `position`, which no later window holds."""
        for content in self.contents:
            content.forget(position)

    def evaluate(self, position: float, contents: tuple[Content, ...]) -> tuple[list[Result], float]:
        """Results of the window that ends at `position`, from these contents, and their CPU seconds.

        Results leave in the order of their keys, as an engine's state has them, whatever the ages of their records.
        """
        self.fires += 1
        combiner, start = self.combiner, position - self.trigger.extent.size
        results = sorted(combiner.results(contents, position, self.station.draws), key=itemgetter(0))
        looked_at = sum([content.count(start, position) for content in contents])
        return results, combiner.scan_s * looked_at + combiner.result_s * len(results)

    def fire(self, position: float) -> float:
        """Evaluates within a service, whose end the results wait for. Returns the CPU seconds."""
        results, work_s = self.evaluate(position, self.contents)
        self.planned += results
        return work_s + len(results) * self.out.send_s

    def emit(self, record: Record, at_s: float) -> None:
        """Sends the results of the evaluations within this service."""
        self.trigger.served(record, at_s)
        planned, self.planned = self.planned, []
        send_results(planned, self.out, at_s)

    def due(self, at_s: float) -> None:
        self.trigger.due(at_s)

    def stopped(self) -> None:
        """Drops the results under way."""
        self.planned = []

    # what it holds ---------------------------------------------------------------------------------------------------

    def snapshot(self, again: bool) -> object:
        return WindowKept(self.planned.copy(), self._copied(self.contents), self.trigger.snapshot())

    def restore(self, kept: object, at_s: float) -> int:
        assert isinstance(kept, WindowKept)
        self.planned, self.contents = kept.planned.copy(), self._copied(kept.contents)
        self.trigger.restore(kept.trigger, at_s)
        return 0

    def _copied(self, contents: tuple[Content, ...]) -> tuple[Content, ...]:
        return tuple([content.copy() for content in contents])

    def held(self) -> float:
        return float(sum(map(len, self.contents)))

    def held_bytes(self) -> float:
        """Size of the content in bytes, each input's records at their own size."""
        return sum([len(content) * size for content, size in zip(self.contents, self._sizes(), strict=True)])

    def held_keys(self) -> list[tuple[list[int], float]]:
        return [
            ([key for _, key, _, _ in content.items()], size)
            for content, size in zip(self.contents, self._sizes(), strict=True)
        ]

    def _sizes(self) -> list[float]:
        """Bytes of a record in each of the contents."""
        if len(self.contents) == 1:
            return [self.tuple_bytes()]
        by_side = {inbox.side: inbox.tuple_bytes for inbox in self.station.inputs.inboxes}
        return [by_side[side] for side in range(len(self.contents))]

    def take(self, share: float, leaves: Leaves | None = None) -> State:
        state, origin, goes = State(), self.trigger.origin(), leaves or Every(share)
        for content, size in zip(self.contents, self._sizes(), strict=True):
            gone, kept = parted(content.items(), goes)
            content.become(kept)
            state.stores.append((self.trigger.first(), _shifted(gone, -origin)))
            state.bytes += len(gone) * size
        return state

    def give(self, state: State) -> None:
        """Merges the content of windows into its own. Without key groups, records get new keys, as keys of other
        replicas are unknown here."""
        origin, first = self.trigger.origin(), min([first for first, _ in state.stores])
        stores = [_shifted(items, origin) for _, items in state.stores]
        if self.combiner.groups is None:
            stores = [self._drawn_anew(side, items) for side, items in enumerate(stores)]
        self.trigger.take_over(first, stores)
        for content, items in zip(self.contents, stores, strict=True):
            content.become(sorted([*content.items(), *items], key=itemgetter(0)))

    def stores(self) -> int:
        return len(self.contents)

    def in_service(self) -> int:
        """Number of records in service that leave: 0, as a record ends here."""
        return 0

    def know_keys(self, keys: KeyGroups, replica: int) -> None:
        self.combiner.groups = keys

    def know_share(self, share: float, values: list[int]) -> None:
        """Notes a change of its share. Its records get new keys, among those that are here now."""
        self.combiner.know_share(share, values)
        for side, content in enumerate(self.contents):
            content.become(self._drawn_anew(side, content.items()))

    def _drawn_anew(self, side: int, items: list[Item]) -> list[Item]:
        """Items with new keys."""
        drawn, draws = self.combiner.draw_key, self.station.draws
        return [(at, drawn(side, draws), born_s, taken_s) for at, _, born_s, taken_s in items]


def _shifted(items: list[Item], by: float) -> list[Item]:
    return [(position + by, key, born_s, taken_s) for position, key, born_s, taken_s in items]
