"""What the analytic rate model knows of a problem before a black box is asked: plans, their ages, and what is near."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from optimizers.climbing import changes_of
from optimizers.counted import as_plans
from optimizers.estimating import joined
from optimizers.interface import OBJECTIVES, Problem, Propose, Traits
from optimizers.milp.ages import fixed_s
from optimizers.robust import PREMIUM, SURE
from optimizers.selection import Estimated, estimate, goodness
from optimizers.space import counts_of
from optimizers.space_plans import SpacePlans
from twin.rates.coefficients import PlacementCoefficients
from twin.rates.model import RateModel

LISTED = 20_000
"""Plans up to which all are looked at; it takes a fifth of a second."""
ASKED = 2000
"""Plans that an optimizer may ask the rate model about where there are more, and plans that it may hand over."""
AROUND = 5
"""Plans whose neighbours are looked at where there are more."""


@dataclass(frozen=True, slots=True)
class Weighed:
    """Plans [N, O, L] that the rate model has estimated. unchanged_s: of a latency, what no placement changes."""

    problem: Problem
    counts_nol: np.ndarray
    found: Estimated
    unchanged_s: float

    def near(self, share: float) -> np.ndarray:
        """Rows of the sane plans within that share of the best, of what placement can change, the best first; of the
        least bad ones if none is sane. Only of those that surely keep up, if some are among these or cost hardly more.
        """
        keys = goodness(self.problem, self.found)
        order = np.lexsort(keys[::-1])
        sane = self.found.sane[order]
        if not sane.any():
            return order[:AROUND]
        order, cost = order[sane], keys[2][order[sane]]
        most = cost[0] + share * abs(cost[0] - self.unchanged_s)
        close, sure = cost <= most, self.found.backpressured[order] < SURE
        if (close & sure).any():
            return np.asarray(order[close & sure])
        hardly = sure & (cost <= cost[0] + PREMIUM * abs(cost[0]))
        return np.asarray(order[hardly][:AROUND] if hardly.any() else order[close])

    def joined(self, counts_nol: np.ndarray) -> Weighed:
        """With more plans; those that are there already, or not in the space, are left out."""
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
        return replace(self, counts_nol=every, found=joined(parts, as_plans(problem.deployment, every)))


def weigh(problem: Problem, propose: Propose, traits: Traits) -> Weighed:
    """All plans of the space where they are few; else what is proposed under the rate model, and its
    surroundings. Raises BadInput as who proposes does."""
    asked = replace(problem, cost_model=RateModel(), budget=max(problem.budget, ASKED), alternatives=ASKED)
    settled = asked.settled(free_replicas=False, costream_rules=traits.costream_rules)
    latency = OBJECTIVES[problem.objective] == "min"
    unchanged_s = fixed_s(PlacementCoefficients.of(problem.deployment)) if latency else 0.0
    if not settled.space.free_replicas:
        plans = SpacePlans(settled.deployment, settled.space)
        if plans.exact and plans.count <= LISTED:
            return _weighed(settled, plans.all(), unchanged_s)
    answer = propose(asked)
    found = [answer.plan, *(each.plan for each in answer.alternatives)]
    counts_nol = np.stack([counts_of(problem.deployment, plan) for plan in found])
    weighed = _weighed(settled, counts_nol, unchanged_s)
    return surrounded(weighed, weighed.near(0.0)[:1])


def surrounded(weighed: Weighed, rows: np.ndarray) -> Weighed:
    """With all that is one change away from some of the plans."""
    changes = changes_of(weighed.problem)
    near = [changes(weighed.counts_nol[row]) for row in rows]
    return weighed.joined(np.stack([each for found in near for each in found])) if near else weighed


def _weighed(problem: Problem, counts_nol: np.ndarray, unchanged_s: float) -> Weighed:
    return Weighed(problem, counts_nol, estimate(problem, as_plans(problem.deployment, counts_nol)), unchanged_s)
