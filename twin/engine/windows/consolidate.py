"""Consolidates: operators that merge partial results by span, and form complete windows when all inputs are past them.

Windows are formed in work of their own, during which partial results wait. `Ownership` decides which windows of a key
group a replica emits.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from twin.engine.keys.groups import KeyGroups
from twin.engine.logic import Station
from twin.engine.output import EvaluationResult, Outlet
from twin.engine.record import Mark, Record
from twin.engine.windows.compute import results_of
from twin.engine.windows.panes import Dated, Partial, SpanContent
from twin.engine.windows.pieces import Pieces
from twin.engine.windows.watermark import WATERMARK, TimedLogic
from twin.panes import Panes, Span, completed
from twin.windows import EventWindow


class Complete(EvaluationResult):
    """Outcome of forming windows: windows that leave together, followed by their sender's watermark."""

    def __init__(self, windows: list[Dated], watermark_us: int, station: Station, out: Outlet) -> None:
        super().__init__([], out, [])
        self.windows = windows
        self.watermark_us = watermark_us
        self.station = station

    def leave(self, at_s: float) -> None:
        """Sends the windows and the watermark. The order in each channel stays: nothing later overtakes the windows,
        and they do not overtake the punctuation before them."""
        for window in self.windows:
            result = window.copy()  # a restart may send it again
            result.at_s = at_s
            self.out.send(result)
        for port in self.station.output.ports:
            port.mark(Mark(WATERMARK, float(self.watermark_us), self.station.name, at_s))


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
        """Takes a partial result. Nothing leaves before a window is complete."""
        assert isinstance(record, Partial) and record.inbox is not None
        self.add(record.inbox.side, record.span, record.content)

    def add(self, side: int, span: Span, content: SpanContent) -> None:
        """Takes in the results of an input over a span."""
        self.spans[side].add(self.panes.of(span), content)

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
            self.audit.emit(span, content)
            results += self._results(span, content, at_s)
        work_s += len(results) * (self.result_s + self.out.send_s)
        self.station.job(Complete(results, watermark_us, self.station, self.out), work_s)

    def _ship(self, span: Span, content: SpanContent, at_s: float) -> float:
        """Sends a window to the consolidates of longer windows."""
        if not self.shippings:
            return 0.0
        self.station.output.tuples_out += content.keys
        return sum([shipping.ship(span, content, at_s, self.index) for shipping in self.shippings])

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
