"""Cheapest way to form complete windows from partial ones and from shorter complete ones (Enorm, Section 6.1).

All windows that end together are formed in one pass backwards over the pieces that there are, a shortest path from the
end of time to each beginning. A window that has just been formed is a piece of the longer ones. As each must be formed
anyway, the cheapest way for each is the cheapest for all.

Pieces are put together without gap or overlap, as sums need it. A maximum could also be taken of pieces that overlap, a
sum from a longer window less the rest of it; neither is considered.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from twin.errors import BadInput
from twin.panes import Span

Keys = Callable[[Span], float]
"""Function that gives the keys in the result over a span, the cost to merge that result into another."""


@dataclass(frozen=True, slots=True)
class Formation:
    """Complete window and the pieces it is made of, in order of time. keys: of all pieces together."""

    window: Span
    pieces: tuple[Span, ...]
    keys: float


def one_each(_span: Span) -> float:
    """Cost of 1 for every piece, with which the number of merged pieces is least."""
    return 1.0


def form(due: Collection[Span], ends: Mapping[int, Iterable[int]], keys: Keys = one_each) -> list[Formation]:
    """Cheapest formation of each window in `due`, the shortest first; they all end at the same time.

    ends: the pieces at hand, by beginning; those that end later are ignored. Of equally cheap ways, the one with fewer
    pieces is taken. Raises BadInput if windows do not end together, or one is not made of whole pieces.
    """
    if not due:
        return []
    end, *others = {span.end for span in due}
    if others:
        raise BadInput(f"windows that end at {sorted([end, *others])} cannot be formed together; form them one by one")
    cost: dict[int, tuple[float, int]] = {end: (0.0, 0)}
    step: dict[int, int] = {}
    wanted, found = {span.start for span in due}, list[Formation]()
    first = min(wanted)
    for start in range(end - 1, first - 1, -1):
        ways = [
            (onwards[0] + keys(Span(start, stop)), onwards[1] + 1, stop)
            for stop in ends.get(start, ())
            if (onwards := cost.get(stop)) is not None
        ]
        if ways:
            least, pieces, step[start] = min(ways)
            cost[start] = least, pieces
        if start in wanted:
            if start not in cost:
                raise BadInput(f"the window [{start}, {end}) is not made of whole pieces; add windows that tile it")
            found.append(Formation(Span(start, end), _path(step, start, end), cost[start][0]))
            if start > first and (whole := (keys(Span(start, end)), 1)) < cost[start]:
                cost[start], step[start] = whole, end
    return found


def _path(step: Mapping[int, int], start: int, end: int) -> tuple[Span, ...]:
    pieces = []
    while start < end:
        pieces.append(Span(start, step[start]))
        start = step[start]
    return tuple(pieces)


def formations(
    due_at: Callable[[int], Sequence[Span]], first: int, last: int, longest: int, keys: Keys = one_each
) -> Iterator[Formation]:
    """Formations of all windows that lie in the panes [first, last), in the order of time.

    due_at: windows that end where a pane begins. longest: panes of the longest of them; pieces are kept for so long.
    """
    ends: defaultdict[int, list[int]] = defaultdict(list)
    for pane in range(first, last):
        ends[pane].append(pane + 1)
        found = form([span for span in due_at(pane + 1) if span.start >= first], ends, keys)
        for formation in found:
            if formation.window.length > 1:
                ends[formation.window.start].append(formation.window.end)
            yield formation
        ends.pop(pane + 1 - longest, None)


def naive(formation: Formation) -> int:
    """Number of partial results in the window if it is made of panes alone (Enorm, Fig. 8)."""
    return formation.window.length


def expected_keys(keys: float, events_per_pane: float) -> Keys:
    """Expected number of different keys, by span of panes: G (1 - exp(-n / G)) of G keys in n Poisson events.

    It is not drawn, as drawn numbers could make a window hold fewer keys than a part of it. Raises BadInput without
    keys, or for a negative number of events.
    """
    if not 0.0 < keys < math.inf:
        raise BadInput(f"keys must be > 0, got {keys}")
    if not 0.0 <= events_per_pane < math.inf:
        raise BadInput(f"events_per_pane must be >= 0, got {events_per_pane}")
    return lambda span: -keys * math.expm1(-events_per_pane * span.length / keys)
