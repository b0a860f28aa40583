"""COLA (Khandekar et al., Middleware 2009), as ALBIC describes it: all key groups start as one part; the heaviest part
is split in two by balanced partitioning, again and again, until the parts can be spread evenly enough.

It plans from scratch: it knows neither budget nor present nodes. Parts are given to nodes so that as much as possible
stays where it is, which is all that a comparison can do for it.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass

import numpy as np

from optimizers.balancing.problem import Assignment, Balance, assignment, partitioned


@dataclass(frozen=True, slots=True)
class Cola:
    """COLA's solver. max_distance: load distance, in percentage points, that is even enough."""

    max_distance: float = 10.0
    name: str = "cola"

    def solve(self, balance: Balance) -> Assignment:
        """Spreads the parts over the nodes. Side constraints and fixed groups are ignored, as the budget is; so the
        bound is 0."""
        found = _named(balance, self._spread(balance))
        over = balance.spent(found) > balance.budget
        return assignment(balance, found, 0.0, "COLA ignores the budget" if over else "")

    def _spread(self, balance: Balance) -> np.ndarray:
        from scipy.sparse import csr_matrix  # most commands start without

        groups = len(balance.home_g)
        edges = csr_matrix((groups, groups)) if balance.traffic is None else balance.traffic.both_ways
        unmarked = int((~balance.marked_h).sum())
        parts = [(-float(balance.work_g.sum()), 0, np.arange(groups))]
        whole = list[np.ndarray]()
        count = 1
        while True:
            if len(parts) + len(whole) >= min(unmarked, groups):
                node_g = _longest_first(balance, [each for *_, each in parts] + whole)
                if balance.distance(node_g) <= self.max_distance or not parts:
                    return node_g
            *_, members = heapq.heappop(parts)
            part = partitioned(edges[members][:, members], balance.work_g[members], 2)
            if not part.any():
                part = np.arange(len(members)) % 2
            for each in (members[part == side] for side in np.unique(part)):
                if len(each) > 1:
                    heapq.heappush(parts, (-float(balance.work_g[each].sum()), count, each))
                    count += 1
                else:
                    whole.append(each)


def _longest_first(balance: Balance, parts: list[np.ndarray]) -> np.ndarray:
    """[G] nodes if each part, the heaviest first, goes to the node that is then least loaded."""
    unmarked = np.flatnonzero(~balance.marked_h)
    capacity, used = balance.capacity_h[unmarked], np.zeros(len(unmarked))
    node_g = np.zeros(len(balance.home_g), dtype=int)
    work = np.array([balance.work_g[members].sum() for members in parts])
    for index in np.argsort(-work, kind="stable"):
        best = int(((used + work[index]) / capacity).argmin())
        used[best] += work[index]
        node_g[parts[index]] = unmarked[best]
    return node_g


def _named(balance: Balance, node_g: np.ndarray) -> np.ndarray:
    """[G] the assignment with nodes of equal capacity exchanged such that as little as possible migrates."""
    from scipy.optimize import linear_sum_assignment  # takes longer to import than most commands take to start

    named_g = node_g.copy()
    unmarked = np.flatnonzero(~balance.marked_h)
    for capacity in np.unique(balance.capacity_h[unmarked]):
        nodes = unmarked[balance.capacity_h[unmarked] == capacity]
        stays = np.zeros((len(balance.capacity_h),) * 2)
        np.add.at(stays, (node_g, balance.home_g), balance.costs_g)
        old, new = linear_sum_assignment(-stays[np.ix_(nodes, nodes)])
        for before, after in zip(nodes[old], nodes[new], strict=True):
            named_g[node_g == before] = after
    return named_g
