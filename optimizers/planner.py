"""Planner around every optimizer: it lets the optimizer propose plans, judges them, and chooses.

The optimizer proposes plans. Under a learned cost model, an analytic optimizer proposes by the rate model, and the
learned model chooses among these plans (`near`). What the rate model finds for each load is a candidate too
(`planned_for`). The given plan is kept unless the answer is worth its moves (`optimizers.judging`). Where runs are to
have the last word, `optimizers.searching` goes on from such plans.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from optimizers.interface import Deadline, Optimizer, Problem, Propose, Solution, Status, Traits, traits_of
from optimizers.judging import CLOSE, JUDGED, early, kept, unless_given
from optimizers.local_search import changes_of
from optimizers.milp.ages import fixed_s
from optimizers.objectives import MEAN_LATENCIES, Job, at_rates
from optimizers.selection import (
    PREMIUM,
    SURE,
    Estimated,
    answering,
    best_first,
    choose,
    dealt_anew,
    estimate,
    ranked,
    ranks,
    safer,
    said,
    sees_beyond_rates,
)
from optimizers.space import SpacePlans, as_plans, counts_of
from twin.arrivals.laws import ArrivalLaw, Poisson
from twin.deployment import Deployment
from twin.metrics import Estimates, Slow
from twin.plan import ExecutionPlan
from twin.rates.coefficients import PlacementCoefficients
from twin.rates.model import RateModel
from twin.scenario import Scenario

# the planner ---------------------------------------------------------------------------------------------------------


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


# plans near the best -------------------------------------------------------------------------------------------------
# Physics finds the plans near the best, and a black box chooses among them: the safe way to use a learned model.
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
    latency = problem.objective in MEAN_LATENCIES
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
    around = [changes(weighed.counts_nol[row]) for row in rows]
    return weighed.joined(np.stack([each for found in around for each in found])) if around else weighed


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


# loads to plan for ---------------------------------------------------------------------------------------------------
# A load to plan for is the mean rates of all sources, twice these, or each source's highest rate.
#
# The rate model sees mean rates, and the plan that is best for these can be overloaded in every burst. Asked about a
# higher load, the same model leaves room. Such plans need no learning and no run, so they are what other cost models
# are compared with. A plan for another load answers another question: nothing is claimed of it at the offered one.


@dataclass(frozen=True, slots=True)
class PlannedLoad:
    """Load to plan for. words: what it is. factor: how many times its mean rate a source with that law offers."""

    words: str
    factor: Callable[[ArrivalLaw], float]

    def on(self, deployment: Job) -> Job:
        """The deployment with this load all the time: beyond the mean rates, without peaks of its own."""
        return at_rates(deployment, self._law)

    def _law(self, law: ArrivalLaw) -> ArrivalLaw:
        factor = self.factor(law)
        steady = factor == 1.0 or law.peak_rate_per_s <= law.mean_rate_per_s
        return law.scaled(factor) if steady else Poisson(rate_per_s=law.mean_rate_per_s * factor)

    def is_mean(self, deployment: Deployment) -> bool:
        """Whether this is what every source of the deployment offers on average."""
        return all(math.isclose(self.factor(law), 1.0, rel_tol=1e-9) for law in deployment.workload.arrivals.values())


MEAN, TWICE, PEAK = "mean", "twice", "peak"
LOADS: Mapping[str, PlannedLoad] = {
    MEAN: PlannedLoad("the mean rates", lambda _: 1.0),
    TWICE: PlannedLoad("twice the mean rates", lambda _: 2.0),
    PEAK: PlannedLoad("each source's highest rate", lambda law: law.peak_rate_per_s / law.mean_rate_per_s),
}


def loads_of(deployment: Deployment) -> tuple[str, ...]:
    """Names of the loads to plan for: the mean alone where no source ever offers more than on average."""
    return (MEAN,) if LOADS[PEAK].is_mean(deployment) else tuple(LOADS)


@dataclass(frozen=True, slots=True)
class RatesAt:
    """Cost model: the rate model, asked about the same job under another load. load: a name in LOADS."""

    load: str
    base: RateModel

    @property
    def name(self) -> str:
        """Name of the rate model, and the load."""
        return f"{self.base.name}:{self.load}"

    @property
    def further(self) -> tuple[str, ...]:
        """What the rate model estimates beside METRICS."""
        return self.base.further

    def predict(self, scenario: Scenario, plans: Sequence[ExecutionPlan]) -> Estimates:
        """Estimates of the rate model under the load."""
        return self.base.predict(LOADS[self.load].on(scenario), plans)

    def blind_to(self, scenario: Scenario) -> tuple[str, ...]:
        """Features of the scenario that the rate model ignores, in words."""
        return self.base.blind_to(scenario)


def rates_at(load: str) -> RateModel | RatesAt:
    """Cost model that plans for a load by rates; for the mean, the rate model itself."""
    base = RateModel().planning()
    return base if load == MEAN else RatesAt(load, base)


def planned_for(load: str, problem: Problem, propose: Propose) -> Solution:
    """Answer of an optimizer that is asked, by rates, for the best plan under a load. Its estimates are those of the
    load, and for another load than the mean nothing is proved. Raises as `propose` does."""
    planned = LOADS[load]
    asked = problem.judged_by(RateModel().planning())
    found = propose(replace(asked, scenario=planned.on(problem.scenario)))
    if planned.is_mean(problem.scenario):
        return found
    words = said(f"planned for {planned.words}, and judged under this load", found.message)
    return replace(found, status=Status.FEASIBLE, bound=None, among="", message=words)


# starts --------------------------------------------------------------------------------------------------------------
# A start is a plan that the rate model finds for a load. It is a candidate of every planner whose cost model is another
# one.
#
# A learned model is worth what it adds to these. So its answer is never worse than the best of them, by its own
# judgement.


BETTER = "the plan of {name} is better than what the search found, so it is taken"


@dataclass(frozen=True, slots=True)
class Starts:
    """Plans by the name of what found them, as users name it. weighed: plans that the rate model estimated."""

    plans: Mapping[str, ExecutionPlan] = field(default_factory=dict)
    weighed: int = 0


def starts(problem: Problem, propose: Propose, deadline: Deadline) -> Starts:
    """Plans of an optimizer for each load. Each start gets an equal share of the time. Raises BadInput as `propose`
    does."""
    loads = loads_of(problem.scenario)
    share_s = None if problem.seconds is None else problem.seconds / (1 + len(loads))
    asked = replace(problem.judged_by(RateModel()), seconds=share_s, report=None)
    found: dict[str, Solution] = {}
    for done, load in enumerate(loads):
        if deadline.over:
            break
        problem.tell("loads planned for", done, len(loads))
        found[rates_at(load).name] = planned_for(load, asked, propose)
    plans = {name: each.plan for name, each in found.items()}
    return Starts(plans, sum(each.evaluations + each.weighed for each in found.values()))


def unless_start(problem: Problem, found: Solution, begun: Starts, deadline: Deadline) -> Solution:
    """The solution, or the best start if that is better by the problem's cost model, unless the given plan is hardly
    worse than that."""
    judged = estimate(problem, [found.plan, *begun.plans.values()])
    own, *others = map(judged.candidate, range(len(judged.plans)))
    found = replace(
        found,
        evaluations=found.evaluations + len(judged.plans),
        weighed=found.weighed + begun.weighed,
        starts=dict(zip(begun.plans, others, strict=True)),
    )
    best = safer(problem, ranked(problem, judged, 1)[0], [own])
    mine, theirs = (ranks(problem, judged)[:, judged.plans.index(each.plan)] for each in (own, best))
    if tuple(theirs[:3]) >= (mine[0], mine[1], mine[2] - CLOSE * abs(mine[2])):
        return found
    name = next(name for name, each in found.starts.items() if each.plan == best.plan)
    chosen = replace(
        answering(problem, found, best, own),
        status=Status.FEASIBLE,
        bound=None,
        among="",
        message=said(early(problem) if deadline.over else "", BETTER.format(name=name), dealt_anew(problem, best.plan)),
    )
    return unless_given(problem, chosen)
