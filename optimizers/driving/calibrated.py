"""A black box corrects the rate model, and the corrected model is searched: for cost models trusted over the physics.

The rate model's best plans and a uniform sample are scored in one batch. Corrections of its coefficients are fitted to
the scores by ridge regression, the corrected model picks five more plans, and so on; the rest of the budget climbs from
the best. A learned model takes as long for one plan as for a hundred, so what counts is how often it is called. It is
not followed beyond its coverage, and nothing is proved.
"""

from __future__ import annotations

import time
from dataclasses import replace

import numpy as np

from optimizers.candidates import Candidates
from optimizers.climbing import climb_on
from optimizers.driving.near import Weighed, near, surrounded, terms, weigh
from optimizers.interface import Problem, Propose, Solution, Traits
from optimizers.requirements import LATENCIES
from optimizers.selection import said
from optimizers.space import counts_of
from optimizers.space_plans import SpacePlans
from twin.errors import BadInput
from twin.metrics import Ranged
from twin.randomness import random_stream
from twin.rates.coefficients import PlacementCoefficients

SAMPLED = 0.3
"""Share of the budget spent on the sample."""
BATCH = 5
"""Number of plans that are scored at a time."""
FRUITLESS = 3
"""Number of batches without a better plan after which the rest of the budget climbs."""
INSANE = 1.5
"""Cost of a plan that is not sane, as a multiple of the worst sane plan's."""
PRIOR = 0.3
"""Standard deviation of a correction, relative to its coefficient."""
NOISE = 0.1
"""Relative noise of the black box's predictions, compared with the best known plan."""
FAR, SELDOM = 3.0, 0.2
"""Multiple of the best cost beyond which a plan counts less, and the weight that it has then."""
LEAST, MOST = -0.8, 3.0
"""Limits of a relative correction: a coefficient becomes a fifth to four times of what it is."""
BEYOND = "{model} was trained on other {what}, so it is not followed beyond what is near by rates"


def calibrated(problem: Problem, propose: Propose, traits: Traits) -> Solution:
    """Best plan under a cost model that corrects the rate model, starting from the rate model's best plans. The budget
    counts plans that the cost model is asked about. Raises BadInput for an objective that is no latency, or as
    `propose` does."""
    if problem.objective not in LATENCIES:
        raise BadInput(f"--drive calibrated corrects latencies, not {problem.objective}; use --drive near")
    beyond = problem.cost_model.beyond(problem.scenario) if isinstance(problem.cost_model, Ranged) else []
    if beyond:
        found = near(problem, propose, traits)
        words = BEYOND.format(model=problem.cost_model.name, what=", ".join(beyond[:3]))
        return replace(found, message=said(found.message, words))
    started_s = time.perf_counter()
    search = _CalibratedSearch(problem, weigh(problem, propose, traits))
    search.run()
    return search.solution(started_s)


class _CalibratedSearch:
    """Search state: the rate model's estimates of all plans, and the cost model's of the plans asked about."""

    def __init__(self, asked: Problem, weighed: Weighed) -> None:
        model, budget, alternatives = asked.cost_model, asked.budget, asked.alternatives
        self.problem = replace(weighed.problem, cost_model=model, budget=budget, alternatives=alternatives)
        self.weighed, self.candidates = weighed, Candidates(self.problem)
        self.job = PlacementCoefficients.of(self.problem.deployment)

    def run(self) -> None:
        """Asks the cost model about plans until the budget is spent or nothing is left to ask about."""
        draws = max(1, int(SAMPLED * self.problem.budget))
        plans = SpacePlans(self.problem.deployment, self.problem.space)
        sample_nol = plans.sample(random_stream(self.problem.seed, "calibrated"), draws)
        self.weighed = self.weighed.joined(sample_nol)
        given_ol = counts_of(self.problem.deployment, self.problem.deployment.plan)
        self.candidates.look_at([given_ol, *self._by_rates(BATCH), *sample_nol])
        fruitless = 0
        while self.candidates.left > 0 and fruitless < FRUITLESS:
            before = self.candidates.best
            chosen = self._by_corrected(BATCH)
            if not chosen:
                break
            self.candidates.look_at(chosen)
            fruitless = 0 if self.candidates.best != before else fruitless + 1
        starts = [self.candidates[int(row)] for row in self.candidates.ranking[: 2 * BATCH]]
        climb_on(self.candidates, starts)

    def _by_rates(self, count: int) -> list[np.ndarray]:
        """Best plans by the rate model, even if they are not near each other."""
        cost = np.where(self.weighed.found.sane, self.weighed.found.objective, np.inf)
        return list(self.weighed.counts_nol[np.argsort(cost, kind="stable")[:count]])

    def _by_corrected(self, count: int) -> list[np.ndarray]:
        """Best plans by the corrected rate model of those that the cost model was not asked about."""
        self.weighed = self._extended()
        rates_n, counts_nol = self._rates(), self.weighed.counts_nol
        asked = [self.candidates.row(each) for each in counts_nol]
        rows = np.array([n for n, row in enumerate(asked) if row is not None])
        terms_nj = terms(self.job, counts_nol, end_to_end=self.problem.objective == "e2e_latency_s")
        said_n = self._said(np.array([row for row in asked if row is not None]))
        corrected_n = rates_n + terms_nj @ fitted(terms_nj[rows], said_n - rates_n[rows], said_n)
        corrected_n[rows] = np.inf
        order = np.argsort(corrected_n, kind="stable")[:count]
        return [counts_nol[n] for n in order if np.isfinite(corrected_n[n])]

    def _extended(self) -> Weighed:
        """Plans with those one change away from the best plan added, unless all plans are there already."""
        best = self.candidates[self.candidates.best]
        row = np.flatnonzero((self.weighed.counts_nol == best).all(axis=(1, 2)))
        plans = SpacePlans(self.problem.deployment, self.problem.space)
        whole = plans.exact and plans.count <= len(self.weighed.counts_nol)
        return self.weighed if whole else surrounded(self.weighed, row)

    def _rates(self) -> np.ndarray:
        """[N] objective by the rate model; plans that are not sane cost more than all others."""
        found = self.weighed.found
        worst = float(found.objective[found.sane].max(initial=0.0)) or float(np.nanmedian(found.objective))
        usual = np.where(np.isfinite(found.objective), found.objective, worst)
        return np.asarray(
            np.where(found.sane, usual, np.maximum(INSANE * worst, np.minimum(usual, 2 * INSANE * worst)))
        )

    def _said(self, rows: np.ndarray) -> np.ndarray:
        """[N] objective by the cost model of plans that it was asked about; plans that are not sane cost more than all
        others."""
        found = [self.candidates.candidate(int(row)) for row in rows]
        sane = np.array([each.sane for each in found])
        cost = np.array([each.objective for each in found])
        worst = float(cost[sane].max()) if sane.any() else float(np.median(np.append(cost[np.isfinite(cost)], 1.0)))
        return np.asarray(np.where(sane, cost, INSANE * worst))

    def solution(self, started_s: float) -> Solution:
        """Best plan that the cost model was asked about, with its estimate of the given plan."""
        found = self.candidates.solution(started_s, weighed=len(self.weighed.counts_nol))
        row = self.candidates.row(counts_of(self.problem.deployment, self.problem.deployment.plan))
        return replace(found, given=None if row is None else self.candidates.candidate(row))


def fitted(terms_nj: np.ndarray, otherwise_n: np.ndarray, cost_n: np.ndarray) -> np.ndarray:
    """Relative corrections [J] of the rate model's coefficients: a ridge regression of the black box's differences from
    the rate model on the terms of plans. The prior keeps the search near the physics: no trust region is needed. Plans
    far worse than the best say little of the best ones, so they count less.

    otherwise_n: the black box's objective less the rate model's; cost_n: the black box's.
    """
    best = float(cost_n.min())
    weight_n = np.where(cost_n > FAR * best, SELDOM, 1.0) / (NOISE * best) ** 2
    weighted_nj = terms_nj * weight_n[:, None]
    kernel = terms_nj.T @ weighted_nj + np.eye(terms_nj.shape[1]) / PRIOR**2
    return np.clip(np.linalg.solve(kernel, weighted_nj.T @ otherwise_n), LEAST, MOST)
