"""What comes out of a window at an evaluation: of an aggregation, one result for each distinct key."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from twin.engine.draws import Draws
from twin.engine.output import Result
from twin.engine.windows.content import Content
from twin.engine.windows.trigger import Extent

if TYPE_CHECKING:
    from twin.engine.keys.groups import KeyGroups


class Combiner:
    """scan_s: CPU seconds for each record looked at; result_s: for each result. groups: the key groups of its operator,
    which give records their keys; without key groups, records get their keys here.
    """

    def __init__(self, extent: Extent, scan_s: float, result_s: float) -> None:
        self.extent = extent
        self.scan_s = scan_s
        self.result_s = result_s
        self.groups: KeyGroups | None = None

    def draw_key(self, side: int, draws: Draws) -> int:
        """The key of a record that came to an input without one; a uniform number decides, if there is any choice."""
        raise NotImplementedError

    def results(self, contents: Sequence[Content], position: float, draws: Draws) -> list[Result]:
        """The results of the window that ends at that position."""
        raise NotImplementedError

    def know_share(self, share: float, values: list[int]) -> None:
        """See Logic."""


class GroupCombiner(Combiner):
    """keys: how many keys come to this replica, all equally often, where the operator has no key groups. keyed: whether
    the replicas share the keys; else each replica gets records of all keys.
    """

    def __init__(self, extent: Extent, scan_s: float, result_s: float, keys: int, keyed: bool = True) -> None:
        super().__init__(extent, scan_s, result_s)
        self.keys = keys
        self.keyed = keyed

    def know_share(self, share: float, values: list[int]) -> None:
        """See Logic."""
        if self.keyed:
            self.keys = max(1, round(values[0] * share))

    def draw_key(self, side: int, draws: Draws) -> int:
        """See Combiner."""
        return int(draws.uniform() * self.keys) if self.keys > 1 else 0

    def results(self, contents: Sequence[Content], position: float, draws: Draws) -> list[Result]:
        """See Combiner. Results are in the order of their keys' first records, each as old as its key's oldest one."""
        (content,) = contents
        oldest_born_s: dict[int, float] = {}
        oldest_taken_s: dict[int, float] = {}
        for key, born_s, taken_s in zip(*content.between(position - self.extent.size, position), strict=True):
            if key not in oldest_born_s:
                oldest_born_s[key] = born_s
                oldest_taken_s[key] = taken_s
                continue
            if born_s < oldest_born_s[key]:
                oldest_born_s[key] = born_s
            if taken_s < oldest_taken_s[key]:
                oldest_taken_s[key] = taken_s
        return [(key, born_s, oldest_taken_s[key]) for key, born_s in oldest_born_s.items()]
