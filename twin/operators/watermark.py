"""Base of logics over event time: their watermark, which is held back while state is on its way to them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from twin.histograms import RESULT_TIME, WINDOW_TIME
from twin.operators.key_groups import KeyGroups
from twin.operators.logic import Logic, SinkLogic
from twin.operators.ownership import Owed, Ownership, Shipping
from twin.operators.panes import Dated, Missed, SpanContent, SpanStore, WindowNotes
from twin.operators.records import WATERMARK, Leaves, Mark, Record, State
from twin.windows import US_PER_S, Span

MODIFICATION, RELEASE = "modification", "release"


class Watch:
    """What operators look at over event time, of one subtask since they last looked: late records, and how far the
    watermark is behind the clock.

    dropped, aside: late records that were dropped, or sent to an output for them. known_s: seconds since the first
    watermark. lag_s: their sum of the lag, in seconds squared; worst_s: the largest lag.
    """

    def __init__(self) -> None:
        self.dropped = self.aside = 0
        self.known_s = self.lag_s = self.worst_s = self._since_s = 0.0

    def look(self, now_s: float, watermark_us: float) -> None:
        """Adds the time since the last look, in which the watermark was this one."""
        since_s, self._since_s = self._since_s, now_s
        if math.isfinite(watermark_us):
            lag_s = max(0.0, now_s - watermark_us / US_PER_S)
            self.known_s += now_s - since_s
            self.lag_s += (now_s - since_s) * max(0.0, lag_s - (now_s - since_s) / 2.0)
            self.worst_s = max(self.worst_s, lag_s)

    def clear(self) -> None:
        """Begins a new period."""
        self.dropped = self.aside = 0
        self.known_s = self.lag_s = self.worst_s = 0.0


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

    held_us: for each migration under way, an event time that the watermark must not pass; records are taken meanwhile.
    spans: content by input. emitted_us: for key groups that came from another subtask, the event time up to which that
    subtask has handed over their windows. sent_off: state that is on its way to another subtask, and comes back here if
    the job fails. late: number of the output for late records, which gets no results; None if late records are dropped.
    """

    ownership: Ownership
    """Owners of its operator's key groups; set when all tasks are there."""
    notes: WindowNotes

    def __init__(self, key_bytes: float, late: int | None = None) -> None:
        super().__init__()
        self.late = late
        self.taken_in = SinkLogic()
        self.taken_in.repeats = False  # records taken in are no results to count again
        self.key_bytes = key_bytes
        self.watermark_us = -math.inf
        self.emitted_us: dict[int, float] = {}
        self.held_us: list[float] = []
        self.sent_off: list[State] = []
        self.spans: Sequence[SpanStore[Any]] = []
        self.index = 0
        self.age_s = 0.0
        self.watch = Watch()
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
        """Drops the content of keys that are gone; another subtask has all of it from `since_us` on."""
        for store in self.spans:
            for content in store.held.values():
                content.drop(gone)

    def past(self) -> bool:
        """Whether it still has content that was handed over and may be asked for again."""
        return False

    def stores_of(self, groups: KeyGroups) -> Sequence[SpanStore[Any]]:
        """New, empty stores of contents, one for each input."""
        raise NotImplementedError

    def belong(self, ownership: Ownership, notes: WindowNotes) -> None:
        """Starts work as one of its operator's subtasks."""
        self.ownership, self.notes = ownership, notes
        self.spans = self.stores_of(ownership.keys)

    def come(self, sibling: TimedLogic, values: dict[str, float]) -> None:
        """Begins at the progress of a sibling. values: progress of its inputs, by kind of mark."""
        self.watch.look(self.now_s, -math.inf)
        self.watermark_us = values.get(WATERMARK, -math.inf)

    # control items -------------------------------------------------------------------------------------------------

    def heed(self, mark: Mark) -> None:
        alignment = self.station.alignment
        assert alignment is not None
        if mark.kind == RELEASE:
            self.held_us.remove(mark.value)
            self.proceed(alignment.least(WATERMARK))
            return
        assert mark.inbox is not None
        for kind, value in alignment.take(mark.inbox.side, mark):
            if kind == WATERMARK:
                self.proceed(value)
                if -math.inf < value < self.watermark_us:  # an input is awake again, and nobody is further
                    self.tell(int(self.watermark_us))
                continue
            if kind == MODIFICATION:
                self.modify(int(value))
            self.station.output.mark(kind, value)

    def release(self, held_us: float) -> None:
        """Lets the watermark rise again, behind the records that waited for a migration which is now over."""
        self.station.deliver(Mark(RELEASE, held_us, self.station.name, self.now_s))

    def proceed(self, inputs_us: float) -> None:
        """Raises the watermark to that of its inputs, unless a migration holds it back."""
        least, before_us = min(inputs_us, *self.held_us, math.inf), self.watermark_us
        if least <= before_us:
            return
        self.watch.look(self.now_s, before_us)
        self.watermark_us = least
        self.reach(before_us, int(least))
        self.tell(int(least))
        self.emitted_us = {group: us for group, us in self.emitted_us.items() if us > least}

    def tell(self, watermark_us: int) -> None:
        """Announces the watermark to all consumers, behind all that was sent so far."""
        self.station.output.mark(WATERMARK, float(watermark_us))

    def paid_s(self, work_s: float) -> float:
        """CPU seconds of a record: its own work, and as much of the work that is owed as fits beside its service."""
        return work_s + (self.owed.pay(self.station.service_s + work_s) if self.owed.work_s else 0.0)

    def not_handed_over(self) -> list[Missed]:
        """Partial results that it has not handed over yet."""
        return []

    # what is noted ---------------------------------------------------------------------------------------------------

    def send_ended(self, result: Dated, at_s: float) -> None:
        """Sends a result, at `at_s`, of a window that ended right behind its event time."""
        result.ready_s = (result.at_us + 1) / US_PER_S
        self.note_result(result.ready_s, result.taken_s, at_s)
        self.send(result)

    def note_result(self, ready_s: float, taken_s: float, at_s: float) -> None:
        """Notes how long the oldest record of a result waited until its window ended at `ready_s`, and then until the
        result left. It came when it had the mean age of the records that come now, as contents do not keep when."""
        if self.taken_in.count:
            self.age_s = self.taken_in.processing_sum_s / self.taken_in.count
        came_s = taken_s + self.age_s
        self.station.spend(WINDOW_TIME, ready_s - came_s)
        self.station.spend(RESULT_TIME, at_s - max(ready_s, came_s))

    def watched(self) -> Watch:
        """What operators look at over event time, up to now."""
        self.watch.look(self.now_s, self.watermark_us)
        return self.watch

    # late records ----------------------------------------------------------------------------------------------------

    @property
    def aside_s(self) -> float:
        """CPU seconds of sending a late record to the output for late records."""
        return 0.0 if self.late is None else self.station.output.ports[self.late].send_s

    def put_aside(self, record: Dated, at_s: float) -> None:
        """Drops a late record, or sends it to the output for late records."""
        self.notes.late.append(record.digest)
        if self.late is None:
            self.dropped += 1
            self.watch.dropped += 1
        else:
            self.watch.aside += 1
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
        """Goes back to a checkpoint. State that was on its way to another subtask is back, as migrations begin anew."""
        assert isinstance(kept, TimedKept)
        self.watch.look(self.now_s, self.watermark_us)
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

    def know_keys(self, keys: KeyGroups, subtask: int) -> None:
        self.index = subtask

    def nothing(self) -> SpanContent:
        """Makes an empty content."""
        return SpanContent(self.groups)

    def bytes_in(self, contents: Mapping[Any, SpanContent]) -> float:
        """Size in bytes of contents by place in a store."""
        return self.key_bytes * sum([content.keys for content in contents.values()])

    def held_bytes(self) -> float:
        return sum([self.bytes_in(self.open(store)) for store in self.spans], 0.0)

    def changed_bytes(self, came: int) -> float:
        """Size of what the last records changed, at most: each has changed the state of one key."""
        return min(self.held_bytes(), came * (self.key_bytes or self.record_bytes()))

    def bytes_of(self, wanted: Leaves) -> float:
        """Size in bytes of the state of the wanted keys that it has not handed over."""
        return self._parts(wanted).bytes

    def _parts(self, wanted: Leaves) -> State:
        stores = [{at: content.of_keys(wanted) for at, content in self.open(store).items()} for store in self.spans]
        return State(stores, sum(map(self.bytes_in, stores), 0.0))

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
        """Number of records in its windows: always 0, as its state is counted in keys."""
        return 0.0

    def allowed(self, span: Span, content: SpanContent, own: bool) -> SpanContent:
        """Part of a span's content that it may hand over: without key groups whose windows another subtask has handed
        over.

        own: only the key groups whose window it is responsible for.
        """
        refused = self.refused(span) if own else self._handed_over(span)
        if not refused:
            return content
        return content.only([group for group in range(len(self.groups)) if group not in refused])

    def refused(self, span: Span) -> set[int]:
        """Key groups whose windows over a span are another subtask's, or were handed over by one."""
        return self._handed_over(span) | set(np.flatnonzero(self.ownership.responsible(span) != self.index).tolist())

    def _handed_over(self, span: Span) -> set[int]:
        return {group for group, us in self.emitted_us.items() if span.end <= us}
