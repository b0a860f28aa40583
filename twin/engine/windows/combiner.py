"""What comes out of a window at an evaluation, and what that costs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from twin.engine.outcome import Results
from twin.engine.windows.extent import Extent
from twin.engine.windows.store import Store

if TYPE_CHECKING:
    from twin.engine.station.task import Task
    from twin.engine.streams.keys import KeyGroups


class Combiner:
    """scan_s: CPU seconds a tuple looked at; result_s: a result."""

    __slots__ = ("result_s", "scan_s", "size", "slide", "station", "store")

    station: Task

    def __init__(self, extent: Extent, store: Store, scan_s: float, result_s: float) -> None:
        self.size = extent.size
        self.slide = extent.slide
        self.store = store
        self.scan_s = scan_s
        self.result_s = result_s

    def evaluate(self, position: float, fires: int, low: float, high: float) -> tuple[Results | None, float]:
        """Results of `fires` evaluations, the last at `position`, and their CPU seconds.

        low, high: the share of the segment over which they leave.
        """
        raise NotImplementedError

    def changed(self) -> None:
        """Content came from another replica, or went there."""

    def snapshot(self) -> object:
        """What it remembers from one evaluation to the next."""
        return None

    def restore(self, kept: object) -> None:
        """Remembers that again."""

    def know_keys(self, keys: KeyGroups, replica: int) -> None:
        """See Logic."""

    def know_share(self, share: float, values: list[int]) -> None:
        """See Logic."""
