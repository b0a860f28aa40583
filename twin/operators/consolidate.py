"""Consolidates: operators that merge partial results by span, and form complete windows."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence

from twin.operators.compute import results_of
from twin.operators.key_groups import KeyGroups
from twin.operators.panes import Dated, Partial, SpanContent, SpanStore
from twin.operators.records import WATERMARK, EvaluationResult, Mark, Record
from twin.operators.watermark import TimedLogic
from twin.windows import EventWindow, Panes, Span, completed, form

# pieces --------------------------------------------------------------------------------------------------------------
# Pieces of one input of a consolidate: partial results or shorter complete windows, by span in the consolidate's
# panes.
#
# All windows that end together are formed in one pass (Enorm, Section 6.1). Windows that were formed before count as
# pieces when the work of merging is computed; the content of a window is the sum of its panes.


Merged = dict[Span, tuple[SpanContent, float, int]]
"""Formed windows: the content of each, the number of keys in its pieces, and the number of pieces."""


class Pieces(SpanStore[Span]):
    """Store of the pieces of one input. Spans count panes. windows: complete windows that the input sends, which may
    overlap; none if it sends panes."""

    def __init__(self, groups: KeyGroups, panes: Panes, windows: tuple[EventWindow, ...] = ()) -> None:
        super().__init__(groups)
        self.panes = panes
        self.windows = windows
        self._ends: defaultdict[int, set[int]] = defaultdict(set)
        self._keys: dict[Span, int] = {}  # number of keys, by formed window and counted piece

    @property
    def first(self) -> int | None:
        """Beginning of the earliest piece; None without pieces."""
        return min(self.held).start if self.held else None

    def add(self, place: Span, content: SpanContent) -> None:
        """Merges content into a piece; empty content makes no piece."""
        if content.keys:
            if place not in self.held:
                self._ends[place.start].add(place.end)
            super().add(place, content)
            self._keys.pop(place, None)

    def copy(self) -> Pieces:
        again = super().copy()
        again._ends = defaultdict(set, {start: ends.copy() for start, ends in self._ends.items()})
        again._keys = self._keys.copy()
        return again

    def forget(self, before: int) -> None:
        """Drops pieces that begin before a pane, as they are in no window any more."""
        for span in [span for span in self.held if span.start < before]:
            del self.held[span]
        for start in [start for start in self._ends if start < before]:
            del self._ends[start]
        self._keys = {span: keys for span, keys in self._keys.items() if span.start >= before}

    # forming ---------------------------------------------------------------------------------------------------------

    def form(self, due: list[Span]) -> Merged:
        """Forms windows that end together. Pieces that were not sent count as empty."""
        first, end = min(span.start for span in due), due[0].end
        for span in self._sent(first, end):
            self._ends[span.start].add(span.end)
        contents = {window: self._over(window) for window in due}
        # Windows are pieces of longer ones that end with them, so their keys are known beforehand.
        self._keys |= {window: content.keys for window, content in contents.items() if window not in self.held}
        merged: Merged = {}
        for formation in form(due, self._ends, self._keys_of):
            there = [piece for piece in formation.pieces if self._keys_of(piece)]
            merged[formation.window] = contents[formation.window], formation.keys if len(there) > 1 else 0, len(there)
        for window in merged:
            self._ends[window.start].add(window.end)
        return merged

    def _sent(self, first: int, end: int) -> list[Span]:
        """Spans within these panes over which the input sends results."""
        if not self.windows:
            return [Span(pane, pane + 1) for pane in range(first, end)]
        since_us, end_us = self.panes.bounds(first).start, self.panes.bounds(end).start
        spans = [self.panes.of(span) for window in self.windows for span in completed(window, since_us, end_us)]
        return [span for span in spans if span.start >= first]

    def _keys_of(self, span: Span) -> int:
        keys = self._keys.get(span)
        if keys is None:
            content = self.held.get(span)
            keys = self._keys[span] = content.keys if content is not None else 0
        return keys

    def _over(self, window: Span) -> SpanContent:
        """Content of a window: the sum of the pieces that tile it."""
        total = SpanContent(self.groups)
        if window in self.held:
            total.merge(self.held[window])
            return total
        spans: Sequence[Span] = self._sent(*window)
        if self.windows:
            sent: dict[int, list[int]] = {}
            for span in spans:
                sent.setdefault(span.start, []).append(span.end)
            spans = form([window], sent)[0].pieces
        for span in spans:
            content = self.held.get(span)
            if content is not None:
                total.merge(content)
        return total


# consolidates --------------------------------------------------------------------------------------------------------
# Consolidates: operators that merge partial results by span, and form complete windows when all inputs are past them.
#
# Windows are formed in work of their own, during which partial results wait. `Ownership` decides which windows of a
# key group a subtask emits.


class Complete(EvaluationResult):
    """Outcome of forming windows: windows that leave together, followed by their sender's watermark."""

    def __init__(self, windows: list[Dated], watermark_us: int, logic: ConsolidateLogic) -> None:
        super().__init__([], logic.out, [])
        self.windows = windows
        self.watermark_us = watermark_us
        self.logic = logic

    def leave(self, at_s: float) -> None:
        """Sends the windows and the watermark. The order in each channel stays: nothing later overtakes the windows,
        and they do not overtake the punctuation before them."""
        for window in self.windows:
            result = window.copy()  # a restart may send it again
            assert isinstance(result, Dated)
            result.at_s = at_s
            self.logic.send_ended(result, at_s)
        station = self.logic.station
        for port in station.output.ports:
            port.mark(Mark(WATERMARK, float(self.watermark_us), station.name, at_s))


class ConsolidateLogic(TimedLogic):
    """Logic of a consolidate. sides: for each input, the complete windows that it sends; none if it sends panes. spans:
    pieces by input. formed: number of windows so far. merged, merged_keys: number of pieces that these were made of,
    and of keys in the pieces.
    """

    spans: Sequence[Pieces]

    def __init__(
        self,
        *,
        panes: Panes,
        windows: tuple[EventWindow, ...],
        sides: list[tuple[EventWindow, ...]],
        merge_s: float,
        result_s: float,
        results_per_key: float,
        key_bytes: float,
    ) -> None:
        super().__init__(key_bytes)
        self.panes = panes
        self.windows = windows
        self.sides = sides
        self.longest_us = max(window.length_us for window in windows)
        self.merge_s = merge_s
        self.result_s = result_s
        self.results_per_key = results_per_key
        self.formed = 0
        self.merged = 0
        self.merged_keys = 0.0

    def stores_of(self, groups: KeyGroups) -> list[Pieces]:
        return [Pieces(groups, self.panes, windows) for windows in self.sides]

    # partial results --------------------------------------------------------------------------------------------------

    def plan(self, record: Record) -> float:
        """Returns the CPU seconds of the sending thread's work meanwhile; merging the result is the service itself."""
        return self.owed.pay(self.station.service_s) if self.owed.work_s else 0.0

    def emit(self, record: Record, at_s: float) -> None:
        """Takes a partial result. Nothing leaves before a window is complete. One that comes when a window is over, as
        nobody waits for a sender that is idle, counts in the windows that are to come, as in Flink."""
        assert isinstance(record, Partial) and record.inbox is not None
        self.add(record.inbox.side, record.span, record.content, self.spans)

    def add(self, side: int, span: Span, content: SpanContent, spans: Sequence[Pieces]) -> None:
        """Takes the results of an input over a span into `spans`: its own, or those of a checkpoint."""
        if span.end <= self.watermark_us and spans is self.spans:
            self.notes.missed += [(span.start, span.end, key) for key in content.held]
        spans[side].add(self.panes.of(span), content)

    # windows ----------------------------------------------------------------------------------------------------------

    def reach(self, before_us: float, now_us: int) -> None:
        """Starts the work of forming the windows that are due; its outcome then tells the consumers."""
        since_us = before_us
        if before_us == -math.inf:
            starts = [first for pieces in self.spans if (first := pieces.first) is not None]
            since_us = float(min([now_us, *[self.panes.bounds(first).start for first in starts]]))
        ready, work_s = self._due(int(since_us), now_us)
        self._forget(now_us)
        self._form(ready, work_s)

    def tell(self, watermark_us: int) -> None:
        """Does nothing: `Complete` tells the consumers when the windows have left."""

    def _due(self, since_us: int, now_us: int) -> tuple[list[tuple[Span, SpanContent]], float]:
        """Windows that have become complete, with the content of its own key groups, and the work of forming them."""
        due: dict[int, set[Span]] = {}
        for window in self.windows:
            for span in completed(window, since_us, now_us):
                due.setdefault(span.end, set()).add(span)
        complete, work_s = list[tuple[Span, SpanContent]](), 0.0
        for end_us in sorted(due):
            ready, merging_s = self._ending(sorted(due[end_us], key=lambda span: -span.start))
            complete += ready
            work_s += merging_s
        return complete, work_s

    def _ending(self, spans: list[Span]) -> tuple[list[tuple[Span, SpanContent]], float]:
        """Windows that end together, with the content of its own key groups, and the work of forming them."""
        windows = [self.panes.of(span) for span in spans]
        formed = [pieces.form(windows) for pieces in self.spans]
        complete, work_s = list[tuple[Span, SpanContent]](), 0.0
        for window, span in zip(windows, spans, strict=True):
            total = self.nothing()
            for by_window in formed:
                content, keys, count = by_window[window]
                total.merge(content)
                work_s += keys * self.merge_s
                self.merged += count
                self.merged_keys += keys
            mine = self.allowed(span, total, own=True)
            if mine.keys:
                complete.append((span, mine))
        return complete, work_s

    def _form(self, ready: list[tuple[Span, SpanContent]], work_s: float) -> None:
        """Starts the work, after which the windows and the watermark leave."""
        at_s = self.now_s
        results = list[Dated]()
        watermark_us = int(self.watermark_us)
        for span, content in ready:
            self.formed += 1
            work_s += self._ship(span, content, at_s)
            self.notes.emit(span, content)
            results += self._results(span, content, at_s)
        work_s += len(results) * (self.result_s + self._sending_s)
        self.station.job(Complete(results, watermark_us, self), work_s)

    def _ship(self, span: Span, content: SpanContent, at_s: float) -> float:
        """Sends a window to the consolidates of longer windows."""
        if not self.shippings:
            return 0.0
        self.station.output.records_out += content.keys
        for port, as_records in zip(self.station.output.ports, self._ways, strict=True):
            if as_records:
                port.passed_over += content.keys
        return sum([shipping.ship(span, content, at_s, self.index) for shipping in self.shippings])

    @property
    def _ways(self) -> list[bool]:
        """For each output, whether results leave by it as records. To consolidates they are shipped."""
        shipped = [shipping.port for shipping in self.shippings]
        return [port not in shipped for port in self.station.output.ports]

    @property
    def _sending_s(self) -> float:
        """CPU seconds of sending a result as a record."""
        if not self.shippings:
            return self.out.send_s
        ports = self.station.output.ports
        return sum(port.send_s for port, as_records in zip(ports, self._ways, strict=True) if as_records)

    def send(self, result: Record) -> None:
        """Sends a result to all consumers that are not consolidates."""
        if self.shippings:
            self.station.output.send_by(result, self._ways)
        else:
            self.out.send(result)

    def _results(self, span: Span, content: SpanContent, at_s: float) -> list[Dated]:
        """Results of a window for all consumers that are not consolidates."""
        if self.shippings and len(self.shippings) == len(self.station.output.ports):
            return []
        n = content.keys
        if self.results_per_key != 1.0:
            n = self.station.draws.rounded(n * self.results_per_key)
        return results_of(span, content, n, at_s)

    def _forget(self, now_us: int) -> None:
        before = self.panes.pane(now_us - self.longest_us)
        for pieces in self.spans:
            pieces.forget(before)
