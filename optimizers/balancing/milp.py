"""ALBIC's mixed-integer linear program, solved by HiGHS from the assignment that the search finds."""

from __future__ import annotations

from dataclasses import dataclass, field

from optimizers.balancing.balance import Balance
from optimizers.balancing.counting import counting_bound
from optimizers.balancing.draining import drained
from optimizers.balancing.interface import Assignment, Solver, assignment
from optimizers.balancing.parsimony import thrifty
from optimizers.balancing.search import Search
from twin.errors import BadInput

GAP = 1e-6
"""Relative, between what was found and HiGHS's dual bound, at which it counts as proved."""


@dataclass(frozen=True, slots=True)
class Milp:
    """seconds: for HiGHS. w1, w2: weights of the largest deviation, and of those above and below. w3: of a unit of
    migration cost; makes migrations that gain less not worth it. start: the warm start.

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
        """OPTIMAL where HiGHS closes the gap; else the best it found, which is never worse than the start."""
        from optimizers.balancing.milp_program import MilpProgram  # most commands start without SciPy

        program = MilpProgram(self, balance)
        started = self.start.solve(balance)
        found_g, dual, said = program.solved(started.node_g, gap=0.1 * GAP)
        spare = self.w3 * min(balance.budget, float(balance.costs_g.sum()))
        bound = max(counting_bound(balance), (dual - spare) / self.w1)
        if found_g is None or balance.violation(found_g):
            return assignment(balance, started.node_g, bound, f"HiGHS found nothing ({said}); this is its start")
        best_g = min(found_g, started.node_g, key=program.objective)
        proved = program.objective(best_g) - dual <= GAP * max(1.0, abs(dual))
        best_g = thrifty(balance, best_g)
        return assignment(balance, drained(balance, best_g, balance.distance(best_g)), bound, proved=proved)
