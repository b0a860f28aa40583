"""Plans by rates for several loads, which are candidates wherever another cost model judges."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from optimizers.interface import Deadline, Problem, Propose, Solution, Status
from optimizers.objectives import Job, at_rates
from optimizers.planner.judging import CLOSE, early, unless_given
from optimizers.selection import (
    answering,
    dealt_anew,
    estimate,
    ranked,
    ranks,
    safer,
    said,
)
from twin.arrivals.laws import ArrivalLaw
from twin.deployment import Deployment
from twin.metrics import Estimates
from twin.plan import ExecutionPlan
from twin.rates.model import RateModel
from twin.scenario import Scenario

# loads to plan for ---------------------------------------------------------------------------------------------------
# Loads to plan for: the mean rates of all sources, twice these, or each source's highest rate.
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
        """The deployment with this load on average."""
        return at_rates(deployment, self.factor)

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
# Starts: plans that the rate model finds for each load, candidates of every planner whose cost model is another one.
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
