"""Pieces of one input of a consolidate: partial results or shorter complete windows, by span in the consolidate's
panes.

All windows that end together are formed in one pass (Enorm, Section 6.1). Windows that were formed before count as
pieces when the work of merging is computed; the content of a window is the sum of its panes.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from twin.engine.keys.groups import KeyGroups
from twin.engine.windows.panes import SpanContent, SpanStore
from twin.formations import form
from twin.panes import Panes, Span, completed
from twin.windows import EventWindow

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
        merged: Merged = {}
        for formation in form(due, self._ends, self._keys_of):
            there = [piece for piece in formation.pieces if self._keys_of(piece)]
            merged[formation.window] = self._over(formation.window), formation.keys if len(there) > 1 else 0, len(there)
        for window, (content, _, _) in merged.items():
            self._ends[window.start].add(window.end)
            if window not in self.held:
                self._keys[window] = content.keys
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
