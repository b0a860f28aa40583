"""Planner around every optimizer: it lets the optimizer propose plans, judges them, and chooses.

The optimizer proposes plans. Under a learned cost model, an analytic optimizer proposes by the rate model, and the
learned model chooses among these plans (`driving`). What the rate model finds for each load is a candidate too
(`loads`). The given plan is kept unless the answer is worth its moves (`judging`). Where runs are to have the last
word, `optimizers.searching` goes on from such plans.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace

from optimizers.driving import near
from optimizers.interface import Deadline, Optimizer, Problem, Solution, Traits, traits_of
from optimizers.planner.judging import JUDGED, kept, unless_given
from optimizers.planner.loads import RatesAt, Starts, planned_for, starts, unless_start
from twin.rates.model import RateModel

LEAST_S = 1e-3
"""Least time for a search that was left none, so that it can give the best that it begins with."""


@dataclass(frozen=True, slots=True)
class Planner:
    """Optimizer with all that surrounds it. keeps: whether the given plan is kept unless a better one is found. near:
    whether the problem's cost model only chooses among plans that the optimizer finds by rates; else the optimizer asks
    it about any plan."""

    optimizer: Optimizer
    keeps: bool = True
    near: bool = False

    @property
    def name(self) -> str:
        """Name of the optimizer."""
        return self.optimizer.name

    @property
    def traits(self) -> Traits:
        """Traits of the optimizer."""
        return traits_of(self.optimizer)

    def solve(self, problem: Problem) -> Solution:
        """Best plan found. Raises BadInput if the optimizer cannot take the problem, or answers with a plan that is not
        in its space; AnswerError if its answer is no solution of the job."""
        started_s, deadline = time.perf_counter(), problem.deadline()
        begun = self._begun(problem, deadline)
        if not begun.plans:
            return self._driven(problem)
        left_s = None if problem.seconds is None else max(deadline.left_s, LEAST_S)
        beside = 1 + len(begun.plans) + JUDGED
        found = self._driven(replace(problem, seconds=left_s, budget=max(1, problem.budget - beside)))
        return replace(unless_start(problem, found, begun, deadline), seconds=time.perf_counter() - started_s)

    def _begun(self, problem: Problem, deadline: Deadline) -> Starts:
        """Plans by rates for each load, where another cost model judges and the optimizer is to be compared with
        them."""
        by_rates = isinstance(problem.cost_model, RateModel | RatesAt)
        if by_rates or not self.keeps or self.traits.baseline or not self.traits.by_objective:
            return Starts()
        return starts(problem, self._proposed, deadline)

    def _driven(self, problem: Problem) -> Solution:
        if isinstance(problem.cost_model, RatesAt):
            return planned_for(problem.cost_model.load, problem, self._proposed)
        if not self.near:
            return self._proposed(problem)
        found = near(problem, self._proposed, self.traits)
        return unless_given(problem, found) if self.keeps and self.traits.by_objective else found

    def _proposed(self, problem: Problem) -> Solution:
        return kept(problem, self.optimizer) if self.keeps else self.optimizer.solve(problem)
