"""A window: a trigger says when it is evaluated, a store holds its content, a combiner says what comes out."""

from __future__ import annotations

from typing import TYPE_CHECKING

from twin.engine.logic import Logic
from twin.engine.outcome import Results, send_results
from twin.engine.segment import Segment
from twin.engine.windows.combiner import Combiner
from twin.engine.windows.state import State
from twin.engine.windows.store import Store
from twin.engine.windows.trigger import Trigger

if TYPE_CHECKING:
    from twin.engine.station.task import Task
    from twin.engine.streams.keys import KeyGroups
    from twin.engine.streams.outlet import Outlet


class WindowKept:
    """planned: results of the service under way. Of the rest, copies."""

    __slots__ = ("combiner", "planned", "store", "trigger")

    def __init__(self, planned: list[Results], store: Store, trigger: object, combiner: object) -> None:
        self.planned = planned
        self.store = store
        self.trigger = trigger
        self.combiner = combiner


class WindowLogic(Logic):
    """What is in service is in the window already."""

    __slots__ = ("_planned", "combiner", "store", "trigger")

    def __init__(self, trigger: Trigger, combiner: Combiner) -> None:
        super().__init__()
        self.keeps = self.windowed = True
        self.follows = trigger.extent.by_time
        self.trigger = trigger
        self.store = trigger.store
        self.combiner = combiner
        self._planned: list[Results] = []
        trigger.window = self

    def start(self, station: Task, out: Outlet) -> None:
        """See Logic."""
        super().start(station, out)
        self.combiner.station = station
        self.trigger.start()

    # what a segment becomes ----------------------------------------------------------------------------------------

    def plan(self, segment: Segment) -> float:
        """See Trigger."""
        return self.trigger.plan(segment)

    def fire(self, position: float, fires: int, low: float, high: float, early_s: float = 0.0) -> float:
        """Evaluates within a service; CPU seconds. The results leave over a share of it, or as much earlier."""
        self.fires += fires
        results, work_s = self.combiner.evaluate(position, fires, low, high)
        if results is not None and results.n > 0:
            results.early_s, results.fires = early_s, fires
            self._planned.append(results)
            work_s += results.n * self.out.send_s
        return work_s

    def emit(self, segment: Segment, first_s: float, last_s: float) -> None:
        """Sends the results of the evaluations within this service."""
        if not self._planned:
            return
        planned, self._planned = self._planned, []
        for results in planned:
            send_results(results, self.out, self.station.draws, first_s, last_s)

    def served(self, segment: Segment, start_s: float, end_s: float) -> None:
        """See Trigger."""
        self.trigger.served(segment, start_s, end_s)

    def corrected(self, segment: Segment, start_s: float, end_s: float) -> None:
        """See Trigger."""
        self.trigger.corrected(segment, start_s, end_s)

    def due(self, at_s: float, from_s: float) -> None:
        """See Trigger."""
        self.trigger.due(at_s, from_s)

    def settle(self, now_s: float) -> None:
        """See Trigger."""
        self.trigger.settle(now_s)

    def stopped(self) -> None:
        """Drops the results under way."""
        self._planned = []

    # what it holds -------------------------------------------------------------------------------------------------

    def snapshot(self, again: bool) -> object:
        """See Logic."""
        return WindowKept(self._planned.copy(), self.store.copy(), self.trigger.snapshot(), self.combiner.snapshot())

    def restore(self, kept: object, at_s: float, now_s: float) -> int:
        """See Logic."""
        assert isinstance(kept, WindowKept)
        self._planned = kept.planned.copy()
        store = kept.store.copy()
        for history in store.histories:
            history.restarted(at_s, now_s)
        self.store = self.trigger.store = self.combiner.store = store
        self.combiner.restore(kept.combiner)
        self.trigger.restore(kept.trigger, at_s, now_s)
        return 0

    def held(self) -> float:
        """See Logic."""
        return self.store.held()

    def held_bytes(self) -> float:
        """Tuples of each input at their own size."""
        return self.store.held_bytes(self._sizes())

    def window_bytes(self) -> float:
        """What waits to be merged is as large as what is held."""
        store = self.store
        if not store.left:
            return 0.0
        held = store.held() if store.by_side else 0.0
        return store.left * (self.held_bytes() / held if held > 0.0 else self.tuple_bytes())

    def _sizes(self) -> list[float]:
        """Of a tuple in each of the histories, in bytes."""
        if not self.store.by_side:
            return [self.tuple_bytes()]
        by_side = {inbox.side: inbox.tuple_bytes for inbox in self.station.inputs.inboxes}
        return [by_side[side] for side in range(len(self.store.histories))]

    def take(self, share: float) -> State:
        """See Logic."""
        state = self.store.take(share, self.trigger.origin(), self.station.busy)
        self.combiner.changed()
        return state

    def give(self, state: State) -> None:
        """See Logic."""
        self.store.give(state, self.trigger.origin(), self.station.busy)
        self.combiner.changed()

    def stores(self) -> int:
        """See Logic."""
        return len(self.store.histories)

    def in_service(self) -> int:
        """None: what it took up is in the window."""
        return 0

    def know_keys(self, keys: KeyGroups, replica: int) -> None:
        """See Logic."""
        self.combiner.know_keys(keys, replica)

    def know_share(self, share: float, values: list[int]) -> None:
        """See Logic."""
        self.combiner.know_share(share, values)
