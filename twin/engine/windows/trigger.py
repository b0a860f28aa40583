"""When a window is evaluated: one that counts tuples, within the service of the segment that completes it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from twin.engine.segment import Segment
from twin.engine.windows.extent import Extent
from twin.engine.windows.store import Store

if TYPE_CHECKING:
    from twin.engine.windows.window import WindowLogic

MERGE_ABOVE = 3
"""More evaluations than this within one segment become one output segment."""


class Trigger:
    """The base of all. Puts what comes into the store, and says at which positions the window ends."""

    __slots__ = ("extent", "size", "slide", "store", "window")

    window: WindowLogic

    def __init__(self, extent: Extent, store: Store) -> None:
        self.extent = extent
        self.size = extent.size
        self.slide = extent.slide
        self.store = store

    def start(self) -> None:
        """Its window goes to work."""

    def plan(self, segment: Segment) -> float:
        """A segment is being taken up; CPU seconds of the evaluations within its service."""
        raise NotImplementedError

    def served(self, segment: Segment, start_s: float, end_s: float) -> None:
        """See Logic."""

    def corrected(self, segment: Segment, start_s: float, end_s: float) -> None:
        """See Logic."""

    def due(self, at_s: float, from_s: float) -> None:
        """See Logic."""

    def settle(self, now_s: float) -> None:
        """See Logic."""

    def origin(self) -> float:
        """From where positions count that mean the same on another replica."""
        raise NotImplementedError

    def snapshot(self) -> object:
        """How far it is."""
        raise NotImplementedError

    def restore(self, kept: object, at_s: float, now_s: float) -> None:
        """Is as far as that again."""
        raise NotImplementedError


class CountTrigger(Trigger):
    """Evaluates every `slide` tuples. `seen`: tuples so far."""

    __slots__ = ("seen",)

    def __init__(self, extent: Extent, store: Store) -> None:
        super().__init__(extent, store)
        self.seen = 0

    def plan(self, segment: Segment) -> float:
        """Evaluates the windows that this segment completes."""
        before, n = self.seen, segment.n
        self.seen += n
        self.store.remember_any(segment, float(before), float(self.seen))
        slide = int(self.slide)
        first, last = before // slide + 1, self.seen // slide
        work_s, k = 0.0, first
        while k <= last:
            # windows over two bursts have tuples of either's ages, and are not alike
            alike = not self.store.shuffled or k * slide - self.size >= before
            fires = last - k + 1 if alike else 1
            if fires <= MERGE_ABOVE:
                fires = 1
            end = k + fires - 1
            work_s += self.window.fire(end * slide, fires, (k * slide - before) / n, (end * slide - before) / n)
            k = end + 1
        if last >= first:
            self.store.forget((last + 1) * slide - self.size)
        return work_s

    def origin(self) -> float:
        """What this replica has seen."""
        return float(self.seen)

    def snapshot(self) -> object:
        """What it has seen."""
        return self.seen

    def restore(self, kept: object, at_s: float, now_s: float) -> None:
        """Has seen that."""
        assert isinstance(kept, int)
        self.seen = kept
