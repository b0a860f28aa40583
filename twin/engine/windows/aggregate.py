"""Windowed aggregation: one tuple per distinct group at each evaluation."""

from __future__ import annotations

from typing import TYPE_CHECKING

from twin.engine.outcome import Results
from twin.engine.windows.combiner import Combiner
from twin.engine.windows.extent import Extent
from twin.engine.windows.history import History
from twin.engine.windows.mixture import oldest_between, spreads
from twin.engine.windows.shuffled import of_any_order
from twin.engine.windows.store import Store

if TYPE_CHECKING:
    from twin.engine.streams.keys import KeyGroups


class GroupCombiner(Combiner):
    """`groups` live on this replica; tuples carry uniformly random ones.

    strata: where some are more frequent than others, (share of the tuples, groups) of classes of like frequency.
    """

    __slots__ = ("groups", "strata")

    def __init__(self, extent: Extent, store: Store, scan_s: float, result_s: float, groups: int) -> None:
        super().__init__(extent, store, scan_s, result_s)
        self.groups = groups
        self.strata: tuple[tuple[float, float], ...] = ()

    @property
    def history(self) -> History:
        """A single one for all inputs."""
        return self.store.histories[0]

    def know_keys(self, keys: KeyGroups, replica: int) -> None:
        """See Logic."""
        self.groups = max(1, round(keys.distinct_of(replica)))
        self.strata = keys.strata(replica)

    def know_share(self, share: float, values: list[int]) -> None:
        """See Logic."""
        self.groups = max(1, round(values[0] * share))

    def evaluate(self, position: float, fires: int, low: float, high: float) -> tuple[Results | None, float]:
        """Distinct groups in the window; each as old as the oldest of its tuples."""
        start = position - self.size
        content = round(self.history.count_until(position) - self.history.count_until(start))
        if content <= 0:
            return None, 0.0
        if self.groups == 1:
            distinct = fires
        elif fires == 1:
            distinct = self._occupied(content) if self.strata else self.station.draws.occupied(content, self.groups)
        else:
            classes = self.strata or ((1.0, self.groups),)
            mean = sum([groups * -_expm1_power(content * share, groups) for share, groups in classes])
            distinct = max(fires, self.station.draws.rounded(fires * mean))
        work_s = self.scan_s * content * fires + self.result_s * distinct
        return self._results(position, start, content, distinct, fires, low, high), work_s

    def _occupied(self, content: int) -> int:
        draws = self.station.draws
        found = sum([draws.occupied(draws.rounded(content * share), groups) for share, groups in self.strata])
        return max(1, min(content, found))

    def _results(
        self, position: float, start: float, content: int, distinct: int, fires: int, low: float, high: float
    ) -> Results:
        each = content * fires / distinct  # tuples a group
        if self.history.unsettled(start):
            return self._results_of_eras(position, start, each, distinct, fires, low, high)
        share = (content - each) / ((each + 1.0) * (content - 1.0)) if content > 1 else 0.0
        if self.store.shuffled:
            stamps = of_any_order(self.history.piece_after(start), self.history.piece_until(position), share)
            return Results(distinct, low, high, *stamps)
        oldest, newest = self.history.first_after(start), self.history.last_until(position)
        born_s, taken_s = (old + share * (new - old) for old, new in zip(oldest, newest, strict=True))
        if fires == 1:
            return Results(distinct, low, high, oldest[0], 2 * born_s - oldest[0], oldest[1], 2 * taken_s - oldest[1])
        # merged evaluations: the same age at each, so the stamps advance with the positions
        back = self.history.first_after(start - (fires - 1) * self.slide)
        return Results(
            distinct, low, high, born_s - (oldest[0] - back[0]), born_s, taken_s - (oldest[1] - back[1]), taken_s
        )

    def _results_of_eras(
        self, position: float, start: float, each: float, distinct: int, fires: int, low: float, high: float
    ) -> Results:
        """The same where tuples of the window waited for a restart."""
        born, taken = self._ages(start, position, each)
        if fires == 1:
            return Results(distinct, low, high, *born, *taken)
        back = (fires - 1) * self.slide
        born0, taken0 = self._ages(start - back, position - back, each)
        return Results(distinct, low, high, sum(born0) / 2, sum(born) / 2, sum(taken0) / 2, sum(taken) / 2)

    def _ages(self, start: float, position: float, each: float) -> tuple[tuple[float, float], tuple[float, float]]:
        """Between which stamps the births, and the ingestions, of the groups' oldest tuples lie evenly."""
        born, taken = spreads(self.history.spans(start, position))
        return oldest_between(born, each), oldest_between(taken, each)


def _expm1_power(n: float, boxes: float) -> float:
    """(1 - 1/boxes)^n - 1."""
    return (1.0 - 1.0 / boxes) ** n - 1.0
