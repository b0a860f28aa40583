"""BriskStream's placement tree (Section 4, Algorithm 2): it puts replicas on sockets, one unit after the other.

A unit is `ratio` replicas of one operator (the compressed graph). Operators come in data-flow order, so an operator's
producers are placed before it, and its time a tuple there is final. A node's bound puts all units that are not placed
beside their producers: `twin.rates.numa_rates.sustained`. Replicas of an operator are alike, so a node is a matrix of
counts, and no matrix is looked at twice.

Three heuristics narrow the sockets that a unit may go to; each can be switched off, and without any, the search is
exhaustive.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from optimizers.numa.space import SocketSpace, Symmetry
from twin.errors import BadInput
from twin.rates.numa_job import NumaJob
from twin.rates.numa_rates import Sustained, sustained


@dataclass(frozen=True, slots=True)
class Heuristics:
    """Heuristics of the tree. ratio: replicas that are placed together (compression), >= 1.

    symmetry: of sockets that are still empty and interchangeable, one is tried (redundancy elimination). collocation:
    the sockets of producers are tried. best_fit: the socket where a tuple takes least is tried, of several the
    fullest. With both, both kinds are tried; with neither, all sockets.
    """

    ratio: int = 5
    symmetry: bool = True
    collocation: bool = True
    best_fit: bool = True

    @property
    def loses_nothing(self) -> bool:
        """Whether the heuristics always leave some best placement in the tree."""
        return self.ratio == 1 and not self.collocation and not self.best_fit

    @property
    def widened(self) -> Heuristics:
        """Heuristics without those that may lose the best placement: every socket is tried, but for equal ones."""
        return Heuristics(ratio=self.ratio, symmetry=self.symmetry, collocation=False, best_fit=False)


@dataclass(frozen=True, slots=True, eq=False)
class PartialPlacement:
    """Node of the tree. counts_ol: replicas placed, in so many units; bound: of the sustained load."""

    counts_ol: np.ndarray
    units: int
    bound: float
    complete: bool


class SocketTree:
    """Tree of all placements [O, L] of so many replicas; within the space, if given.

    Raises BadInput if a unit has more replicas than any socket has cores.
    """

    def __init__(
        self,
        job: NumaJob,
        replicas_o: np.ndarray,
        heuristics: Heuristics,
        symmetry: Symmetry,
        space: SocketSpace | None = None,
    ) -> None:
        self.job = job
        space = space or SocketSpace.everything(len(replicas_o), len(job.locations))
        self._allowed_ol = space.allowed_ol
        self.heuristics = heuristics
        self._symmetry = symmetry
        self._replicas_o = replicas_o
        self._units = [
            (o, min(heuristics.ratio, int(count) - first))
            for o, count in enumerate(replicas_o)
            if not space.pinned_o[o]
            for first in range(0, int(count), heuristics.ratio)
        ]
        self._seen: set[bytes] = set()
        o, most = max(self._units, key=lambda unit: unit[1], default=(0, 0))
        if most > job.cores_l.max():
            raise BadInput(
                f"operator {job.operators[o]!r} is too coarse for any socket: {most} replicas are placed together, and "
                f"no socket has more than {job.cores_l.max()} cores; use a compression ratio of at most that"
            )
        counts_ol = np.where(space.pinned_o[:, None], space.home_ol, 0.0)
        self.weighed = 1
        self.root = PartialPlacement(
            counts_ol, 0, float(self._bounds(counts_ol[None]).load_n[0]), complete=not self._units
        )

    @property
    def depth(self) -> int:
        """Number of units to place: the levels of the tree."""
        return len(self._units)

    def branch(self, node: PartialPlacement) -> Sequence[PartialPlacement]:
        """Children of a node with one unit more, the most promising socket first: by bound, then work, then
        fullness."""
        o, size = self._units[node.units]
        sockets = np.array([socket for socket in self._sockets(node) if self._allowed_ol[o, socket]])
        counts_nol = np.repeat(node.counts_ol[None], len(sockets), axis=0)
        counts_nol[np.arange(len(sockets)), o, sockets] += size
        found = self._bounds(counts_nol)
        self.weighed += len(sockets)
        kept = self._narrowed(node, o, sockets, found)
        fullness_n = -found.cpu_nl[np.arange(len(sockets)), sockets]
        order = sorted(kept, key=lambda n: (-found.load_n[n], -found.total_n[n], -fullness_n[n]))
        children = []
        for n in order:
            key = counts_nol[n].tobytes()
            if key not in self._seen:
                self._seen.add(key)
                units = node.units + 1
                children.append(
                    PartialPlacement(counts_nol[n], units, float(found.load_n[n]), units == len(self._units))
                )
        return children

    def _bounds(self, counts_nol: np.ndarray) -> Sustained:
        return sustained(self.job, counts_nol, self._replicas_o - counts_nol.sum(axis=2))

    def _sockets(self, node: PartialPlacement) -> Sequence[int]:
        if not self.heuristics.symmetry:
            return range(len(self.job.locations))
        return self._symmetry.distinct(frozenset(np.flatnonzero(node.counts_ol.any(axis=0)).tolist()))

    def _narrowed(self, node: PartialPlacement, o: int, sockets: np.ndarray, found: Sustained) -> list[int]:
        """Rows of the children that the heuristics keep.

        A socket has room if it can bear the load that the job could bear at best, and has a core for each replica.
        """
        rows, heuristics = np.arange(len(sockets)), self.heuristics
        if not (heuristics.collocation or heuristics.best_fit):
            return rows.tolist()
        busy_n = node.counts_ol.sum(axis=0)[sockets] + self._units[node.units][1]
        room_n = (found.cpu_nl[rows, sockets] >= self.root.bound * (1.0 - 1e-9)) & (busy_n <= self.job.cores_l[sockets])
        if not room_n.any():
            return [int(np.lexsort((-found.total_n, -found.load_n))[0])]
        kept: set[int] = set()
        producers = [self.job.producer_s[s] for s in self.job.inputs[o]]
        if heuristics.collocation:
            beside_n = node.counts_ol[producers][:, sockets].any(axis=0) & room_n
            kept.update(np.flatnonzero(beside_n if beside_n.any() else room_n).tolist())
        if heuristics.best_fit:
            time_n = np.where(room_n, found.time_nol[rows, o, sockets], np.inf)
            least_n = np.where(time_n <= time_n.min() * (1.0 + 1e-9), found.cpu_nl[rows, sockets], np.inf)
            kept.add(int(np.argmin(least_n)))
        return sorted(kept)
