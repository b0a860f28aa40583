"""ALBIC's mixed-integer linear program (Section 4.3.1), as matrices.

x[g, h]: whether a group is on a node, for its present node and all that are not marked for removal (Lemma 1 does not
hold for groups that cannot be divided: moves to marked nodes have to be forbidden). d, above, below: deviations. With
above = d - d_u and below = d - d_l, both >= 0, the paper's objective w1 d - w2 (d_u + d_l) is

    min (w1 - 2 w2) d + w2 (above + below) + w3 (migrations' cost),   d >= above, d >= below

which is unbounded unless w1 > 2 w2. Constraint (5), mean >= d, is left out: it makes a cluster infeasible that the
budget cannot bring below twice its mean.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.sparse import csr_matrix, hstack, vstack

from optimizers.balancing.balance import Balance
from optimizers.balancing.highs import Program, solved

if TYPE_CHECKING:
    from optimizers.balancing.milp import Milp


class MilpProgram:
    """The matrices. Columns: one a pair (group, node it may be on), then d, above, below."""

    def __init__(self, weights: Milp, balance: Balance) -> None:
        self.weights, self.balance = weights, balance
        nodes = len(balance.capacity_h)
        allowed = ~balance.marked_h[None, :] & ~balance.stays_g[:, None]
        allowed[np.arange(len(balance.home_g)), balance.home_g] = True
        self.group_x, self.node_x = np.nonzero(allowed)
        self.away_x = self.node_x != balance.home_g[self.group_x]
        self.nodes = nodes

    def objective(self, node_g: np.ndarray) -> float:
        """What the program minimises."""
        d, both = self.balance.objective(node_g)
        weights = self.weights
        return (weights.w1 - 2 * weights.w2) * d + weights.w2 * both + weights.w3 * self.balance.spent(node_g)

    def solved(self, start_g: np.ndarray, gap: float) -> tuple[np.ndarray | None, float, str]:
        """The groups' nodes if there is a solution, the dual bound, and the solver's own word for how it ended."""
        answer = solved(self._program(), self._columns(start_g), seconds=self.weights.seconds, gap=gap)
        dual = max(answer.dual, 0.0)
        if answer.x is None:
            return None, dual, answer.said
        grid = np.full((len(self.balance.home_g), self.nodes), -1.0)
        grid[self.group_x, self.node_x] = answer.x[: len(self.group_x)]
        return grid.argmax(axis=1), dual, answer.said

    def _columns(self, node_g: np.ndarray) -> np.ndarray:
        deviation_h = self.balance.deviation_h(node_g)
        above, below = max(float(deviation_h.max()), 0.0), max(-float(deviation_h.min()), 0.0)
        on = (node_g[self.group_x] == self.node_x).astype(float)
        return np.concatenate([on, [max(above, below), above, below]])

    def _rows(self) -> tuple[csr_matrix, np.ndarray, np.ndarray]:
        """The constraints low <= A x <= high."""
        balance, count = self.balance, len(self.group_x)
        groups, columns = len(balance.home_g), np.arange(count)
        inf, nodes = np.inf, self.nodes

        def sums(values: np.ndarray, rows: np.ndarray, height: int) -> csr_matrix:
            return csr_matrix((values, (rows, columns)), shape=(height, count))

        load = sums(balance.work_g[self.group_x] / balance.capacity_h[self.node_x], self.node_x, nodes)
        unmarked = np.flatnonzero(~balance.marked_h)
        one = [[0.0, -1.0, 0.0], [0.0, 0.0, 1.0], [1.0, -1.0, 0.0], [1.0, 0.0, -1.0]]
        above, below, over, under = (csr_matrix(np.array([each])) for each in one)
        parts: list[tuple[Any, Any, np.ndarray, np.ndarray]] = [
            (sums(np.ones(count), self.group_x, groups), _no(groups), np.ones(groups), np.ones(groups)),
            (load, _repeat(above, nodes), np.full(nodes, -inf), np.full(nodes, balance.mean)),
            (load[unmarked], _repeat(below, len(unmarked)), np.full(len(unmarked), balance.mean), _inf(len(unmarked))),
            (csr_matrix((2, count)), vstack([over, under]), np.zeros(2), _inf(2)),
        ]
        if np.isfinite(balance.budget):
            spent = csr_matrix((self.away_x * balance.costs_g[self.group_x])[None, :])
            parts.append((spent, _no(1), np.array([-inf]), np.array([balance.budget])))
        for use_g, room_h in balance.side_constraints:
            parts.append((sums(use_g[self.group_x], self.node_x, nodes), _no(nodes), np.full(nodes, -inf), room_h))
        matrix = vstack([hstack([left, right]) for left, right, _, _ in parts]).tocsr()
        return matrix, np.concatenate([low for *_, low, _ in parts]), np.concatenate([high for *_, high in parts])

    def _program(self) -> Program:
        matrix, low, high = self._rows()
        weights, count = self.weights, len(self.group_x)
        moved = weights.w3 * self.away_x * self.balance.costs_g[self.group_x]
        return Program(
            cost=np.concatenate([moved, [weights.w1 - 2 * weights.w2, weights.w2, weights.w2]]),
            matrix=matrix,
            low=low,
            high=high,
            upper=np.concatenate([np.ones(count), np.full(3, np.inf)]),
            integers=count,
        )


def _no(height: int) -> csr_matrix:
    return csr_matrix((height, 3))


def _inf(height: int) -> np.ndarray:
    return np.full(height, np.inf)


def _repeat(row: csr_matrix, height: int) -> csr_matrix:
    return vstack([row] * height)
