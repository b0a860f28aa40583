"""Branch and bound over any tree: it knows only bound, branch and objective (Morrison et al., 2016).

A node stands for all complete solutions below it, none of which is worth more than the node's bound; a complete node
is worth its bound. Nodes that cannot beat the best complete one are dropped. The search can be stopped at any time:
what it has found is then known to be at most so far from the best there is.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Generic, Literal, Protocol, TypeVar

from optimizers.deadline import ENDLESS, Deadline

Order = Literal["depth", "best"]
"""Depth first finds complete nodes soon; best first proves with the fewest nodes."""


class Node(Protocol):
    """A part of the search space."""

    @property
    def bound(self) -> float:
        """Nothing below is worth more; of a complete node, what it is worth."""

    @property
    def complete(self) -> bool:
        """Whether it is a solution itself."""


N = TypeVar("N", bound=Node)


@dataclass(frozen=True, slots=True)
class Found(Generic[N]):
    """best: the best complete node, None if there was none. bound: nothing in the tree is worth more. nodes: looked at.

    proved: whether the best is the best there is, within the tolerance.
    """

    best: N | None
    bound: float
    nodes: int
    proved: bool

    @property
    def gap(self) -> float:
        """Relative amount by which the optimum may exceed the best solution found; inf if none was found."""
        if self.best is None:
            return math.inf
        if self.bound <= self.best.bound:
            return 0.0
        return math.inf if self.best.bound <= 0.0 else self.bound / self.best.bound - 1.0


@dataclass(frozen=True, slots=True)
class SearchLimits:
    """When to stop: after so many nodes, or at a deadline (with it, the same search may end elsewhere the next time).

    tolerance: relative; a node that promises no more than this above the best found is dropped.
    """

    nodes: int | None = None
    deadline: Deadline = ENDLESS
    tolerance: float = 1e-9


NO_LIMITS = SearchLimits()


def search(
    root: N,
    branch: Callable[[N], Sequence[N]],
    *,
    order: Order = "depth",
    limits: SearchLimits = NO_LIMITS,
    known: N | None = None,
) -> Found[N]:
    """The best complete node below the root.

    branch: the children of a node, which together hold all that is below it (or all that is worth looking at), the
    most promising first. known: a complete node from elsewhere, to begin with.
    """
    best, nodes = known, 0
    open_nodes: _Open[N] = _Stack() if order == "depth" else _Heap()
    open_nodes.push([root])
    while (node := open_nodes.pop()) is not None:
        if best is not None and node.bound <= best.bound * (1.0 + limits.tolerance):
            continue
        if (limits.nodes is not None and nodes >= limits.nodes) or limits.deadline.over:
            open_nodes.push([node])
            break
        nodes += 1
        if node.complete:
            best = node
        else:
            open_nodes.push(branch(node))
    worth = -math.inf if best is None else best.bound
    bound = max([worth, *(node.bound for node in open_nodes.rest())])
    return Found(best, bound, nodes, best is not None and bound <= worth * (1.0 + limits.tolerance))


class _Open(Protocol[N]):
    """Nodes that were not looked at."""

    def push(self, nodes: Sequence[N]) -> None: ...

    def pop(self) -> N | None: ...

    def rest(self) -> Iterable[N]: ...


class _Stack(Generic[N]):
    def __init__(self) -> None:
        self._nodes: list[N] = []

    def push(self, nodes: Sequence[N]) -> None:
        self._nodes.extend(reversed(nodes))

    def pop(self) -> N | None:
        return self._nodes.pop() if self._nodes else None

    def rest(self) -> Iterable[N]:
        return self._nodes


class _Heap(Generic[N]):
    """The highest bound first; among equals the newest, which is the deepest."""

    def __init__(self) -> None:
        self._nodes: list[tuple[float, int, N]] = []
        self._count = 0

    def push(self, nodes: Sequence[N]) -> None:
        for node in reversed(nodes):
            self._count += 1
            heapq.heappush(self._nodes, (-node.bound, -self._count, node))

    def pop(self) -> N | None:
        return heapq.heappop(self._nodes)[2] if self._nodes else None

    def rest(self) -> Iterable[N]:
        return (node for _, _, node in self._nodes)
