"""Windowed aggregation: one result for each distinct key at an evaluation."""

from __future__ import annotations

from collections.abc import Sequence

from twin.engine.draws import Draws
from twin.engine.outcome import Result
from twin.engine.windows.combiner import Combiner
from twin.engine.windows.content import Content
from twin.engine.windows.extent import Extent


class GroupCombiner(Combiner):
    """keys: of so many records come to this replica, all alike, where the operator has no key groups. keyed: replicas
    share them; else each gets records of all.
    """

    __slots__ = ("keyed", "keys")

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
        """See Combiner. In the order of their keys' first records; each is as old as the oldest record of its key."""
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
