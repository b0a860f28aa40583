"""All solvers of balancing problems by name, with two that have no file of their own: COLA, and ALBIC's program.

A new one is a file with a `Solver`, and a line in `SOLVERS`.
"""

from __future__ import annotations

import heapq
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from optimizers.balancing.albic import Albic
from optimizers.balancing.joint import Joint
from optimizers.balancing.problem import Assignment, Balance, Solver, assignment, counting_bound, partitioned
from optimizers.balancing.search import Flux, Search, drained, pruned
from optimizers.program import Program, ProgramAnswer, ProgramLimits, summed
from twin.errors import BadInput

# COLA ----------------------------------------------------------------------------------------------------------------
# Khandekar et al., Middleware 2009, as ALBIC describes it: all key groups start as one part; the heaviest part is split
# in two by balanced partitioning, again and again, until the parts can be spread evenly enough.
#
# It plans from scratch: it knows neither budget nor present nodes. Parts are given to nodes so that as much as possible
# stays where it is, which is all that a comparison can do for it.


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


# ALBIC's program -----------------------------------------------------------------------------------------------------
# ALBIC's mixed-integer linear program (Section 4.3.1), solved by HiGHS from the assignment that the search finds.
#
# x[g, h]: whether a group is on a node, for its present node and all that are not marked for removal (Lemma 1 does not
# hold for groups that cannot be divided: moves to marked nodes have to be forbidden). d, above, below: deviations. With
# above = d - d_u and below = d - d_l, both >= 0, the paper's objective w1 d - w2 (d_u + d_l) is
#
#     min (w1 - 2 w2) d + w2 (above + below) + w3 (migrations' cost),   d >= above, d >= below
#
# which is unbounded unless w1 > 2 w2. Constraint (5), mean >= d, is left out: it makes a cluster infeasible that the
# budget cannot bring below twice its mean.


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


# all solvers ---------------------------------------------------------------------------------------------------------


SOLVERS: Mapping[str, Solver] = {
    solver.name: solver
    for solver in (
        Search(),
        BalanceMilp(),
        Flux(),
        Flux(best_fit=True, name="flux-best-fit"),
        Albic(),
        Albic(share=0.6, name="albic-k"),
        Joint(),
        Cola(),
    )
}
