"""Base of logics over event time: their watermark, which is held back while state is on its way to them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from twin.engine.keys.groups import KeyGroups
from twin.engine.logic import Logic, SinkLogic
from twin.engine.record import Mark, Record
from twin.engine.state import Leaves, State
from twin.engine.windows.ownership import Ownership
from twin.engine.windows.panes import Dated, SpanContent, SpanStore, WindowAudit
from twin.engine.windows.shipping import Owed, Shipping
from twin.panes import Span

WATERMARK, MODIFICATION, RELEASE = "watermark", "modification", "release"


class TimedKept:
    """State of a logic over event time at a checkpoint."""

    def __init__(self, logic: TimedLogic) -> None:
        self.watermark_us = logic.watermark_us
        self.emitted_us = logic.emitted_us.copy()
        self.held_us = logic.held_us.copy()
        self.owed_s = logic.owed.work_s
        self.sent_off = logic.sent_off.copy()
        self.spans = [store.copy() for store in logic.spans]


class TimedLogic(Logic):
    """Base of logics over event time. watermark_us: event time up to which its work is done.

    held_us: for each migration under way, an event time that the watermark must not pass; tuples are taken meanwhile.
    spans: content by input. emitted_us: for key groups that came from another replica, the event time up to which that
    replica has handed over their windows. sent_off: state that is on its way to another replica, and comes back here if
    the job fails. late: number of the output for late records, which gets no results; None if late records are dropped.
    """

    ownership: Ownership
    """Owners of its operator's key groups; set when all tasks are there."""
    audit: WindowAudit

    def __init__(self, key_bytes: float, late: int | None = None) -> None:
        super().__init__()
        self.heeds = True
        self.late = late
        self.taken_in = SinkLogic()
        self.taken_in.repeats = False  # tuples taken in are no results to count again
        self.key_bytes = key_bytes
        self.watermark_us = -math.inf
        self.emitted_us: dict[int, float] = {}
        self.held_us: list[float] = []
        self.sent_off: list[State] = []
        self.spans: Sequence[SpanStore[Any]] = []
        self.index = 0
        self.owed = Owed()
        self.shippings: list[Shipping] = []

    # hooks of subclasses -------------------------------------------------------------------------------------------

    def reach(self, before_us: float, now_us: int) -> None:
        """Does the work that is due as the watermark moves from `before_us` to `now_us`."""
        raise NotImplementedError

    def modify(self, cut_us: int) -> None:
        """Makes a change that holds from event time `cut_us` on."""

    def open(self, store: SpanStore[Any]) -> Mapping[Any, SpanContent]:
        """Part of a store that has not been handed over."""
        return store.held

    def drop(self, gone: Leaves, since_us: int) -> None:
        """Drops the content of keys that are gone; another replica has all of it from `since_us` on."""
        for store in self.spans:
            for content in store.held.values():
                content.drop(gone)

    def past(self) -> bool:
        """Whether it still has content that was handed over and may be asked for again."""
        return False

    def stores_of(self, groups: KeyGroups) -> Sequence[SpanStore[Any]]:
        """New, empty stores of contents, one for each input."""
        raise NotImplementedError

    def belong(self, ownership: Ownership, audit: WindowAudit) -> None:
        """Starts work as one of its operator's replicas."""
        self.ownership, self.audit = ownership, audit
        self.spans = self.stores_of(ownership.keys)

    def come(self, sibling: TimedLogic, values: dict[str, float]) -> None:
        """Starts work beside a sibling. values: progress of its inputs, by kind of mark."""
        self.belong(sibling.ownership, sibling.audit)
        self.watermark_us = values.get(WATERMARK, -math.inf)

    # control items -------------------------------------------------------------------------------------------------

    def heed(self, mark: Mark) -> None:
        alignment = self.station.alignment
        assert alignment is not None
        if mark.kind == RELEASE:
            self.held_us.remove(mark.value)
            self.proceed()
            return
        assert mark.inbox is not None
        if not alignment.take(mark.inbox.side, mark):
            return
        least = alignment.least(mark.kind)
        if mark.kind == MODIFICATION:
            self.modify(int(least))
            self.station.output.mark(MODIFICATION, least)
        else:
            self.proceed()

    def release(self, held_us: float) -> None:
        """Lets the watermark rise again, behind the tuples that waited for a migration which is now over."""
        self.station.deliver(Mark(RELEASE, held_us, self.station.name, self.now_s))

    def proceed(self) -> None:
        """Raises the watermark to that of its inputs, unless a migration holds it back."""
        alignment = self.station.alignment
        assert alignment is not None
        least, before_us = min(alignment.least(WATERMARK), *self.held_us, math.inf), self.watermark_us
        if least <= before_us:
            return
        self.watermark_us = least
        self.reach(before_us, int(least))
        self.tell(int(least))
        self.emitted_us = {group: us for group, us in self.emitted_us.items() if us > least}

    def tell(self, watermark_us: int) -> None:
        """Announces the watermark to all consumers, behind all that was sent so far."""
        self.station.output.mark(WATERMARK, float(watermark_us))

    # late records ----------------------------------------------------------------------------------------------------

    @property
    def aside_s(self) -> float:
        """CPU seconds of sending a late record to the output for late records."""
        return 0.0 if self.late is None else self.station.output.ports[self.late].send_s

    def put_aside(self, record: Dated, at_s: float) -> None:
        """Drops a late record, or sends it to the output for late records."""
        self.audit.late.add(record.digest)
        if self.late is None:
            self.dropped += 1
        else:
            record.at_s = at_s
            self._leave(record, late=True)

    def send(self, result: Record) -> None:
        """Sends a result to all outputs but the one for late records."""
        if self.late is None:
            self.out.send(result)
        else:
            self._leave(result, late=False)

    def _leave(self, record: Record, *, late: bool) -> None:
        output = self.station.output
        output.send_by(record, [late == (number == self.late) for number in range(len(output.ports))])

    # failures --------------------------------------------------------------------------------------------------------

    def snapshot(self, again: bool) -> object:
        return TimedKept(self)

    def restore(self, kept: object, at_s: float) -> int:
        """Goes back to a checkpoint. State that was on its way to another replica is back, as migrations begin anew."""
        assert isinstance(kept, TimedKept)
        self.watermark_us, self.owed.work_s = kept.watermark_us, kept.owed_s
        self.emitted_us, self.held_us = kept.emitted_us.copy(), kept.held_us.copy()
        self.spans = [store.copy() for store in kept.spans]
        self.sent_off = []
        for state in kept.sent_off:
            self.give(state)
        return 0

    # state -----------------------------------------------------------------------------------------------------------

    @property
    def now_s(self) -> float:
        """Simulated time in seconds."""
        return float(self.station.env.now)

    @property
    def groups(self) -> KeyGroups:
        """Key groups of its operator."""
        return self.ownership.keys

    def know_keys(self, keys: KeyGroups, replica: int) -> None:
        self.index = replica

    def nothing(self) -> SpanContent:
        """Makes an empty content."""
        return SpanContent(self.groups)

    def held_bytes(self) -> float:
        return self.key_bytes * sum([content.keys for store in self.spans for content in self.open(store).values()])

    def bytes_of(self, wanted: Leaves) -> float:
        """Size in bytes of the state of the wanted keys that it has not handed over."""
        return self._parts(wanted).bytes

    def _parts(self, wanted: Leaves) -> State:
        stores = [{at: content.of_keys(wanted) for at, content in self.open(store).items()} for store in self.spans]
        return State(stores, self.key_bytes * sum([part.keys for store in stores for part in store.values()]))

    def take(self, share: float, leaves: Leaves | None = None) -> State:
        assert leaves is not None
        state = self._parts(leaves)
        for store in self.spans:
            for content in self.open(store).values():
                content.drop(leaves)
        return state

    def give(self, state: State) -> None:
        for store, parts in zip(self.spans, state.stores, strict=True):
            for place, part in parts.items():
                store.add(place, part)

    def held(self) -> float:
        """Number of tuples in its windows: always 0, as its state is counted in keys."""
        return 0.0

    def allowed(self, span: Span, content: SpanContent, own: bool) -> SpanContent:
        """Part of a span's content that it may hand over: without key groups whose windows another replica has handed
        over.

        own: only the key groups whose window it is responsible for.
        """
        refused = {group for group, us in self.emitted_us.items() if span.end <= us}
        if own:
            refused.update(np.flatnonzero(self.ownership.responsible(span) != self.index).tolist())
        if not refused:
            return content
        return content.only([group for group in range(len(self.groups)) if group not in refused])
