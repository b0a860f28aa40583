"""Algorithm 1, score COMM, without components that send to each other in a circle.

In a circle a component would wait for timestamps that wait for its own, and bounded channels could come to a
standstill. Merging two ends of a transfer closes a circle exactly if another path leads from one to the other.
"""

from __future__ import annotations

from optimizers.fusion.components import Fusion
from optimizers.fusion.job import Job
from optimizers.fusion.merging import Merging


def by_communication_acyclic(job: Job) -> Fusion:
    """As `greedy.by_communication`; what a circle prevents is tried again until nothing changes, as a merge may have
    shortened the other path to nothing."""
    merging = Merging(job)
    paths = _Paths(merging)
    waiting = [edge for edge in sorted(merging.edges, key=lambda edge: -edge.rate_per_s) if edge.rate_per_s]
    changed = True
    while changed:
        changed, refused = False, []
        for edge in waiting:
            one, other = merging.component(edge.producer), merging.component(edge.consumer)
            if not merging.fit(one, other):
                continue
            if paths.another(one, other):
                refused.append(edge)
            else:
                paths.merged(*merging.merge(one, other))
                changed = True
        waiting = refused
    return merging.result()


class _Paths:
    """Which components can be reached from which, as bit sets."""

    def __init__(self, merging: Merging) -> None:
        size = len(merging.members)
        self._next, self._reach = [0] * size, [0] * size
        for edge in merging.edges:
            self._next[edge.producer] |= 1 << edge.consumer
        done = [False] * size
        for start in range(size):
            self._explore(start, done)
        self._alive = set(range(size))
        self._beyond: dict[int, int] = {}

    def _explore(self, start: int, done: list[bool]) -> None:
        """Depth first, without recursion: a job may be one long chain."""
        stack = [start]
        while stack:
            here = stack[-1]
            open_ends = [each for each in _bits(self._next[here]) if not done[each]]
            if open_ends and not done[here]:
                stack += open_ends
                continue
            stack.pop()
            if not done[here]:
                done[here] = True
                for each in _bits(self._next[here]):
                    self._reach[here] |= self._reach[each] | 1 << each

    def another(self, one: int, other: int) -> bool:
        """Whether a path leads from one to the other over a third component."""
        if one not in self._beyond:
            beyond = 0
            for each in _bits(self._next[one]):
                beyond |= self._reach[each]
            self._beyond[one] = beyond
        return bool(self._beyond[one] >> other & 1)

    def merged(self, kept: int, gone: int) -> None:
        """Notes that two components are one."""
        self._beyond.clear()
        self._alive.discard(gone)
        both = 1 << kept | 1 << gone
        self._next[kept] = (self._next[kept] | self._next[gone]) & ~both
        self._reach[kept] = (self._reach[kept] | self._reach[gone]) & ~both
        for each in self._alive - {kept}:
            if self._next[each] & both:
                self._next[each] = self._next[each] & ~both | 1 << kept
            if self._reach[each] & both:
                self._reach[each] = (self._reach[each] | self._reach[kept]) & ~both | 1 << kept


def _bits(number: int) -> list[int]:
    found = []
    while number:
        low = number & -number
        found.append(low.bit_length() - 1)
        number ^= low
    return found
