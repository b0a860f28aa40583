"""Searches under a black box, such as a learned model, within limits that the rate model sets."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from optimizers.candidates import Candidates
from optimizers.interface import Problem, Propose, Solution, Traits
from optimizers.local_search import changes_of, climb_on
from optimizers.milp.ages import alone_s, fixed_s
from optimizers.objectives import LATENCIES
from optimizers.selection import PREMIUM, SURE, Estimated, best_first, choose, estimate, ranks, said, sees_beyond_rates
from optimizers.space import SpacePlans, as_plans, counts_of
from twin.errors import BadInput
from twin.metrics import Ranged, Slow
from twin.randomness import random_stream
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
#
# The features of plans (`terms`) are the rate model's own coefficients: the age in seconds that each operator alone on
# a socket, and each stream on its way out of a host, adds.


def terms(job: PlacementCoefficients, counts_nol: np.ndarray, *, end_to_end: bool) -> np.ndarray:
    """Features [N, O * L + S * H] of plans [N, O, L]: the age that each operator, and each stream by host, adds, in
    seconds."""
    share_nol = counts_nol / counts_nol.sum(axis=2, keepdims=True)
    alone_ol = np.minimum(alone_s(job, np.zeros(len(job.names)), end_to_end=end_to_end), 1e3)
    host_noh = job.at_hosts(share_nol)
    ways = [
        host_noh[:, start] * (host_noh[:, end] @ host_latency_s(job).T)
        for start, end in zip(job.producer_s, job.consumer_s, strict=True)
    ]
    return np.hstack([(share_nol * alone_ol).reshape(len(counts_nol), -1), *ways])


def host_latency_s(job: PlacementCoefficients) -> np.ndarray:
    """[H, H] network latency from host to host, seconds; 0 on the diagonal and where there is no route."""
    cluster = job.deployment.cluster
    hosts = [host.name for host in cluster.hosts]
    if not cluster.links:
        return job.places.latency_h[:, None] * (1.0 - np.eye(len(hosts)))
    link_s = {frozenset(link.between): link.latency_ms * 1e-3 for link in cluster.links}
    return np.array(
        [
            [
                sum(link_s[frozenset(ends)] for ends in cluster.routes.between(start, end))
                if start != end and cluster.routes.connected(start, end)
                else 0.0
                for end in hosts
            ]
            for start in hosts
        ]
    )


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
    asked = replace(problem, cost_model=RateModel(), budget=max(problem.budget, ASKED), alternatives=ASKED)
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
    settled = replace(weighed.problem, cost_model=problem.cost_model, alternatives=problem.alternatives)
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


# a corrected rate model ----------------------------------------------------------------------------------------------
# A black box corrects the rate model, and the corrected model is searched: for cost models trusted over the physics.
#
# The rate model's best plans and a uniform sample are scored in one batch. Corrections of its coefficients are fitted
# to the scores by ridge regression, the corrected model picks five more plans, and so on; the rest of the budget
# climbs from the best. A learned model takes as long for one plan as for a hundred, so what counts is how often it is
# called. It is not followed beyond its coverage, and nothing is proved.


SAMPLED = 0.3
"""Share of the budget spent on the sample."""
BATCH = 5
"""Number of plans that are scored at a time."""
FRUITLESS = 3
"""Number of batches without a better plan after which the rest of the budget climbs."""
INFEASIBLE = 1.5
"""Cost of a plan that is not feasible, as a multiple of the worst feasible plan's."""
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
        cost = np.where(self.weighed.found.feasible, self.weighed.found.objective, np.inf)
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
        """[N] objective by the rate model; plans that are not feasible cost more than all others."""
        found = self.weighed.found
        worst = float(found.objective[found.feasible].max(initial=0.0)) or float(np.nanmedian(found.objective))
        usual = np.where(np.isfinite(found.objective), found.objective, worst)
        return np.asarray(
            np.where(found.feasible, usual, np.maximum(INFEASIBLE * worst, np.minimum(usual, 2 * INFEASIBLE * worst)))
        )

    def _said(self, rows: np.ndarray) -> np.ndarray:
        """[N] objective by the cost model of plans that it was asked about; plans that are not feasible cost more than
        all others."""
        found = [self.candidates.candidate(int(row)) for row in rows]
        feasible = np.array([each.feasible for each in found])
        cost = np.array([each.objective for each in found])
        worst = (
            float(cost[feasible].max()) if feasible.any() else float(np.median(np.append(cost[np.isfinite(cost)], 1.0)))
        )
        return np.asarray(np.where(feasible, cost, INFEASIBLE * worst))

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
