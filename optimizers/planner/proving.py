"""Plans from several loads, and the second choice among them by a truer cost model."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import repeat

import numpy as np

from optimizers.driving import ASKED
from optimizers.interface import Deadline, Optimizer, Problem, Propose, Solution, Status, Traits
from optimizers.objectives import Job, Requirements, at_rates
from optimizers.planner.judging import CLOSE, STOPPED, better, early, kept, space_of, unless_given, with_room
from optimizers.rules import copies, distinct
from optimizers.selection import (
    Estimated,
    answering,
    best_first,
    choose,
    dealt_anew,
    estimate,
    intervals,
    ranked,
    ranks,
    safer,
    said,
)
from twin.arrivals.laws import ArrivalLaw
from twin.deployment import Deployment
from twin.errors import BadInput
from twin.metrics import CostModel, Estimates
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
    found = propose(replace(problem, scenario=planned.on(problem.scenario), cost_model=RateModel().planning()))
    if planned.is_mean(problem.scenario):
        return found
    words = said(f"planned for {planned.words}, and judged under this load", found.message)
    return replace(found, status=Status.FEASIBLE, bound=None, among="", message=words)


# starts --------------------------------------------------------------------------------------------------------------
# Starts: plans that the rate model finds for each load, candidates of every planner whose cost model is another one.
#
# A learned model, or the simulator among a few plans, is worth what it adds to these. So its answer is never worse
# than the best of them, by its own judgement.


BETTER = "the plan of {name} is better than what the search found, so it is taken"


@dataclass(frozen=True, slots=True)
class Starts:
    """Plans by the name of what found them, as users name it. weighed: plans that the rate model estimated."""

    plans: Mapping[str, ExecutionPlan] = field(default_factory=dict)
    weighed: int = 0


def starts(problem: Problem, propose: Propose, traits: Traits, bears: Optimizer | None, deadline: Deadline) -> Starts:
    """Plans of an optimizer for each load, and that of `bears`, which looks for the highest rate, if it can take the
    problem. Each start gets an equal share of the time. Raises BadInput as `propose` does."""
    loads = loads_of(problem.scenario)
    share_s = None if problem.seconds is None else problem.seconds / (2 + len(loads))
    asked = replace(problem, seconds=share_s, report=None, requirements=problem.requirements.of_means)
    found: dict[str, Solution] = {}
    for done, load in enumerate(loads):
        if deadline.over:
            break
        problem.tell("loads planned for", done, len(loads))
        found[rates_at(load).name] = planned_for(load, asked, propose)
    if bears is not None and not deadline.over:
        with suppress(BadInput):  # it keeps numbers of subtasks, which the problem may leave free
            ruled = asked.settled(free_subtasks=False, costream_rules=traits.costream_rules)
            found[bears.name] = planned_for(MEAN, ruled, lambda by_rates: kept(by_rates, bears))
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


# the second choice ---------------------------------------------------------------------------------------------------
# Chooses twice: an optimizer's best plans by a cheap cost model are estimated again by a truer one, the simulator.
#
# The harder one searches under one imperfect model, the more one finds its errors: the plan that it likes best is
# likely one whose cost it underestimates. The truer model corrects that among the best few.
#
# A cost model that gives intervals (`twin.metrics.Unsure`) is followed where it is unsure: after its best plan, those
# come first that could be the best of all, by the better ends of their intervals, until no plan left could be better
# than the best one simulated (optimism in the face of uncertainty: Lai and Robbins, 1985; Auer, 2002).


UNPROVED = "not simulated"
STEP, STEPS = 1.15, 16
"""Least factor by which head room is raised, or limits of means are lowered, in a step; the number of such steps."""
REFUTED = 0.2
"""Head room, as a share of the offered rates, of the plans that are simulated next if none of the best keeps up."""


def proved(problem: Problem, propose: Propose, traits: Traits, truth: CostModel, count: int, begun: Starts) -> Solution:
    """Best by `truth` of at most `count` >= 1 proposed plans (`_in_order`), of the given plan if the optimizer looked
    at it, and of the starts. If none of these keeps up though the problem's cost model said so, as many more are judged
    that have head room by that model.

    An optimizer with a goal of its own (the fewest hosts) keeps its order; the first plan that keeps up is taken.
    `evaluations` counts estimates of both models, `simulated` the plans judged by `truth`. Nothing is proved about
    other plans: `bound` is None. Limits on quantiles are judged by `truth` alone; plans are proposed by means.
    """
    started_s, asked = time.perf_counter(), replace(problem, cost_model=truth)
    problem = replace(problem, requirements=problem.requirements.of_means)
    if not traits.by_objective:
        return _cheapest(problem, replace(asked, requirements=traits.required(asked)), propose, count)
    deadline, searching = Deadline.of(None, problem.stopped), problem.deadline()
    first = _proposed(problem, propose, count)
    given = None if first.given is None else first.given.plan
    hopes, plans = _in_order(problem, first, [*([] if given is None else [given]), *begun.plans.values()])
    if deadline.over:
        return replace(first, message=said(first.message, UNPROVED))
    found, estimated_again = _simulated(asked, plans, deadline, hopes), 0
    if first.feasible and not found.feasible.any() and not deadline.over:
        roomier, estimated_again = _roomier(problem, propose, count, searching)
        plans += [plan for plan in roomier if plan not in plans]
        more = [found, *([_simulated(asked, new, deadline)] if (new := plans[len(found.plans) :]) else [])]
        found = Estimated.joined(more, plans[: sum(len(each.plans) for each in more)])
    evaluations = first.evaluations + estimated_again + len(found.plans)
    chosen = choose(asked, found, evaluations=evaluations, started_s=started_s, complete=False)
    judged = {name: found.candidate(plans.index(plan)) for name, plan in begun.plans.items() if plan in found.plans}
    weighed = first.weighed + begun.weighed
    chosen = replace(chosen, given=first.given, simulated=len(found.plans), weighed=weighed, starts=judged)
    if given is not None and given in found.plans:
        rows = [plans.index(given), plans.index(chosen.plan)]
        chosen = replace(better(asked, chosen, found.part(rows)), given=found.candidate(rows[0]))
    early = STOPPED if len(found.plans) < len(plans) and deadline.over else ""
    return replace(chosen, message=said(early, chosen.message, _told(asked, found, chosen.plan)))


def _proposed(problem: Problem, propose: Propose, count: int) -> Solution:
    """Proposed solution without alternatives that only exchange equal hosts, of at most `count` plans in all."""
    asked = min(count * copies(problem.scenario), max(count, ASKED))
    found = propose(replace(problem, alternatives=max(problem.alternatives, asked - 1)))
    rows = distinct(problem.scenario, [found.plan, *(each.plan for each in found.alternatives)])
    return replace(found, alternatives=tuple(found.alternatives[row - 1] for row in rows[1:count]))


def _in_order(
    problem: Problem, found: Solution, known: Sequence[ExecutionPlan]
) -> tuple[list[float], list[ExecutionPlan]]:
    """Hope of each plan, and the plans to simulate: those found, and those of the space that are known, in order.

    A hope is the better end of a plan's interval times the problem's sign; -inf: it is simulated in any case."""
    plans = [found.plan, *(each.plan for each in found.alternatives)]
    between = intervals(problem.cost_model, problem.scenario, plans, problem.objective) if found.feasible else None
    hopes = [-math.inf] * len(plans)
    if between is not None:
        ends = (problem.sign * between).min(axis=0)[1:].tolist()
        hopes[1:] = [end if each.feasible else math.inf for end, each in zip(ends, found.alternatives, strict=True)]
    for plan in known:
        if plan in plans:
            hopes[plans.index(plan)] = -math.inf
        elif space_of(problem, plan).includes(problem.deployment, plan):
            plans, hopes = [*plans, plan], [*hopes, -math.inf]
    rows = sorted(range(len(plans)), key=hopes.__getitem__)
    return [hopes[row] for row in rows], [plans[row] for row in rows]


def _roomier(problem: Problem, propose: Propose, count: int, searching: Deadline) -> tuple[list[ExecutionPlan], int]:
    """Up to `count` plans with head room by the problem's cost model, and the number of its estimates."""
    asked = with_room(problem, REFUTED, searching)
    if asked is None:
        return [], 0
    found = _proposed(asked, propose, count)
    plans = [found.plan, *(each.plan for each in found.alternatives if each.feasible)]
    return plans if found.feasible else [], found.evaluations


def _told(asked: Problem, found: Estimated, plan: ExecutionPlan) -> str:
    """The simulated values of the limited quantiles of a plan, in words; empty if none is limited."""
    names = list(asked.requirements.at_most)
    if found.reached is None or not asked.requirements.quantiles:
        return ""
    reached = found.reached[found.plans.index(plan)]
    words = [f"{name} = {reached[names.index(name)]:.3g} s" for name in asked.requirements.quantiles]
    return f"simulated: {', '.join(words)}"


def _cheapest(problem: Problem, asked: Problem, propose: Propose, count: int) -> Solution:
    """The solution of an optimizer that looks for the fewest or cheapest hosts: the first of its plans that fulfils the
    requirements in the simulator. If none of `count` does, it is asked again: for lower means if some plan misses
    nothing but a limit (as if quantiles shrank with means), else for more head room; until none that it proposes
    fulfils this, or the time is up."""
    deadline, searching, required = Deadline.of(None, problem.stopped), problem.deadline(), problem.requirements
    first, tried, plans, evaluations = None, list[Estimated](), list[ExecutionPlan](), 0
    for _ in range(STEPS if asked.requirements.quantiles else 1):
        seconds = None if problem.seconds is None else searching.left_s
        proposed = _proposed(replace(problem, requirements=required, seconds=seconds), propose, count)
        evaluations += proposed.evaluations
        if first is not None and not proposed.feasible:
            break
        first = first or proposed
        new = [plan for plan in (proposed.plan, *(each.plan for each in proposed.alternatives)) if plan not in plans]
        tried += [_simulated(asked, new[:count], deadline)] if new else []
        plans += tried[-1].plans if new else []
        if tried[-1].feasible.any() or searching.over:
            break
        required = _stricter(required, asked, tried[-1])
    assert first is not None
    return _first_that_holds(asked, replace(first, evaluations=evaluations), Estimated.joined(tried, plans))


def _stricter(required: Requirements, asked: Problem, found: Estimated) -> Requirements:
    """Requirements with shorter means if some simulated plan misses nothing but its limits, by the share by which the
    nearest does; else with more head room."""
    if found.reached is not None and found.missed is not None and required.at_most:
        over = np.maximum(0.0, found.reached / list(asked.requirements.at_most.values()) - 1.0).max(axis=1)
        alone = found.runs & (found.missed <= over)
        if alone.any():
            factor = max(STEP, 1.0 + float(over[alone].min()))
            return replace(required, at_most={name: most_s / factor for name, most_s in required.at_most.items()})
    room = asked.requirements.head_room if required.head_room is None else required.head_room
    return replace(required, head_room=(1.0 + (room or 0.0)) * STEP - 1.0)


def _first_that_holds(asked: Problem, first: Solution, found: Estimated) -> Solution:
    """Solution with the first plan that fulfils the requirements in the simulator, else that misses them least."""
    row = int(found.feasible.argmax() if found.feasible.any() else best_first(ranks(asked, found))[0])
    chosen = found.candidate(row)
    refuted = f"{row} better plans did not hold in simulation; this one does" if row else first.message
    if not chosen.feasible:
        refuted = f"none of {len(found.plans)} plans held in simulation"
    refuted = said(refuted, _told(asked, found, chosen.plan))
    others = tuple(found.candidate(other) for other in range(len(found.plans)) if other != row)
    return replace(
        first,
        status=Status.FEASIBLE,
        plan=chosen.plan,
        objective=chosen.objective,
        bound=None,
        evaluations=first.evaluations + len(found.plans),
        simulated=len(found.plans),
        alternatives=others,
        message=refuted,
        runs=chosen.runs,
        fulfils=chosen.fulfils,
    )


def _simulated(
    problem: Problem, plans: list[ExecutionPlan], deadline: Deadline, hopes: Sequence[float] = ()
) -> Estimated:
    """Simulates plans one after the other, until the time is up, or no hope left is better than the best so far. hopes:
    as in `_in_order`; ascending."""
    parts, best = list[Estimated](), math.inf
    for plan, hope in zip(plans, hopes or repeat(-math.inf), strict=False):
        if parts and (deadline.over or hope >= best):
            break
        parts.append(estimate(problem, [plan]))
        best = min(best, problem.sign * float(parts[-1].objective[0])) if parts[-1].feasible[0] else best
        problem.tell("plans simulated", len(parts), len(plans))
    return Estimated.joined(parts, plans[: len(parts)])
