"""When a window is evaluated: one that counts records, within the service of the record that completes it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from twin.engine.record import Record
from twin.engine.windows.extent import Extent

if TYPE_CHECKING:
    from twin.engine.windows.window import WindowLogic


class Trigger:
    """The base of all. Says at which position of its window each record is, and where windows end."""

    __slots__ = ("extent", "window")

    window: WindowLogic

    def __init__(self, extent: Extent) -> None:
        self.extent = extent

    def start(self) -> None:
        """Its window goes to work."""

    def plan(self, record: Record) -> float:
        """A record is being taken up; CPU seconds of the evaluations within its service."""
        return 0.0

    def served(self, record: Record, at_s: float) -> None:
        """The record's service has ended."""

    def due(self, at_s: float) -> None:
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
    """Evaluates every `slide` records. `seen`: records so far."""

    __slots__ = ("seen",)

    def __init__(self, extent: Extent) -> None:
        super().__init__(extent)
        self.seen = 0

    def plan(self, record: Record) -> float:
        """The record is in the window from now on."""
        window, extent = self.window, self.extent
        self.seen += 1
        window.put(record, self.seen)
        if self.seen % extent.slide:
            return 0.0
        work_s = window.fire(self.seen)
        window.forget(self.seen + extent.slide - extent.size)
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
