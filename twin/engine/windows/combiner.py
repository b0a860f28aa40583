"""What comes out of a window at an evaluation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from twin.engine.draws import Draws
from twin.engine.outcome import Result
from twin.engine.windows.content import Content
from twin.engine.windows.extent import Extent

if TYPE_CHECKING:
    from twin.engine.streams.keys import KeyGroups


class Combiner:
    """scan_s: CPU seconds a record looked at; result_s: a result. groups: those of its operator, by which records have
    their keys; where there are none, records get them here.
    """

    __slots__ = ("extent", "groups", "result_s", "scan_s")

    def __init__(self, extent: Extent, scan_s: float, result_s: float) -> None:
        self.extent = extent
        self.scan_s = scan_s
        self.result_s = result_s
        self.groups: KeyGroups | None = None

    def draw_key(self, side: int, draws: Draws) -> int:
        """Of a record that came without one to an input; one uniform number decides, if there is any choice."""
        raise NotImplementedError

    def results(self, contents: Sequence[Content], position: float, draws: Draws) -> list[Result]:
        """Of the window that ends at that position."""
        raise NotImplementedError

    def know_share(self, share: float, values: list[int]) -> None:
        """See Logic."""
