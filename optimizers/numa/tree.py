"""BriskStream's own search: placement by a tree (Algorithm 2) inside scaling step by step (Algorithm 1)."""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Generic, Literal, Protocol, TypeVar

import numpy as np

from optimizers.interface import ENDLESS, Deadline
from optimizers.numa.space import SocketSpace, Symmetry
from twin.errors import BadInput
from twin.rates.numa_rates import NumaJob, Sustained, free_running, sustained, times

# branch and bound ----------------------------------------------------------------------------------------------------
# Branch and bound over any tree that has bounds, branches and an objective (Morrison et al., 2016).
#
# A node stands for all complete solutions below it, none of which is worth more than the node's bound; a complete node
# is worth its bound. Nodes that cannot beat the best complete one are dropped. The search can be stopped at any time:
# the bound then says how far the best found may be from the best there is.


Order = Literal["depth", "best"]
"""Order in which nodes are looked at: depth first finds complete nodes soon; best first proves with the fewest
nodes."""
TOLERANCE = 1e-9
"""Relative tolerance for rounding; a node that promises no more than this above the best found is dropped."""


class Node(Protocol):
    """Node of the tree: a part of the search space."""

    @property
    def bound(self) -> float:
        """Upper bound of the worth of all solutions below; the worth itself if the node is complete."""

    @property
    def complete(self) -> bool:
        """Whether the node is a solution itself."""


N = TypeVar("N", bound=Node)


@dataclass(frozen=True, slots=True)
class Found(Generic[N]):
    """Result of a search. best: the best complete node, None if there was none. bound: nothing in the tree is worth
    more. nodes: number of nodes looked at."""

    best: N | None
    bound: float
    nodes: int


def search(
    root: N,
    branch: Callable[[N], Sequence[N]],
    *,
    order: Order = "depth",
    most: float = math.inf,
    deadline: Deadline = ENDLESS,
    known: N | None = None,
) -> Found[N]:
    """Searches for the best complete node below the root.

    branch: the children of a node, which together hold all that is below it (or all that is worth looking at), the most
    promising first. most: limit of the nodes looked at. deadline: with it, the same search may end elsewhere the next
    time. known: a complete node from elsewhere, to begin with.
    """
    best, nodes, number = known, 0, count()
    waiting: list[tuple[float, int, N]] = []  # of equals, the newest and deepest comes first

    def push(some: Sequence[N]) -> None:
        for node in reversed(some):
            heapq.heappush(waiting, (-node.bound if order == "best" else 0.0, -next(number), node))

    push([root])
    while waiting:
        node = waiting[0][2]
        promising = best is None or node.bound > best.bound * (1.0 + TOLERANCE)
        if promising and (nodes >= most or deadline.over):
            break
        heapq.heappop(waiting)
        nodes += promising
        if promising and node.complete:
            best = node
        elif promising:
            push(branch(node))
    worth = -math.inf if best is None else best.bound
    return Found(best, max([worth, *(node.bound for *_, node in waiting)]), nodes)


# placement: Algorithm 2 ----------------------------------------------------------------------------------------------
# BriskStream's placement tree (Section 4, Algorithm 2): it puts subtasks on sockets, one unit after the other.
#
# A unit is `ratio` subtasks of one operator (the compressed graph). Operators come in data-flow order, so an
# operator's producers are placed before it, and its time a record there is final. A node's bound puts all units that
# are not placed beside their producers: `twin.rates.numa_rates.sustained`. Subtasks of an operator are alike, so a
# node is a matrix of counts, and no matrix is looked at twice.
#
# Three heuristics narrow the sockets that a unit may go to; each can be switched off, and without any, the search is
# exhaustive.


@dataclass(frozen=True, slots=True)
class Heuristics:
    """Heuristics of the tree. ratio: subtasks that are placed together (compression), >= 1.

    symmetry: of sockets that are still empty and interchangeable, one is tried (redundancy elimination). collocation:
    the sockets of producers are tried. best_fit: the socket where a record takes least is tried, of several the
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
    """Node of the tree. counts_ol: subtasks placed, in so many units; bound: of the sustained load."""

    counts_ol: np.ndarray
    units: int
    bound: float
    complete: bool


class SocketTree:
    """Tree of all placements [O, L] of so many subtasks; within the space, if given.

    Raises BadInput if a unit has more subtasks than any socket has cores.
    """

    def __init__(
        self,
        job: NumaJob,
        subtasks_o: np.ndarray,
        heuristics: Heuristics,
        symmetry: Symmetry,
        space: SocketSpace | None = None,
    ) -> None:
        self.job = job
        space = space or SocketSpace.everything(len(subtasks_o), len(job.locations))
        self._allowed_ol = space.allowed_ol
        self.heuristics = heuristics
        self._symmetry = symmetry
        self._subtasks_o = subtasks_o
        self._units = [
            (o, min(heuristics.ratio, int(count) - first))
            for o, count in enumerate(subtasks_o)
            if not space.pinned_o[o]
            for first in range(0, int(count), heuristics.ratio)
        ]
        self._seen: set[bytes] = set()
        o, most = max(self._units, key=lambda unit: unit[1], default=(0, 0))
        if most > job.cores_l.max():
            raise BadInput(
                f"operator {job.operators[o]!r} is too coarse for any socket: {most} subtasks are placed together, and "
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
        return sustained(self.job, counts_nol, self._subtasks_o - counts_nol.sum(axis=2))

    def _sockets(self, node: PartialPlacement) -> Sequence[int]:
        if not self.heuristics.symmetry:
            return range(len(self.job.locations))
        return self._symmetry.distinct(frozenset(np.flatnonzero(node.counts_ol.any(axis=0)).tolist()))

    def _narrowed(self, node: PartialPlacement, o: int, sockets: np.ndarray, found: Sustained) -> list[int]:
        """Rows of the children that the heuristics keep.

        A socket has room if it can bear the load that the job could bear at best, and has a core for each subtask.
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


# scaling: Algorithm 1 ------------------------------------------------------------------------------------------------
# BriskStream's topologically sorted iterative scaling (Section 4, Algorithm 1), which sets numbers of subtasks.
#
# From the sinks towards the sources, the first operator that is sent more than it can take gets more subtasks,
# everything is placed anew, and so on, until nothing is over-supplied or the subtasks are used up. The best placement
# on the way is the answer. The paper begins with one subtask each; scaling here begins with half of the subtasks that
# operators need, so that little time gives a good plan too: smaller numbers teach nothing.


OVER = 1.001
"""Ratio of supply to intake above which an operator is a bottleneck."""
SOURCE_STEP = 1.25
"""Growth of sources a step: their supply says nothing of the subtasks they need, as they are always offered more."""
HALF = 0.5
"""Share of the needed subtasks with which scaling begins."""
ROUNDS = 6
"""Most placements of all subtasks in proportion to the times of the placement before: four settle 576 on 32 sockets."""
PATIENCE = 30
"""Number of placements in a row that are no better after which scaling ends."""


@dataclass(frozen=True, slots=True, eq=False)
class Placed:
    """Placement [o, l] and the load that it bears. bound: no placement of as many subtasks bears more; inf if not
    proved."""

    counts_ol: np.ndarray
    load: float
    bound: float = math.inf


def proportioned(
    job: NumaJob, place: Callable[[np.ndarray], Placed], most_subtasks: int, space: SocketSpace
) -> Iterator[Placed]:
    """Yields placements of all subtasks at once: first as many of each operator as it needs if nothing is fetched, then
    in proportion to the times of records where they were placed, with fetching; at most ROUNDS, while numbers
    change."""
    time_o, tried = job.time_o, set[bytes]()
    for _ in range(ROUNDS):
        subtasks_o = in_proportion(job, most_subtasks, space, time_o=time_o)
        if (key := subtasks_o.tobytes()) in tried:
            return
        tried.add(key)
        yield (placed := place(subtasks_o))
        time_o = mean_times(job, placed.counts_ol)


def mean_times(job: NumaJob, counts_ol: np.ndarray) -> np.ndarray:
    """[o] mean time of an input record over an operator's subtasks, in reference-core seconds."""
    share_ol = counts_ol / counts_ol.sum(axis=1, keepdims=True)
    return np.asarray((share_ol * times(job, share_ol[None])[0]).sum(axis=1))


def in_proportion(
    job: NumaJob, most_subtasks: int, space: SocketSpace, share: float = 1.0, *, time_o: np.ndarray | None = None
) -> np.ndarray:
    """[o] numbers of subtasks: that share of what operators need, one each at least; all together at most
    `most_subtasks`, unless there are more operators than that. time_o: of a record; None: nothing is fetched."""
    need_o = job.in_o * (job.time_o if time_o is None else time_o) / job.speed_l.max()
    wanted_o = share * need_o * min(1.0, most_subtasks / np.ceil(need_o).sum())
    found_o = np.ceil(wanted_o - 1e-9).astype(int)
    if found_o.sum() > most_subtasks:
        found_o = np.floor(wanted_o).astype(int)
    found_o = space.levelled(np.clip(found_o, 1, space.most_subtasks), np.max)
    while found_o.sum() > most_subtasks and found_o.max() > 1:  # small ones were rounded up
        found_o[found_o.argmax()] -= 1
    found_o = space.levelled(found_o, np.min)
    return np.where(space.kept_o, space.home_ol.sum(axis=1), found_o)


def scaled(
    job: NumaJob,
    place: Callable[[np.ndarray], Placed],
    most_subtasks: int,
    space: SocketSpace,
    *,
    refine: bool = True,
    first_o: np.ndarray | None = None,
) -> Iterator[Placed]:
    """Yields each placement on the way. first_o: the first numbers of subtasks, one each by default.

    place: returns the best placement of numbers of subtasks. refine: where cores stop a plan before any subtask
    does, operators are split further, although none is over-supplied, so that they fill the sockets better ("failed to
    allocate", Appendix D). space: which numbers stay, and the most subtasks of an operator.
    """
    subtasks_o = np.where(space.kept_o, space.home_ol.sum(axis=1), 1 if first_o is None else first_o)
    best, without_gain = -math.inf, 0
    while without_gain < PATIENCE:
        placed = place(subtasks_o)
        yield placed
        without_gain = 0 if placed.load > best * (1.0 + 1e-6) else without_gain + 1
        best = max(best, placed.load)
        wanted_o = _wanted(job, placed.counts_ol, subtasks_o, space.kept_o)
        if (wanted_o == subtasks_o).all() and refine:
            wanted_o = _split(job, placed.counts_ol, subtasks_o, space.kept_o)
        wanted_o = space.levelled(wanted_o, np.max)
        wanted_o = np.where(space.kept_o, wanted_o, np.minimum(wanted_o, space.most_subtasks))
        if wanted_o.sum() > most_subtasks:
            left = max(0, most_subtasks - int(subtasks_o.sum()))  # one each may be more than that
            left //= max(1, int(np.count_nonzero(wanted_o > subtasks_o)))  # those that are tied grow together
            wanted_o = subtasks_o + np.minimum(wanted_o - subtasks_o, left)
        if (wanted_o == subtasks_o).all():
            return
        subtasks_o = wanted_o


def _wanted(job: NumaJob, counts_ol: np.ndarray, subtasks_o: np.ndarray, kept_o: np.ndarray) -> np.ndarray:
    """[o] numbers of subtasks with more for the bottleneck nearest to the sinks, by the ratio of its over-supply."""
    found = free_running(job, counts_ol[None])
    over_o = found.supplied_no[0] / np.maximum(found.taken_no[0], 1e-300)
    for o in reversed(range(len(subtasks_o))):
        if over_o[o] > OVER and not kept_o[o]:
            ratio = min(over_o[o], SOURCE_STEP) if o in job.sources else over_o[o]
            return subtasks_o + np.where(np.arange(len(subtasks_o)) == o, math.ceil(subtasks_o[o] * (ratio - 1.0)), 0)
    return subtasks_o


def _split(job: NumaJob, counts_ol: np.ndarray, subtasks_o: np.ndarray, kept_o: np.ndarray) -> np.ndarray:
    """[o] subtasks, with one more of the heaviest on the socket that is full first, if cores are short."""
    found = sustained(job, counts_ol[None])
    if kept_o.all() or found.load_n[0] >= 1.0 or found.cpu_nl[0].min() > found.load_n[0] * OVER:
        return subtasks_o
    full = int(found.cpu_nl[0].argmin())
    each_o = job.in_o * found.time_nol[0, :, full] / subtasks_o
    heaviest = int(np.where((counts_ol[:, full] > 0) & ~kept_o, each_o, -1.0).argmax())
    return subtasks_o + (np.arange(len(subtasks_o)) == heaviest)
