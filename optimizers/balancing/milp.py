"""ALBIC's mixed-integer linear program (Section 4.3.1), solved by HiGHS from the assignment that the search finds.

x[g, h]: whether a group is on a node, for its present node and all that are not marked for removal (Lemma 1 does not
hold for groups that cannot be divided: moves to marked nodes have to be forbidden). d, above, below: deviations. With
above = d - d_u and below = d - d_l, both >= 0, the paper's objective w1 d - w2 (d_u + d_l) is

    min (w1 - 2 w2) d + w2 (above + below) + w3 (migrations' cost),   d >= above, d >= below

which is unbounded unless w1 > 2 w2. Constraint (5), mean >= d, is left out: it makes a cluster infeasible that the
budget cannot bring below twice its mean.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from optimizers.balancing.problem import Assignment, Balance, Solver, assignment, counting_bound
from optimizers.balancing.search import Search, drained, pruned
from optimizers.program import Program, ProgramAnswer, ProgramLimits, summed
from twin.errors import BadInput

GAP = 1e-6
"""Relative difference between what was found and HiGHS's dual bound at which it counts as proved."""


@dataclass(frozen=True, slots=True)
class BalanceMilp:
    """ALBIC's MILP solver. seconds: time limit of HiGHS. w1, w2: weights of the largest deviation, and of those above
    and below. w3: weight of a unit of migration cost; makes migrations that gain less not worth it. start: the warm
    start.

    Raises BadInput unless w1 > 2 w2 > 0, w3 >= 0 and seconds > 0.
    """

    seconds: float = 10.0
    w1: float = 1000.0
    w2: float = 1.0
    w3: float = 0.0
    start: Solver = field(default_factory=Search)
    name: str = "milp"

    def __post_init__(self) -> None:
        if not self.w1 > 2.0 * self.w2 > 0.0:
            raise BadInput(f"w1 must be > 2 w2 > 0, or the program is unbounded; got w1 {self.w1}, w2 {self.w2}")
        if not (self.w3 >= 0.0 and self.seconds > 0.0):
            raise BadInput(f"w3 must be >= 0 and seconds > 0, got w3 {self.w3}, seconds {self.seconds}")

    def solve(self, balance: Balance) -> Assignment:
        """Best assignment found: OPTIMAL where HiGHS closes the gap; never worse than the start."""
        started = self.start.solve(balance)
        found_g, answer = self._solved(balance, started.node_g)
        dual = max(answer.bound, 0.0)
        spare = self.w3 * min(balance.budget, float(balance.costs_g.sum()))
        bound = max(counting_bound(balance), (dual - spare) / self.w1)
        if found_g is None or balance.violation(found_g):
            message = f"HiGHS found nothing ({answer.outcome}); this is its start"
            return assignment(balance, started.node_g, bound, message)
        best_g = min(found_g, started.node_g, key=lambda node_g: self._objective(balance, node_g))
        proved = self._objective(balance, best_g) - dual <= GAP * max(1.0, abs(dual))
        off_h = balance.deviation_h(best_g)
        best_g = pruned(balance, best_g, max(0.0, -float(off_h.min())), max(0.0, float(off_h.max())))
        return assignment(balance, drained(balance, best_g, balance.distance(best_g)), bound, proved=proved)

    def _objective(self, balance: Balance, node_g: np.ndarray) -> float:
        """Value that the program minimises."""
        d, both = balance.objective(node_g)
        return (self.w1 - 2 * self.w2) * d + self.w2 * both + self.w3 * balance.spent(node_g)

    def _solved(self, balance: Balance, start_g: np.ndarray) -> tuple[np.ndarray | None, ProgramAnswer]:
        """([G] nodes, or None if HiGHS has none; HiGHS's answer)."""
        program, nodes = Program(), len(balance.capacity_h)
        allowed = ~balance.marked_h & ~balance.stays_g[:, None]
        allowed[np.arange(len(balance.home_g)), balance.home_g] = True
        group_x, node_x = np.nonzero(allowed)
        on = program.variables((len(group_x),), upper=1.0, integer=True)
        d, above, below = program.variables((3, 1))
        unmarked = np.flatnonzero(~balance.marked_h)
        each_h, each_unmarked = np.zeros((nodes, 1), int), np.zeros((len(unmarked), 1), int)
        load_x = balance.work_g[group_x] / balance.capacity_h[node_x]
        cost_x = (node_x != balance.home_g[group_x]) * balance.costs_g[group_x]
        program.rows((on, summed(group_x, np.ones(len(on)))), low=1.0, high=1.0)
        program.rows((on, summed(node_x, load_x, nodes)), (above[each_h], -1.0), high=balance.mean)
        program.rows((on, summed(node_x, load_x, nodes)[unmarked]), (below[each_unmarked], 1.0), low=balance.mean)
        program.row((d, 1.0), (above, -1.0), low=0.0)
        program.row((d, 1.0), (below, -1.0), low=0.0)
        if np.isfinite(balance.budget):
            program.row((on, cost_x), high=balance.budget)
        for use_g, room_h in balance.side_constraints:
            program.rows((on, summed(node_x, use_g[group_x], nodes)), high=room_h)
        program.costs(on, self.w3 * cost_x)
        program.costs(np.stack([d, above, below]), np.array([[self.w1 - 2 * self.w2], [self.w2], [self.w2]]))
        off_h = balance.deviation_h(start_g)
        high, low = max(0.0, float(off_h.max())), max(0.0, -float(off_h.min()))
        start = np.concatenate([start_g[group_x] == node_x, [max(high, low), high, low]])
        answer = program.solve(ProgramLimits(seconds=self.seconds, gap=0.1 * GAP), start)
        if answer.values is None:
            return None, answer
        grid = np.full(allowed.shape, -1.0)
        grid[group_x, node_x] = answer.values[on]
        return grid.argmax(axis=1), answer
