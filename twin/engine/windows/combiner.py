"""Combiners: they make the results of a window at an evaluation.

An aggregation gives one result for each distinct key. In a join of two or more sides, records of the same key match,
one a side.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import product
from typing import TYPE_CHECKING

from twin.engine.draws import Draws, Lot
from twin.engine.keys.likeness import Likeness, keys_for
from twin.engine.output import Result
from twin.engine.windows.content import Content, HeldRecords
from twin.engine.windows.trigger import Extent

if TYPE_CHECKING:
    from twin.engine.keys.groups import KeyGroups


class Combiner:
    """Base of the combiners. scan_s: CPU seconds for each record looked at. result_s: CPU seconds for each result.

    groups: the key groups of its operator, which give records their keys; without key groups, records get their keys
    here. made: called for each result of a join, of which an evaluation may make any number.
    """

    def __init__(self, extent: Extent, scan_s: float, result_s: float) -> None:
        self.extent = extent
        self.scan_s = scan_s
        self.result_s = result_s
        self.groups: KeyGroups | None = None
        self.made: Callable[[], None] = lambda: None

    def draw_key(self, side: int, draws: Draws | Lot) -> int:
        """Draws the key of a record that came without one. It uses a random number only if there is any choice."""
        raise NotImplementedError

    def results(self, contents: Sequence[Content], position: float, draws: Draws) -> list[Result]:
        """Results of the window that ends at `position`."""
        raise NotImplementedError

    def know_share(self, share: float, values: list[int]) -> None:
        """Notes a change of its share of an operator without key groups (`Logic.know_share`)."""


class GroupCombiner(Combiner):
    """Combiner of an aggregation. keys: number of keys that come to this replica, all equally frequent, where the
    operator has no key groups. keyed: whether the replicas share the keys; else each gets records of all keys."""

    def __init__(self, extent: Extent, scan_s: float, result_s: float, keys: int, keyed: bool = True) -> None:
        super().__init__(extent, scan_s, result_s)
        self.keys = keys
        self.keyed = keyed

    def know_share(self, share: float, values: list[int]) -> None:
        if self.keyed:
            self.keys = max(1, round(values[0] * share))

    def draw_key(self, side: int, draws: Draws | Lot) -> int:
        return int(draws.uniform() * self.keys) if self.keys > 1 else 0

    def results(self, contents: Sequence[Content], position: float, draws: Draws) -> list[Result]:
        """One result a key, as old as its key's oldest record."""
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


ELSEWHERE = -1
"""Key of a record that matches nothing here, as its key belongs to another replica."""


class MatchCombiner(Combiner):
    """Combiner of a join: records of a key match, one a side; or each new record brings `amplification` results
    (measured).

    Without key groups there are as many keys as let `selectivity` of all combinations match, and a share of them is
    here. whole: by side, whether all of its records come here, also those of other replicas' keys.
    """

    def __init__(
        self,
        extent: Extent,
        scan_s: float,
        result_s: float,
        whole: Sequence[bool],
        selectivity: float | None,
        amplification: float | None,
        share: float = 1.0,
    ) -> None:
        super().__init__(extent, scan_s, result_s)
        self.whole = tuple(whole)
        self.selectivity = selectivity
        self.amplification = amplification
        self._know(share)

    def know_share(self, share: float, values: list[int]) -> None:
        self._know(share)

    def _know(self, share: float) -> None:
        """Notes the share of keys on this replica; if all sides are whole, it has all keys."""
        self.here = 1.0 if all(self.whole) else share
        sides, selectivity = len(self.whole), self.selectivity
        self.likeness = Likeness.of(keys_for(selectivity, sides) * self.here, sides) if selectivity else None

    def draw_key(self, side: int, draws: Draws | Lot) -> int:
        likeness = self.likeness
        if likeness is None:
            return 0
        if not self.whole[side] or self.here == 1.0:
            return likeness.key(draws.uniform()) if likeness.keys > 1 else 0
        at = draws.uniform() / self.here
        return likeness.key(at) if at < 1.0 else ELSEWHERE

    # evaluations -----------------------------------------------------------------------------------------------------

    def results(self, contents: Sequence[Content], position: float, draws: Draws) -> list[Result]:
        """Results of the window; a match is as old as the oldest of its records."""
        sides = [each.between(position - self.extent.size, position) for each in contents]
        if self.amplification is not None:
            fresh = self.extent.slide
            if self.extent.by_time:
                fresh = sum([each.count(position - fresh, position) for each in contents])
            return [*self._counted(_measured(sides, draws.rounded(self.amplification * fresh), draws))]
        likeness = self.likeness if self.groups is None else self.groups.likeness
        found = self._counted(_matches(sides))
        if likeness is None or likeness.repeats == 1.0:
            return list(found)
        return [*self._counted(match for match in found for _ in range(draws.rounded(likeness.repeats)))]

    def _counted(self, results: Iterable[Result]) -> Iterator[Result]:
        for result in results:
            self.made()
            yield result


def _matches(sides: Sequence[HeldRecords]) -> Iterator[Result]:
    """Matches, those of a key in the order of the first side's records, then of the second's, and so on."""
    first, *others = sides
    by_key = [_by_key(side) for side in others]
    for key, born_s, taken_s in zip(*first, strict=True):
        found = [side.get(key, ()) for side in by_key]
        if key == ELSEWHERE or not all(found):
            continue
        for partners in product(*found):
            yield (
                key,
                min(born_s, *[each[0] for each in partners]),
                min(taken_s, *[each[1] for each in partners]),
            )


def _by_key(side: HeldRecords) -> dict[int, list[tuple[float, float]]]:
    """Times at which the records of each key were born and taken in."""
    found: defaultdict[int, list[tuple[float, float]]] = defaultdict(list)
    for key, born_s, taken_s in zip(*side, strict=True):
        found[key].append((born_s, taken_s))
    return found


def _measured(sides: Sequence[HeldRecords], n: int, draws: Draws) -> Iterator[Result]:
    """Draws `n` results, each of a random record of each side. Short windows may lack a side, as `n` is measured."""
    present = [side for side in sides if side.keys]
    for _ in range(n if present else 0):
        drawn = [(side, int(draws.uniform() * len(side.keys))) for side in present]
        born_s = min([side.born_s[place] for side, place in drawn])
        taken_s = min([side.taken_s[place] for side, place in drawn])
        yield ELSEWHERE, born_s, taken_s
