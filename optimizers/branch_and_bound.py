"""Branch and bound over any tree that has bounds, branches and an objective (Morrison et al., 2016).

A node stands for all complete solutions below it, none of which is worth more than the node's bound; a complete node
is worth its bound. Nodes that cannot beat the best complete one are dropped. The search can be stopped at any time:
the bound then says how far the best found may be from the best there is.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Generic, Literal, Protocol, TypeVar

from optimizers.interface import ENDLESS, Deadline

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
