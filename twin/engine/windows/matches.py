"""The matches in one replica's window. Where it slides, what two windows have in common matches in both.

The window's content is kept in panes, mostly what came between two evaluations. A match lives in the pane of its
oldest tuple and goes when that goes; what came since the last evaluation matches anew, with itself and all that is
there. So any two windows share the matches that real ones would share.

How likely a tuple matches depends on its key, and so does how likely two tuples of two sides find a match among those
of a third. Keys are not there. Instead, what came counts for more or less than its number of tuples, by a weight that
is drawn when it comes (`twin.engine.windows.weights`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from operator import add, lt, sub

from twin.engine.draws import Draws
from twin.engine.windows.key_law import ALIKE, KeyLaw, counted, joint, repeats
from twin.engine.windows.weights import Weighing, Weight, combinations

PANES = 12
"""A window has no more of them: where it slides by less, what came in several slides is one."""
LITTLE = 0.01
"""Where weights would add less than this to the variance of matches over their mean, tuples count for their number."""


@dataclass(slots=True)
class Pane:
    """Tuples and weights by side before its beginning, and matches whose oldest tuple is in it.

    known, until: weighted combinations of tuples from its beginning on, and until which pane's.
    """

    tuples: list[float]
    weights: list[Weight]
    matches: int = 0
    known: float = 0.0
    until: Pane | None = None

    def combinations(self, end: Pane) -> float:
        """Weighted ones of tuples, one a side, from its beginning to that of another."""
        if self is end:
            return 0.0
        if self.until is not end:
            self.known, self.until = combinations(self.weights, end.weights), end
        return self.known

    def fresh(self, before: Pane, end: Pane) -> float:
        """The combinations that what came from one pane's beginning to another's has added."""
        had = self.combinations(before)
        return self.combinations(end) - had


class Matches:
    """Of a join's replica, evaluation after evaluation."""

    __slots__ = ("_end", "_evaluations", "_law", "_panes", "_size", "_slide", "_slides", "_weighing")

    def __init__(self, size: float, slide: float) -> None:
        self._size = size
        self._slide = slide
        self._slides = math.ceil(size / slide / PANES)  # a pane
        self._law: KeyLaw | None = None
        self.clear()

    def clear(self) -> None:
        """Forgets all matches; the next window's are drawn as if none of it had been seen."""
        self._panes: list[Pane] = []
        self._end = Pane([], [])  # where the next pane begins
        self._evaluations = 0

    def copy(self) -> Matches:
        """Another one of the same matches. What panes know of each other's combinations goes along."""
        other = Matches(self._size, self._slide)
        other._law, other._evaluations = self._law, self._evaluations
        if self._law is not None:
            other._weighing = self._weighing
        originals = [*self._panes, self._end]
        copies = [Pane(each.tuples, each.weights, each.matches, each.known) for each in originals]
        for original, made in zip(originals, copies, strict=True):
            made.until = next((c for o, c in zip(originals, copies, strict=True) if o is original.until), None)
        *other._panes, other._end = copies
        return other

    def count(
        self, draws: Draws, law: KeyLaw, since: Sequence[float], until: Sequence[float], fires: int, crowding: float
    ) -> int:
        """Matches in a window, or in `fires` alike of which it is the last; windows come in order.

        since, until: tuples of each side that came before the window, and before its end. crowding: mean product of
        the contents over the product that is given, where their chances are hidden.
        """
        slides = self._slide < self._size
        if slides and fires == 1:
            return self._next(draws, law, since, until, law.likelihood * crowding)
        contents = [after - before for before, after in zip(since, until, strict=True)]
        if slides:  # what follows on these starts anew
            self.clear()
        if min(contents) <= 0.0:
            return 0
        mean = math.prod(contents, start=law.likelihood * crowding * fires)
        again = repeats(fires, self._slide, self._size, len(contents)) if slides else None
        return counted(draws, mean, law.dispersion(contents, again))

    def _next(
        self, draws: Draws, law: KeyLaw, since: Sequence[float], until: Sequence[float], likelihood: float
    ) -> int:
        if law is not self._law:
            self._law = law
            self._weighing = Weighing.of(law) if any(law.spreads[:-1]) else None
        if self._panes:
            self._leave(draws, since, until)
        if not self._panes:
            self._end, self._evaluations = Pane(list(since), list(since)), 0
        weighing, dispersion = self._weighing, law.likelihood * law.spreads[-1]
        if weighing is not None:
            weighing, dispersion = self._weighed(weighing, law, since, until)
        before = self._end
        self._come(draws, weighing, until)
        self._match(draws, likelihood, dispersion, before)
        return sum([pane.matches for pane in self._panes])

    def _weighed(
        self, weighing: Weighing, law: KeyLaw, since: Sequence[float], until: Sequence[float]
    ) -> tuple[Weighing | None, float]:
        """How tuples that come are weighed, if it matters, and variance over mean of the matches, given the weights."""
        contents = [now - before for before, now in zip(since, until, strict=True)]
        if min(contents) <= 0.0:
            return None, 1.0
        dispersion = law.dispersion(contents)
        if dispersion - law.likelihood * law.spreads[-1] < LITTLE:
            return None, dispersion
        explained = math.prod(contents, start=law.likelihood) * joint(weighing.explained, contents)
        return weighing, max(0.0, dispersion - explained)

    def _leave(self, draws: Draws, since: Sequence[float], until: Sequence[float]) -> None:
        """Drops what came before the window."""
        panes, end = self._panes, self._end
        while not any(map(lt, since, (then := panes[1] if len(panes) > 1 else end).tuples)):
            del panes[0]
            if not panes:
                return
        if any(map(lt, until, end.tuples)) or any(map(lt, then.tuples, since)):
            self._mend(draws, since, until)
            return
        first = panes[0]
        if first.tuples == since:
            return
        rest = Pane([], [])
        for begin, weight, gone, past, beyond in zip(
            first.tuples, first.weights, since, then.tuples, then.weights, strict=True
        ):
            rest.tuples.append(gone)
            each = (beyond - weight) / (past - begin) if begin < gone else 1.0  # before what was known: as many as come
            rest.weights.append(weight + (gone - begin) * each)
        had, younger = first.combinations(end), then.combinations(end)
        rest.matches = _thinned(draws, first.matches, had - younger, rest.combinations(end) - younger)
        if rest.known > had:
            rest.known = had
        panes[0] = rest

    def _mend(self, draws: Draws, since: Sequence[float], until: Sequence[float]) -> None:
        """Where tuples were foreseen that have not come, what there is becomes one pane."""
        first, end = self._panes[0], self._end
        rest, last = Pane([], []), Pane([], [])
        for begin, weight, gone, past, beyond, now in zip(
            first.tuples, first.weights, since, end.tuples, end.weights, until, strict=True
        ):
            share = max(0.0, min(past, now) - max(begin, gone)) / (past - begin) if begin < past else 0.0
            rest.tuples.append(min(max(begin, gone), now))
            rest.weights.append(weight)
            last.tuples.append(min(past, now))
            last.weights.append(weight + share * (beyond - weight))
        matches = sum([pane.matches for pane in self._panes])
        rest.matches = _thinned(draws, matches, first.combinations(end), rest.combinations(last))
        self._panes, self._end, self._evaluations = [rest], last, 0

    def _come(self, draws: Draws, weighing: Weighing | None, until: Sequence[float]) -> None:
        """Adds what came since the last evaluation."""
        end = self._end
        if self._evaluations % self._slides == 0:
            self._panes.append(Pane(end.tuples, end.weights))
        self._evaluations += 1
        tuples = list(map(max, end.tuples, until))
        if weighing is None:
            weights = list(map(sub, map(add, end.weights, tuples), end.tuples))
        else:
            came = zip(end.weights, tuples, end.tuples, strict=True)
            weights = [each + weighing.draw(draws, now - then) for each, now, then in came]
        self._end = Pane(tuples, weights)

    def _match(self, draws: Draws, likelihood: float, dispersion: float, before: Pane) -> None:
        """Draws the matches of what came with itself and with what is there, all at once where there are but few."""
        panes, end = self._panes, self._end
        newest = panes[0].fresh(before, end)
        mean = likelihood * newest
        if mean <= 0.0:
            return
        few = mean < len(panes) and abs(dispersion - 1.0) < ALIKE
        matches = draws.poisson(mean) if few else 0
        if few and not matches:
            return
        fresh = [newest, *(pane.fresh(before, end) for pane in panes[1:]), 0.0]
        if not few:
            for pane, (mine, younger) in zip(panes, pairwise(fresh), strict=True):
                pane.matches += counted(draws, likelihood * max(0.0, mine - younger), dispersion)
        for _ in range(matches):
            at = draws.uniform() * newest
            panes[next(index for index, younger in enumerate(fresh[1:]) if younger <= at)].matches += 1


def _thinned(draws: Draws, matches: int, had: float, has: float) -> int:
    """Those that are left where weighted combinations become fewer."""
    if not matches or has <= 0.0:
        return 0
    return draws.binomial(matches, has / had) if has < had else matches
