"""An assignment while it is searched: loads, costs and side constraints are kept up to date move by move.

Any search ends with two repairs: marked nodes are emptied (`drained`), and migrations that bring nothing are taken back
(`pruned`).
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from optimizers.balancing.balance import Balance
from optimizers.balancing.interface import TOLERANCE


class SearchState:
    """Assignment under search. node_g: [G] node of each group. work_h: [H] work on a node. deviation_h: as in
    `Balance`. spent: cost so far."""

    def __init__(self, balance: Balance, node_g: np.ndarray, band: float = 0.0) -> None:
        self.balance, self.band = balance, band
        self.sides = balance.side_constraints
        self.put(node_g)

    def put(self, node_g: np.ndarray) -> None:
        """Starts over from an assignment."""
        balance = self.balance
        nodes = len(balance.capacity_h)
        self.node_g = node_g.copy()
        self.work_h = np.bincount(node_g, balance.work_g, nodes)
        self.used = [np.bincount(node_g, use_g, nodes) for use_g, _ in self.sides]
        self.moved_g = node_g != balance.home_g
        self.spent = balance.spent(node_g)
        self.deviation_h = balance.deviation_h(node_g)

    @property
    def left(self) -> float:
        """Budget that is not spent yet."""
        return self.balance.budget - self.spent + 1e-9

    def move(self, moves: Iterable[tuple[int, int]]) -> None:
        """Moves each (group, node) and updates loads and costs."""
        balance = self.balance
        for group, node in moves:
            before = int(self.node_g[group])
            self.node_g[group] = node
            for used_h, (use_g, _) in zip(self.used, self.sides, strict=True):
                used_h[before] -= use_g[group]
                used_h[node] += use_g[group]
            self.spent += balance.costs_g[group] * (int(node != balance.home_g[group]) - int(self.moved_g[group]))
            self.moved_g[group] = node != balance.home_g[group]
            for end, sign in ((before, -1.0), (node, 1.0)):
                self.work_h[end] += sign * balance.work_g[group]
                deviation = self.work_h[end] / balance.capacity_h[end] - balance.mean
                self.deviation_h[end] = max(deviation, 0.0) if balance.marked_h[end] else deviation

    def excess(self, deviation: np.ndarray, nodes: np.ndarray | int) -> np.ndarray:
        """Deviation of these nodes beyond the band, percentage points; a marked node may be below the mean."""
        below = np.where(self.balance.marked_h[nodes], 0.0, -deviation)
        return np.asarray(np.maximum(np.maximum(deviation, below) - self.band, 0.0))

    @property
    def worst(self) -> float:
        """Load distance beyond the band, percentage points."""
        return max(float(np.abs(self.deviation_h).max()) - self.band, 0.0)


def drained(balance: Balance, node_g: np.ndarray, most: float = np.inf) -> np.ndarray:
    """[G] nodes after the groups of marked nodes, the biggest first, went to the least loaded unmarked node that has
    room.

    Groups move as long as the budget pays, and no unmarked node gets more than `most` percentage points above the mean.
    """
    state = SearchState(balance, node_g)
    unmarked = np.flatnonzero(~balance.marked_h)
    waiting = np.flatnonzero(balance.marked_h[node_g] & ~balance.stays_g)
    for group in waiting[np.argsort(-balance.work_g[waiting], kind="stable")]:
        after_h = (state.work_h[unmarked] + balance.work_g[group]) / balance.capacity_h[unmarked]
        fits = after_h - balance.mean <= most + 0.1 * TOLERANCE
        for used_h, (use_g, room_h) in zip(state.used, state.sides, strict=True):
            fits &= used_h[unmarked] + use_g[group] <= room_h[unmarked] + 1e-9
        if balance.costs_g[group] <= state.left and fits.any():
            state.move([(int(group), int(unmarked[np.where(fits, after_h, np.inf).argmin()]))])
    return state.node_g


def pruned(balance: Balance, node_g: np.ndarray, below: float, above: float) -> np.ndarray:
    """[G] nodes after all migrations that serve nothing were taken back one by one, the dearest first.

    Migrations are undone as long as no node gets more than so many percentage points below the mean, or above; and no
    group goes back to a marked node.
    """
    node_g = node_g.copy()
    while len(candidates := _returnable(balance, node_g, below + 0.1 * TOLERANCE, above + 0.1 * TOLERANCE)):
        group = candidates[np.lexsort((balance.work_g[candidates], -balance.costs_g[candidates]))[0]]
        node_g[group] = balance.home_g[group]
    return node_g


def _returnable(balance: Balance, node_g: np.ndarray, below: float, above: float) -> np.ndarray:
    """Groups that may go home without one node leaving the band [percentage points], whatever the others do."""
    moved = np.flatnonzero((node_g != balance.home_g) & ~balance.marked_h[balance.home_g])
    work, start, end = balance.work_g[moved], node_g[moved], balance.home_g[moved]
    deviation_h = balance.load_h(node_g) - balance.mean
    fits = deviation_h[start] - work / balance.capacity_h[start] >= -below
    fits &= deviation_h[end] + work / balance.capacity_h[end] <= above
    for use_g, room_h in balance.side_constraints:
        fits &= np.bincount(node_g, use_g, len(room_h))[end] + use_g[moved] <= room_h[end] + 1e-9
    return moved[fits]
