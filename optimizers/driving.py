"""Searches under a black box, such as a learned model, within limits that the rate model sets."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from optimizers.interface import Problem, Propose, Solution, Traits
from optimizers.local_search import changes_of
from optimizers.milp.ages import fixed_s
from optimizers.objectives import LATENCIES
from optimizers.selection import PREMIUM, SURE, Estimated, best_first, choose, estimate, ranks, said, sees_beyond_rates
from optimizers.space import SpacePlans, as_plans, counts_of
from twin.metrics import Slow
from twin.rates.coefficients import PlacementCoefficients
from twin.rates.model import RateModel

# plans near the best -------------------------------------------------------------------------------------------------
# Physics chooses plans near the best, a black box chooses among them: the safe way to use a learned model.
#
# The harder one searches under a learned model, the more one finds its errors. Within one per cent of the analytic
# optimum, of what placement can change, are plans that the rate model calls ties. A learned model chooses among these
# by what it knows beyond the rate model, and can never lose more than that one per cent by the physics. Where the job
# has what the rate model ignores and the learned one sees, such as bursts, ties by rates mean nothing: then the
# learned model chooses among all plans that keep up by rates. Nothing is proved.


LISTED = 20_000
"""Number of plans up to which all are looked at; it takes a fifth of a second."""
ASKED = 2000
"""Most plans that an optimizer may ask the rate model about, and may hand over, where not all are looked at."""
AROUND = 5
"""Number of plans whose neighbours are looked at where not all plans are."""


@dataclass(frozen=True, slots=True)
class Weighed:
    """Plans [N, O, L] that the rate model has estimated. unchanged_s: the part of a latency that no placement
    changes."""

    problem: Problem
    counts_nol: np.ndarray
    found: Estimated
    unchanged_s: float

    def near(self, share: float) -> np.ndarray:
        """Rows of the feasible plans that are worse than the best by at most that share of what placement can change,
        the best first; of the least bad plans if none is feasible. Only plans that surely keep up, if some are near or
        cost hardly more.
        """
        keys = ranks(self.problem, self.found)
        order = best_first(keys)
        feasible = self.found.feasible[order]
        if not feasible.any():
            return order[:AROUND]
        order, cost = order[feasible], keys[2][order[feasible]]
        most = cost[0] + share * abs(cost[0] - self.unchanged_s)
        close, sure = cost <= most, self.found.backpressured[order] < SURE
        if (close & sure).any():
            return np.asarray(order[close & sure])
        hardly = sure & (cost <= cost[0] + PREMIUM * abs(cost[0]))
        return np.asarray(order[hardly][:AROUND] if hardly.any() else order[close])

    def joined(self, counts_nol: np.ndarray) -> Weighed:
        """Plans with more added, except those that are there already, or not in the space."""
        problem = self.problem
        both = np.concatenate([self.counts_nol, counts_nol]).reshape(-1, self.counts_nol[0].size)
        new = np.sort(np.unique(both, axis=0, return_index=True)[1])
        new = new[new >= len(self.counts_nol)] - len(self.counts_nol)
        fresh = counts_nol[new]
        fresh = fresh[problem.space.holds(problem.deployment, fresh)] if len(fresh) else fresh
        if not len(fresh):
            return self
        every = np.concatenate([self.counts_nol, fresh])
        parts = [self.found, estimate(problem, as_plans(problem.deployment, fresh))]
        return replace(self, counts_nol=every, found=Estimated.joined(parts, as_plans(problem.deployment, every)))


def weigh(problem: Problem, propose: Propose, traits: Traits) -> Weighed:
    """Plans with the rate model's estimates: the whole space if it is small; else what `propose` finds, and all plans
    one change away from its best. Raises BadInput as `propose` does."""
    asked = replace(problem.judged_by(RateModel()), budget=max(problem.budget, ASKED), alternatives=ASKED)
    settled = asked.settled(free_subtasks=False, costream_rules=traits.costream_rules)
    latency = problem.objective in LATENCIES
    unchanged_s = fixed_s(PlacementCoefficients.of(problem.deployment)) if latency else 0.0
    if not settled.space.free_subtasks:
        plans = SpacePlans(settled.deployment, settled.space)
        if plans.exact and plans.count <= LISTED:
            return _weighed(settled, plans.all(), unchanged_s)
    answer = propose(asked)
    found = [answer.plan, *(each.plan for each in answer.alternatives)]
    counts_nol = np.stack([counts_of(problem.deployment, plan) for plan in found])
    weighed = _weighed(settled, counts_nol, unchanged_s)
    return surrounded(weighed, weighed.near(0.0)[:1])


def surrounded(weighed: Weighed, rows: np.ndarray) -> Weighed:
    """Plans with all added that are one change away from these rows."""
    changes = changes_of(weighed.problem)
    near = [changes(weighed.counts_nol[row]) for row in rows]
    return weighed.joined(np.stack([each for found in near for each in found])) if near else weighed


def _weighed(problem: Problem, counts_nol: np.ndarray, unchanged_s: float) -> Weighed:
    return Weighed(problem, counts_nol, estimate(problem, as_plans(problem.deployment, counts_nol)), unchanged_s)


SHARE = 0.01
"""Share of what placement can change within which plans are near the best."""
WIDER = (1.0, 10.0, 100.0, 1e9)
"""Multiples of SHARE, tried in turn while the cost model calls no plan feasible; the last takes all plans that keep
up."""
FEWER = "of {count:,} plans {within} by rates, {model} chose"


def near(problem: Problem, propose: Propose, traits: Traits) -> Solution:
    """Best plan by the problem's cost model among those near the best by the rate model.

    The budget counts plans that the cost model is asked about. A fast cost model that sees what the rate model ignores
    is asked about ASKED plans if the budget is smaller.
    """
    started_s = time.perf_counter()
    weighed = weigh(problem, propose, traits)
    settled = replace(problem, scenario=weighed.problem.scenario, space=weighed.problem.space)
    factors: Sequence[float] = WIDER
    most = problem.budget
    if sees_beyond_rates(problem):
        factors = WIDER[-1:]
        most = most if isinstance(problem.cost_model, Slow) else max(most, ASKED)
    rows = np.zeros(0, int)
    for factor in factors:
        share, before = factor * SHARE, len(rows)
        rows = weighed.near(share)[:most]
        if len(rows) > before:
            found = estimate(settled, as_plans(problem.deployment, weighed.counts_nol[rows]))
        if found.feasible.any() or len(rows) == most:
            break
    chosen = choose(settled, found, evaluations=len(rows), started_s=started_s, complete=False)
    within = "that keep up" if share > 1.0 else f"within {share:.0%} of the best"
    words = FEWER.format(count=len(rows), within=within, model=problem.cost_model.name)
    given = estimate(settled, [problem.deployment.plan]).candidate(0)
    return replace(chosen, weighed=len(weighed.counts_nol), message=said(chosen.message, words), given=given)
