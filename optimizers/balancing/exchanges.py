"""The neighbourhood of an assignment at one node: a key group goes, one comes, or both; or such an exchange paid for
by sending another group, whatever its node, back home.

All are weighed at once. Their penalty is the sum of the eighth powers of the deviations beyond the band, in units of
the largest one: nearly the maximum, but two bad nodes are worse than one.
"""

from __future__ import annotations

import numpy as np

from optimizers.balancing.state import SearchState

BEST = 40
"""Number of exchanges for which payment by a revert is looked for."""
REVERTS = 300
"""Most reverts that are looked at."""
NOTHING = -1
"""Stands for a group where none goes (or comes)."""


def penalty(excess: np.ndarray) -> np.ndarray:
    """Eighth power of excesses over the band."""
    squared = excess * excess
    fourth = squared * squared
    return fourth * fourth


class Exchanges:
    """Exchanges of a node's groups (R rows, one of them nothing) with groups of its partners (C columns, or nothing)
    that cost at most what is left and `extra`. By exchange [R, C]: change of the penalty, cost, work that leaves the
    node, and whether the group that goes goes home."""

    def __init__(self, state: SearchState, node: int, partners: np.ndarray, unit: float, extra: float) -> None:
        balance, purse = state.balance, state.left + extra
        home_g, costs_g, free_g = balance.home_g, balance.costs_g, ~balance.stays_g
        goes = np.flatnonzero((state.node_g == node) & free_g)
        among_h = np.zeros(len(balance.marked_h), bool)
        among_h[partners] = True
        comes = np.flatnonzero(among_h[state.node_g] & free_g)
        if balance.marked_h[node]:
            comes = comes[home_g[comes] == node]
        goes_cost = np.concatenate([np.where(home_g[goes] == node, costs_g[goes], 0.0), [0.0]])
        begun = np.where(state.moved_g[comes], 0.0, costs_g[comes])
        comes_cost = np.concatenate([np.where(home_g[comes] == node, -costs_g[comes], begun), np.zeros(len(partners))])
        other = np.concatenate([state.node_g[comes], partners])
        goes, comes = np.append(goes, NOTHING), np.append(comes, np.full(len(partners), NOTHING))
        back = np.where((goes != NOTHING) & (home_g[goes] != node), costs_g[goes], 0.0)
        rows = goes_cost - back + comes_cost.min() <= purse
        columns = comes_cost + (goes_cost - back).min() <= purse
        self.node, self.goes_r, self.comes_c, self.other_c = node, goes[rows], comes[columns], other[columns]
        home_r = np.where(self.goes_r == NOTHING, NOTHING, home_g[self.goes_r])
        self.goes_home_RxC = home_r[:, None] == self.other_c
        saved_RxC = self.goes_home_RxC * costs_g[self.goes_r][:, None]  # noqa: N806  # its shape
        self.cost_RxC = goes_cost[rows][:, None] + comes_cost[columns] - saved_RxC
        self.shift_RxC = self._difference(balance.work_g)
        self.change_RxC = self._changes(state, unit, purse)

    def _difference(self, each_g: np.ndarray) -> np.ndarray:
        """[R, C] amount that leaves the node less the amount that comes."""
        goes_r = np.where(self.goes_r == NOTHING, 0.0, each_g[self.goes_r])
        return goes_r[:, None] - np.where(self.comes_c == NOTHING, 0.0, each_g[self.comes_c])

    def _changes(self, state: SearchState, unit: float, purse: float) -> np.ndarray:
        """[R, C] change of the penalty; infinite where the budget or a constraint forbids the exchange."""
        balance, node, other, shift = state.balance, self.node, self.other_c, self.shift_RxC
        here = _penalties(state, _raw(state, node), node, unit)
        after_here = _penalties(state, _raw(state, node) - shift / balance.capacity_h[node], node, unit)
        there = _penalties(state, _raw(state, other), other, unit)
        after_there = _penalties(state, _raw(state, other) + shift / balance.capacity_h[other], other, unit)
        change = after_here + after_there - (here + there)
        allowed = self.cost_RxC <= purse
        if balance.marked_h.any():
            allowed &= (self.goes_r == NOTHING)[:, None] | ~balance.marked_h[other] | self.goes_home_RxC
        for used_h, (use_g, room_h) in zip(state.used, state.sides, strict=True):
            moved = self._difference(use_g)
            allowed &= (used_h[node] - moved <= room_h[node] + 1e-9) & (used_h[other] + moved <= room_h[other] + 1e-9)
        return np.where(allowed, change, np.inf)

    def moves(self, row: int, column: int) -> list[tuple[int, int]]:
        """Moves (group, node) of one exchange."""
        goes, comes, other = int(self.goes_r[row]), int(self.comes_c[column]), int(self.other_c[column])
        return [(group, node) for group, node in ((goes, other), (comes, self.node)) if group != NOTHING]


def _raw(state: SearchState, nodes: np.ndarray | int) -> np.ndarray:
    """Deviations of nodes in percentage points, negative also for marked nodes below the mean."""
    balance = state.balance
    return np.asarray(state.work_h[nodes] / balance.capacity_h[nodes] - balance.mean)


def _penalties(state: SearchState, deviation: np.ndarray, nodes: np.ndarray | int, unit: float) -> np.ndarray:
    return penalty(state.excess(deviation, nodes) * (1.0 / unit))


def best_exchange(state: SearchState, found: Exchanges) -> tuple[float, list[tuple[int, int]]]:
    """Change of the penalty by the best exchange that the budget pays for, and its moves."""
    change = np.where(found.cost_RxC <= state.left, found.change_RxC, np.inf)
    row, column = np.unravel_index(int(change.argmin()), change.shape)
    return float(change[row, column]), found.moves(int(row), int(column))


def best_paid_exchange(
    state: SearchState, found: Exchanges, unit: float, rng: np.random.Generator
) -> tuple[float, list[tuple[int, int]]]:
    """Change of the penalty by the best exchange that the revert of one other group pays for, and all moves; inf if
    none."""
    balance = state.balance
    reverts = np.flatnonzero(state.moved_g & ~balance.stays_g)
    flat = found.change_RxC.ravel()
    count = min(BEST, len(flat))
    if not len(reverts) or not count:
        return np.inf, []
    if len(reverts) > REVERTS:
        reverts = rng.choice(reverts, REVERTS, replace=False)
    best = np.argpartition(flat, count - 1)[:count]
    best = best[np.isfinite(flat[best])]
    row, column = np.unravel_index(best, found.change_RxC.shape)
    goes, comes = found.goes_r[row][:, None], found.comes_c[column][:, None]
    change = _with_reverts(state, found, unit, (row, column), reverts)
    short = found.cost_RxC[row, column][:, None] - balance.costs_g[reverts] > state.left
    change[short | (goes == reverts) | (comes == reverts)] = np.inf
    for used_h, (use_g, room_h) in zip(state.used, state.sides, strict=True):
        back = balance.home_g[reverts]  # the exchange may use the same room: only what fits beside it counts
        moved = np.abs(np.where(goes == NOTHING, 0.0, use_g[goes]) - np.where(comes == NOTHING, 0.0, use_g[comes]))
        change[used_h[back] + use_g[reverts] + moved > room_h[back] + 1e-9] = np.inf
    if not change.size or not np.isfinite(change.min()):
        return np.inf, []
    k, r = np.unravel_index(int(change.argmin()), change.shape)
    moves = found.moves(int(row[k]), int(column[k]))
    return float(change[k, r]), [(int(reverts[r]), int(balance.home_g[reverts[r]])), *moves]


def _with_reverts(
    state: SearchState, found: Exchanges, unit: float, cells: tuple[np.ndarray, np.ndarray], reverts: np.ndarray
) -> np.ndarray:
    """[K, V] change of the penalty by each of K exchanges and V reverts together; nodes may be the same."""
    balance = state.balance
    capacity_h = balance.capacity_h
    row, column = cells
    shift, other = found.shift_RxC[row, column][:, None], found.other_c[column][:, None]
    work, start, end = balance.work_g[reverts], state.node_g[reverts], balance.home_g[reverts]

    def after(nodes: np.ndarray | int, moved: np.ndarray) -> np.ndarray:
        return _penalties(state, _raw(state, nodes) + moved / capacity_h[nodes], nodes, unit)

    def net(nodes: np.ndarray | int) -> np.ndarray:
        return work * ((end == nodes).astype(float) - (start == nodes).astype(float))

    before_h = _penalties(state, _raw(state, np.arange(len(capacity_h))), np.arange(len(capacity_h)), unit)
    change = after(found.node, net(found.node) - shift) - before_h[found.node]
    change = change + after(np.broadcast_to(other, (len(other), len(reverts))), net(other) + shift) - before_h[other]
    for nodes, sign in ((start, -1.0), (end, 1.0)):
        apart = (nodes != found.node) & (nodes != other)
        change += np.where(apart, after(nodes, sign * work) - before_h[nodes], 0.0)
    return change
