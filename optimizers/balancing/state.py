"""An assignment while it is searched: loads, costs and side constraints are kept up to date move by move."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from optimizers.balancing.balance import Balance


class State:
    """node_g: [G] where each group is. work_h: [H] work on a node. deviation_h: as in `Balance`. spent: cost so far."""

    def __init__(self, balance: Balance, node_g: np.ndarray, band: float = 0.0) -> None:
        self.balance, self.band = balance, band
        self.sides = balance.side_constraints
        self.put(node_g)

    def put(self, node_g: np.ndarray) -> None:
        """Starts over from there."""
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
        """Budget that is not spent."""
        return self.balance.budget - self.spent + 1e-9

    def move(self, moves: Iterable[tuple[int, int]]) -> None:
        """Each (group, node)."""
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
        """How far deviations of these nodes are beyond the band; a marked node may be below the mean."""
        below = np.where(self.balance.marked_h[nodes], 0.0, -deviation)
        return np.asarray(np.maximum(np.maximum(deviation, below) - self.band, 0.0))

    @property
    def worst(self) -> float:
        """The load distance, beyond the band."""
        return max(float(np.abs(self.deviation_h).max()) - self.band, 0.0)
