"""What a consolidate has of one input: partial results, or shorter complete windows, by span, in panes of its own.

All windows that end together are formed in one pass (Enorm, Section 6.1): what is merged for them is counted with the
windows that were formed before as pieces; what they hold is the sum of the panes.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from twin.engine.windows.panes import Content
from twin.formations import form
from twin.panes import Panes, Span, completed
from twin.windows import EventWindow

Merged = dict[Span, tuple[Content, float, int]]
"""By window: what it holds, keys of the pieces that it is made of, and how many pieces those are."""


class Pieces:
    """Spans count panes. windows: of those who send complete windows, which may overlap; none: panes are sent."""

    def __init__(self, nothing: Content, panes: Panes, windows: tuple[EventWindow, ...] = ()) -> None:
        self.nothing = nothing
        self.panes = panes
        self.windows = windows
        self._held: dict[Span, Content] = {}
        self._ends: defaultdict[int, set[int]] = defaultdict(set)
        self._keys: dict[Span, int] = {}  # of windows formed, and of pieces whose keys were counted

    @property
    def first(self) -> int | None:
        """Where the earliest piece begins."""
        return min(self._held).start if self._held else None

    @property
    def keys(self) -> int:
        """In all pieces."""
        return sum([content.keys for content in self._held.values()])

    def add(self, span: Span, content: Content) -> None:
        """Part of a piece has come: other senders may have more of it."""
        held = self._held.get(span)
        if held is None:
            held = self._held[span] = content.only(())
            self._ends[span.start].add(span.end)
        held.merge(content)
        self._keys.pop(span, None)

    def copy(self) -> Pieces:
        """The same, which changes apart."""
        again = Pieces(self.nothing, self.panes, self.windows)
        again._held = {span: content.copy() for span, content in self._held.items()}
        again._ends.update((start, ends.copy()) for start, ends in self._ends.items())
        again._keys = self._keys.copy()
        return again

    def take(self, groups: list[int]) -> dict[Span, Content]:
        """Takes key groups out of all pieces."""
        taken = self.of(groups)
        self.drop(groups)
        return taken

    def of(self, groups: list[int]) -> dict[Span, Content]:
        """What there is of key groups."""
        found = {span: content.only(groups) for span, content in self._held.items()}
        return {span: content for span, content in found.items() if content.keys}

    def drop(self, groups: list[int]) -> None:
        """Without these key groups."""
        for content in self._held.values():
            content.drop(groups)

    def forget(self, before: int) -> None:
        """What begins before a pane is in no window any more."""
        for span in [span for span in self._held if span.start < before]:
            del self._held[span]
        for start in [start for start in self._ends if start < before]:
            del self._ends[start]
        self._keys = {span: keys for span, keys in self._keys.items() if span.start >= before}

    # forming ---------------------------------------------------------------------------------------------------------

    def form(self, due: list[Span]) -> Merged:
        """Windows that end together. Pieces that nobody sent are empty."""
        first, end = min(span.start for span in due), due[0].end
        for span in self._sent(first, end):
            self._ends[span.start].add(span.end)
        found: Merged = {}
        for each in form(due, self._ends, self._keys_of):
            there = [piece for piece in each.pieces if self._keys_of(piece)]
            found[each.window] = self._over(each.window), each.keys if len(there) > 1 else 0, len(there)
        for window, (content, _, _) in found.items():
            self._ends[window.start].add(window.end)
            if window not in self._held:
                self._keys[window] = content.keys
        return found

    def _sent(self, first: int, end: int) -> list[Span]:
        """All spans over which others send results, that lie within."""
        if not self.windows:
            return [Span(pane, pane + 1) for pane in range(first, end)]
        since_us, end_us = self.panes.bounds(first).start, self.panes.bounds(end).start
        spans = [self.panes.of(each) for window in self.windows for each in completed(window, since_us, end_us)]
        return [span for span in spans if span.start >= first]

    def _keys_of(self, span: Span) -> int:
        keys = self._keys.get(span)
        if keys is None:
            content = self._held.get(span)
            keys = self._keys[span] = content.keys if content is not None else 0
        return keys

    def _over(self, window: Span) -> Content:
        """What a window holds: of the pieces that came, those that tile it."""
        total = self.nothing.only(())
        if window in self._held:
            total.merge(self._held[window])
            return total
        spans: Sequence[Span] = self._sent(*window)
        if self.windows:
            sent: dict[int, list[int]] = {}
            for span in spans:
                sent.setdefault(span.start, []).append(span.end)
            spans = form([window], sent)[0].pieces
        for span in spans:
            content = self._held.get(span)
            if content is not None:
                total.merge(content)
        return total
