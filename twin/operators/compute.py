"""Operators that keep state by key over event time until the watermark has passed: computes, by panes of windows, and
sessions."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, replace
from heapq import heapify, heappop, heappush
from typing import Any

from twin.operators.key_groups import KeyGroups
from twin.operators.logic import SinkLogic
from twin.operators.panes import WINDOWS, Dated, Forms, Missed, SpanContent, SpanStore
from twin.operators.records import Leaves, Record, State
from twin.operators.watermark import MODIFICATION, TimedLogic
from twin.windows import US_PER_S, EventWindow, Holds, Panes, Span, completed, covering, instances_with, last_end

# computes ------------------------------------------------------------------------------------------------------------
# Computes: operators that keep state by key and pane of event time, and hand it over in one of two forms (Enorm, Fig.
# 5).
#
# In either form, the simulation adds a record once, to its pane; the form decides on costs and on what is sent. With
# one state for each pane, the user's logic is executed once for each record, and panes are sent. With one state for
# each window, it is executed for each window that the record is in, and windows are sent when they are complete.


class ComputeLogic(TimedLogic):
    """Logic of a compute. panes: the panes that it keeps; None: it is eager, keeps no state and sends records on.
    windows: the windows that are made of the panes. results: whether it emits these windows itself. by_window: whether
    a record is late when its last window has ended, not its pane. lateness_us: for how long it counts after that; each
    window that has been emitted is then emitted again for its key. holds: what its state is as large as, though panes
    are what it keeps here. scan_s, result_s: CPU seconds of a record that an evaluation looks at, and of a result."""

    def __init__(
        self,
        *,
        panes: Panes | None,
        windows: tuple[EventWindow, ...],
        results: bool,
        sharing: str,
        execute_s: float,
        result_s: float,
        key_bytes: float,
        late: int | None = None,
        by_window: bool = False,
        lateness_us: int = 0,
        holds: Holds = "slices",
        scan_s: float = 0.0,
    ) -> None:
        super().__init__(key_bytes, late)
        self.holds = holds
        self.panes = panes
        self.eager = panes is None
        self.windows = windows
        self.results = results
        self.by_window = by_window
        self.lateness_us = lateness_us
        self.execute_s = execute_s
        self.result_s = result_s
        self.scan_s = scan_s
        self.forms = Forms(panes, windows, sharing)

    def sink(self) -> SinkLogic | None:
        """Sink that measures the age of records when they reach its state; None if it is eager."""
        return None if self.eager else self.taken_in

    def stores_of(self, groups: KeyGroups) -> list[SpanStore[int]]:
        """One store of contents by pane; none if it is eager."""
        return [] if self.panes is None else [SpanStore(groups)]

    # records
    # -----------------------------------------------------------------------------------------------------------

    def plan(self, record: Record) -> float:
        """Returns the CPU seconds of the user's logic for each state, and of the sending thread's work meanwhile."""
        assert isinstance(record, Dated)
        work_s = self.out.send_s if self.eager else 0.0
        if self.is_late(record):
            work_s += self.aside_s
        elif self.execute_s > 0.0:
            work_s += self.execute_s * self.forms.executions(record.at_us)
        return self.paid_s(work_s)

    def is_late(self, record: Dated) -> bool:
        """Whether a record counts in no window any more that is to come. Of a record behind the watermark, this is so
        where its pane, or all of its windows, are over."""
        if record.at_us >= self.watermark_us:
            return False
        return not self.by_window or last_end(self.windows, record.at_us) + self.lateness_us <= self.watermark_us

    def emit(self, record: Record, at_s: float) -> None:
        """Adds the record to the state; an eager subtask, which keeps none, sends the record on."""
        assert isinstance(record, Dated)
        if self.panes is None:
            self.notes.keep(record, self.watermark_us)
            super().emit(record, at_s)
        elif self.is_late(record):
            self.put_aside(record, at_s)
        else:
            self.notes.keep(record, self.watermark_us)
            self.taken_in.emit(record, at_s)
            content = self.spans[0].at(self.panes.pane(record.at_us))
            content.add(record.key, (1, record.digest, record.born_s, record.taken_s))
            if self.lateness_us and record.at_us < self.watermark_us:
                self._emit_again(record)

    def _emit_again(self, late: Dated) -> None:
        """Emits the windows that a late record changes once more, for its key."""
        spans = (span for window in self.windows for span in covering(window, late.at_us))
        for span in spans:
            if self.watermark_us - self.lateness_us < span.end <= self.watermark_us:
                content = self.over(span).of_keys(lambda key: key == late.key)
                self.owed.work_s += self.result_s + self.out.send_s - self.aside_s
                for result in results_of(span, content, content.keys, self.now_s):
                    self.send_ended(result, self.now_s)

    def modify(self, cut_us: int) -> None:
        """Changes the form for windows that begin at `cut_us` or later."""
        self.forms.modify(cut_us)

    # punctuations -----------------------------------------------------------------------------------------------------

    def reach(self, before_us: float, now_us: int) -> None:
        """Sends all panes and windows that have become complete."""
        if self.panes is None:
            return
        since_us = now_us if before_us == -math.inf else int(before_us)
        first = min(self.spans[0].held, default=None)
        if before_us == -math.inf and first is not None:
            since_us = min(now_us, self.panes.bounds(first).start)
        work_s = 0.0
        for span in self._due(since_us, now_us):
            content = self.allowed(span, self.over(span), own=self.results)
            if content.keys:
                work_s += self._hand_over(span, content)
        self._forget(now_us)
        if not self.results:
            self.owed.work_s += work_s

    def _due(self, since_us: int, now_us: int) -> list[Span]:
        """Spans to hand over, in the order of their ends."""
        assert self.panes is not None
        spans = set[Span]()
        if not self.results:
            held = [self.panes.bounds(pane) for pane in self.spans[0].held]
            spans.update(span for span in held if since_us < span.end <= now_us and self.forms.by_panes(span))
        if self.results or self.forms.any_windows():
            held_us = [self.panes.bounds(pane).start for pane in self.spans[0].held]
            for window in self.windows:
                due = completed(window, since_us, now_us, held_us)
                spans.update(span for span in due if self.results or self.forms.at(span.start) == WINDOWS)
        return sorted(spans, key=lambda span: (span.end, -span.start))

    def over(self, span: Span) -> SpanContent:
        """Content of all panes in a span, merged."""
        assert self.panes is not None
        first, end = self.panes.of(span)
        merged, held = self.nothing(), self.spans[0].held
        panes = range(first, end)
        for pane in panes if len(panes) <= len(held) else sorted(pane for pane in held if pane in panes):
            content = held.get(pane)
            if content is not None:
                merged.merge(content)
        return merged

    def _hand_over(self, span: Span, content: SpanContent) -> float:
        if self.results:
            self._emit_results(span, content)
            return 0.0
        self.station.output.records_out += content.keys
        for _, _, _, taken_s in content.held.values():
            self.note_result(span.end / US_PER_S, taken_s, self.now_s)
        return sum([shipping.ship(span, content, self.now_s, self.index) for shipping in self.shippings])

    def _emit_results(self, span: Span, content: SpanContent) -> None:
        """Sends complete windows as records; as for partial results, the sending thread does the work."""
        self.owed.work_s += content.keys * (self.result_s + self.out.send_s - self.aside_s)
        if self.scan_s:
            self.owed.work_s += content.records * self.scan_s
        for result in results_of(span, content, content.keys, self.now_s):
            self.send_ended(result, self.now_s)
        self.notes.emit(span, content)

    def _forget(self, now_us: int) -> None:
        """Drops panes that are in no window any more; until then consolidates may ask for them again."""
        assert self.panes is not None
        held = self.spans[0].held
        for pane in [pane for pane in held if self._over_us(pane) <= now_us]:
            del held[pane]
        self.forms.forget(now_us)

    # state ------------------------------------------------------------------------------------------------------------

    def _over_us(self, pane: int) -> int:
        """Event time from which on a pane is in no window any more."""
        assert self.panes is not None
        return last_end(self.windows, self.panes.bounds(pane).start) + self.lateness_us

    def open(self, store: SpanStore[Any]) -> Mapping[Any, SpanContent]:
        assert self.panes is not None
        by_window, bounds = self.results or self.forms.any_windows(), self.panes.bounds
        return {
            pane: content
            for pane, content in store.held.items()
            if (self._over_us(pane) if by_window else bounds(pane).end) > self.watermark_us
        }

    def not_handed_over(self) -> list[Missed]:
        if self.panes is None or self.results:
            return []
        spans = ((self.panes.bounds(pane), content) for pane, content in self.open(self.spans[0]).items())
        return [(span.start, span.end, key) for span, content in spans for key in content.held]

    def bytes_in(self, contents: Mapping[Any, SpanContent]) -> float:
        """Size in bytes of contents by pane: of records, or of accumulators by key, in each pane or open window."""
        if self.holds == "slices":
            return super().bytes_in(contents)
        if self.holds == "accumulators":
            return self.key_bytes * sum([self._accumulators(contents, window) for window in self.windows])
        counts = [content.records * self._copies(pane) for pane, content in contents.items()]
        return self.record_bytes() * sum(counts)

    def _open_with(self, window: EventWindow, pane: int) -> range:
        """Numbers of the instances of a window that a pane is in, and for which a record still counts."""
        assert self.panes is not None
        return instances_with(window, self.panes.bounds(pane).start, self.watermark_us - self.lateness_us)

    def _copies(self, pane: int) -> int:
        """How often each record of a pane is held."""
        return 1 if self.holds == "records" else sum([len(self._open_with(window, pane)) for window in self.windows])

    def _accumulators(self, contents: Mapping[Any, SpanContent], window: EventWindow) -> int:
        """Number of pairs of a key and an open instance of a window that has a record of it."""
        count, counted = 0, dict[int, int]()
        for pane in sorted(contents):
            instances = self._open_with(window, pane)
            for key in contents[pane].held:
                count += instances.stop - max(instances.start, counted.get(key, instances.start))
                counted[key] = instances.stop
        return count

    def changed_bytes(self, came: int) -> float:
        """Size of what the last records changed: what is in the newest panes, as records come nearly in the order of
        their times. Of a pane that has more of them, keys that so many of its records find if all are alike."""
        contents = {pane: each for store in self.spans for pane, each in self.open(store).items()}
        changed, copies = dict[int, SpanContent](), 0
        for pane in sorted(contents, reverse=True):
            records, keys = contents[pane].records, contents[pane].keys
            now = min(came, records)
            copies += now * self._copies(pane)
            changed[pane] = contents[pane].part(round(keys * (1.0 - (1.0 - now / records) ** (records / keys))))
            came -= now
            if not came:
                break
        return copies * self.record_bytes() if self.holds in ("records", "copies") else self.bytes_in(changed)

    def drop(self, gone: Leaves, since_us: int) -> None:
        """Drops the content of these keys in panes that begin at `since_us` or later."""
        for store in self.spans:
            for pane, content in store.held.items():
                if self.panes is not None and self.panes.bounds(pane).start >= since_us:
                    content.drop(gone)

    def snapshot(self, again: bool) -> object:
        """State of a logic over event time, and the forms."""
        return super().snapshot(again), self.forms.since.copy()

    def restore(self, kept: object, at_s: float) -> int:
        assert isinstance(kept, tuple)
        self.forms.become(kept[1])
        return super().restore(kept[0], at_s)

    def past(self) -> bool:
        """Whether it still has content of panes, which stays until these are in no window any more."""
        return any(content.keys for store in self.spans for content in store.held.values())

    def come(self, sibling: TimedLogic, values: dict[str, float]) -> None:
        """Starts work beside a sibling, with the sibling's forms."""
        super().come(sibling, values)
        assert isinstance(sibling, ComputeLogic)
        self.forms.come(sibling.forms, values.get(MODIFICATION, -math.inf))

    def sent_spans(self, groups: list[int], since_us: int) -> dict[Span, SpanContent]:
        """Contents of some key groups that it handed over and still has, for spans that end after `since_us`."""
        if self.panes is None or self.watermark_us == -math.inf:
            return {}
        before_us = int(self.watermark_us)
        return {span: self.over(span).only(groups) for span in self._due(min(since_us, before_us), before_us)}


def results_of(span: Span, content: SpanContent, n: int, at_s: float) -> list[Dated]:
    """Makes n results of a window, at its last event time: one a key, or n that are as old as the keys' average."""
    if n == content.keys:
        stamps = [content.held[key][2:] for key in sorted(content.held)]
    else:
        stamps = [content.stamps()] * n
    return [Dated(born_s, taken_s, at_s, span.end - 1) for born_s, taken_s in stamps]


# sessions ------------------------------------------------------------------------------------------------------------
# Sessions over event time: the records of a key between two silences of their own times, after Flink's
# `EventTimeSessionWindows`.


@dataclass(slots=True)
class Session:
    """Session of a key, over event times from start_us up to end_us, which is a gap after its last record. born_s,
    taken_s: when the oldest record was born and taken in. fired: whether its result has left."""

    start_us: int
    end_us: int
    born_s: float
    taken_s: float
    fired: bool = False


Kept = list[tuple[int, Session]]
"""Sessions with their keys, as they move and are kept by checkpoints."""


class TimedSessionLogic(TimedLogic):
    """Logic of sessions over event time. A record begins a session, or joins those that it touches to one. A session's
    result leaves when the watermark reaches its end; records that come within lateness_us after that let it leave once
    more. due: event times at which something is due, and their keys, the earliest first."""

    def __init__(self, *, gap_us: int, lateness_us: int, result_s: float, key_bytes: float, late: int | None) -> None:
        super().__init__(key_bytes, late)
        self.gap_us = gap_us
        self.lateness_us = lateness_us
        self.result_s = result_s
        self.by_key: defaultdict[int, list[Session]] = defaultdict(list)
        self.due_us: list[tuple[int, int]] = []

    def stores_of(self, groups: KeyGroups) -> list[SpanStore[int]]:
        """No stores by span, as sessions have ends of their own."""
        return []

    def sink(self) -> SinkLogic:
        """Sink that measures the age of records when they are taken in."""
        return self.taken_in

    # records ---------------------------------------------------------------------------------------------------------

    def plan(self, record: Record) -> float:
        """Returns the CPU seconds of sending a late record aside, and of results that are still to be paid for."""
        assert isinstance(record, Dated)
        late = record.at_us < self.watermark_us and self._joined(record).end_us + self.lateness_us <= self.watermark_us
        return self.paid_s(self.aside_s if late else 0.0)

    def _touched(self, record: Dated) -> list[Session]:
        start_us, end_us = record.at_us, record.at_us + self.gap_us
        return [each for each in self.by_key.get(record.key, ()) if each.start_us <= end_us and start_us <= each.end_us]

    def _joined(self, record: Dated) -> Session:
        """The session that a record and all sessions that it touches are together."""
        touched = self._touched(record)
        oldest = min([(each.born_s, each.taken_s) for each in touched], default=(record.born_s, record.taken_s))
        return Session(
            min([record.at_us, *[each.start_us for each in touched]]),
            max([record.at_us + self.gap_us, *[each.end_us for each in touched]]),
            *min(oldest, (record.born_s, record.taken_s)),
        )

    def emit(self, record: Record, at_s: float) -> None:
        """Puts a record into its session, unless that was over long ago."""
        assert isinstance(record, Dated)
        joined = self._joined(record)
        if joined.end_us + self.lateness_us <= self.watermark_us:
            self.put_aside(record, at_s)
            return
        self.notes.keep(record, self.watermark_us)
        self.taken_in.emit(record, at_s)
        touched = self._touched(record)
        self.by_key[record.key] = [each for each in self.by_key[record.key] if each not in touched]
        self._hold(record.key, joined)
        if joined.end_us <= self.watermark_us:
            self._fire(record.key, joined)

    def _hold(self, key: int, session: Session) -> None:
        self.by_key[key].append(session)
        heappush(self.due_us, (session.end_us, key))
        if self.lateness_us:
            heappush(self.due_us, (session.end_us + self.lateness_us, key))

    def reach(self, before_us: float, now_us: int) -> None:
        """Sends the results of sessions that are over, and forgets those for which no late record counts any more."""
        while self.due_us and self.due_us[0][0] <= now_us:
            at_us, key = heappop(self.due_us)
            for session in self.by_key.get(key, ()):
                if session.end_us == at_us and not session.fired:
                    self._fire(key, session)
            open_now = [each for each in self.by_key.get(key, ()) if each.end_us + self.lateness_us > at_us]
            if open_now:
                self.by_key[key] = open_now
            else:
                self.by_key.pop(key, None)

    def _fire(self, key: int, session: Session) -> None:
        session.fired = True
        self.finished += 1
        result = Dated(session.born_s, session.taken_s, self.now_s, session.end_us - 1)
        result.key = key
        self.owed.work_s += self.result_s + self.out.send_s - self.aside_s
        self.send_ended(result, self.now_s)

    # what it holds ---------------------------------------------------------------------------------------------------

    def _all(self) -> Kept:
        return [(key, replace(each)) for key, sessions in self.by_key.items() for each in sessions]

    def _become(self, kept: Kept) -> None:
        self.by_key.clear()
        self.due_us = []
        for key, session in kept:
            self._hold(key, replace(session))
        heapify(self.due_us)

    def snapshot(self, again: bool) -> object:
        return super().snapshot(again), self._all(), self.finished

    def restore(self, kept: object, at_s: float) -> int:
        assert isinstance(kept, tuple)
        self._become(kept[1])
        self.finished = kept[2]
        return super().restore(kept[0], at_s)

    def unfinished(self) -> int:
        return sum([not session.fired for _, session in self._all()])

    def held_bytes(self) -> float:
        return self.key_bytes * sum([len(sessions) for sessions in self.by_key.values()])

    def bytes_of(self, wanted: Leaves) -> float:
        return self.key_bytes * sum([wanted(key) for key, _ in self._all()])

    def take(self, share: float, leaves: Leaves | None = None) -> State:
        assert leaves is not None
        there, goes = self._all(), {key: leaves(key) for key in list(self.by_key)}
        gone: Any = [each for each in there if goes[each[0]]]
        self._become([each for each in there if not goes[each[0]]])
        return State([gone], self.key_bytes * len(gone))

    def give(self, state: State) -> None:
        for stores in state.stores:
            self._become([*self._all(), *stores])

    def stores(self) -> int:
        return 1
