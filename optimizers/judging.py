"""Judges an optimizer's answer beside the incumbent, the plan that the user already has, so that no answer is worse.

An optimizer sees its own kind of plans (one socket an operator, other numbers of subtasks, a sample); the plan that
stands in the scenario may be none of these and still be better. Here it is estimated beside the optimizer's answer by
the problem's cost model, and kept unless that is better. This is also where an answer outside the problem's space is
refused, whatever optimizer gave it.

A new plan is deployed by stopping the job, so the given plan is kept unless another one is better by more than runs can
tell apart. Of equally good plans, the one that moves the fewest subtasks is taken, and then the one that sends the
fewest bytes over the network.

A plan at the edge is exchanged for one that surely keeps up, where that costs hardly more. Among plans of about equal
latency, one may use a host to 99 % and another to 70 %. Both are predicted to keep up, but runs of the former show
backpressure as often as not. No search for the lowest latency alone tells them apart.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from optimizers.interface import Candidate, Deadline, Optimizer, Problem, Solution, Status, Traits, traits_of
from optimizers.objectives import changed, traffic
from optimizers.plugins import fitting
from optimizers.selection import SURE, Estimated, answering, as_close, estimate, ranks, safer, said, shortfall
from optimizers.space import Space, as_plans, counts_of, subtasks_of
from twin.errors import BadInput
from twin.plan import ExecutionPlan
from twin.quantities import written

# the given plan, and the found one -----------------------------------------------------------------------------------


WORTH = 0.01
"""Relative gain over the given plan above which a plan is worth its moves."""
HARDLY = "the best plan found is {by:.2f} % better, which is not worth its moves, so the given plan is kept"
KEPT = "nothing better than the given plan was found, so it is kept"
CLAIMED = "the optimizer claims {objective} = {claimed}, and the cost model {model} says {found}"
OUTSIDE = "the given plan is not one of those that may be chosen"
STOPPED = "stopped; the best so far"
LATE = "time was up after {seconds:g} s; the best so far"
JUDGED = 2
"""Number of plans estimated side by side: the given one and the optimizer's."""
SPARED = 0.1
"""Largest share of the budget for taking moves back."""
SEEN = 5e-5
"""Relative gain below which words would say 0.00 %."""
CLOSE = 1e-5
"""Relative tolerance of proofs: a given plan that is better by no more does not refute one."""


def kept(problem: Problem, optimizer: Optimizer) -> Solution:
    """Solution of the optimizer, or with the given plan. The estimates of both are part of the budget, unless that
    leaves the optimizer less than one plan.

    Raises BadInput if the optimizer cannot take the problem, or answers with a plan that is not in its space;
    AnswerError if its answer is no solution of the job."""
    started_s = time.perf_counter()
    problem.space.check(problem.deployment)
    deadline = problem.deadline()
    traits = traits_of(optimizer)
    spared = min(int(SPARED * problem.budget), 2 * len(problem.deployment.query.operators))
    beside = JUDGED + (spared if traits.by_objective else JUDGED)
    found = fitting(problem, optimizer.solve(replace(problem, budget=max(1, problem.budget - beside))))
    found = _in_slots(problem, found)
    if found.plan != problem.deployment.plan and not problem.space.includes(problem.deployment, found.plan):
        raise BadInput(
            f"{optimizer.name} cannot keep to the space ({problem.space.words(problem.deployment)}); "
            "use local-search, milp or exhaustive"
        )
    stopped = deadline.over and found.status is Status.FEASIBLE
    judged = estimate(problem, [problem.deployment.plan, found.plan])
    found = replace(found, evaluations=found.evaluations + JUDGED)
    if traits.by_objective:
        found = _as_judged(problem, found, judged.candidate(1))
        sure = exchanged(problem, optimizer, found, judged.candidate(1), deadline, JUDGED + spared)
        if sure.plan != found.plan:
            judged = estimate(problem, [problem.deployment.plan, sure.plan])
            sure = replace(sure, evaluations=sure.evaluations + JUDGED)
        found = better(problem, sure, judged)
        if found.plan != problem.deployment.plan and not deadline.over:
            spared = min(spared, problem.budget - found.evaluations)
            ruled = replace(problem.space, costream_rules=problem.space.costream_rules or traits.costream_rules)
            found = with_fewest_moves(replace(problem, space=ruled), found, judged.candidate(1), spared)
    elif traits.goal is not None:
        found = _unless_reached(problem, found, judged, traits)
    return replace(
        found,
        message=said(early(problem) if stopped else "", found.message),
        given=judged.candidate(0),
        seconds=time.perf_counter() - started_s,
    )


def _as_judged(problem: Problem, found: Solution, judged: Candidate) -> Solution:
    """The solution, with the estimates of the problem's cost model in place of what its optimizer claims, if they
    differ; there is no proof then."""
    if not abs(found.objective - judged.objective) > CLOSE * max(abs(found.objective), abs(judged.objective)):
        return found
    claimed, estimated = (written(each.objective, 4) for each in (found, judged))
    told = CLAIMED.format(objective=problem.objective, claimed=claimed, model=problem.cost_model.name, found=estimated)
    return replace(
        found,
        objective=judged.objective,
        runs=judged.runs,
        fulfils=judged.fulfils,
        status=Status.FEASIBLE,
        bound=None,
        message=said(told, found.message),
    )


def early(problem: Problem) -> str:
    """Why a search was ended before its end, in words."""
    return STOPPED if problem.stopped() else LATE.format(seconds=problem.seconds)


def _unless_reached(problem: Problem, found: Solution, judged: Estimated, traits: Traits) -> Solution:
    """The solution of an optimizer with a goal of its own, or the given plan if that reaches the goal as well. judged:
    the given plan and the found one, by the problem's objective."""
    asked = replace(problem, objective=traits.goal or problem.objective, requirements=traits.required(problem))
    given, other = judged.candidate(0), judged.candidate(1)
    found = replace(found, evaluations=found.evaluations + JUDGED)
    chosen = better(asked, found, estimate(asked, judged.plans))
    if chosen.plan == found.plan:
        return found
    others = (other, *(each for each in found.alternatives if each.plan != given.plan))[: problem.alternatives]
    return replace(chosen, objective=given.objective, alternatives=others, message=said(KEPT, found.message))


def unless_given(problem: Problem, found: Solution) -> Solution:
    """The solution, or the given plan if that is as good by the problem's cost model, or hardly worse."""
    judged = estimate(problem, [problem.deployment.plan, found.plan])
    found = replace(found, evaluations=found.evaluations + JUDGED)
    return replace(better(problem, found, judged), given=judged.candidate(0))


def with_fewest_moves(problem: Problem, found: Solution, best: Candidate, most: int) -> Solution:
    """The solution with an equally good plan that moves fewer subtasks: an alternative, or the plan with the moves of
    an operator or of both ends of a stream taken back. best: the solution's plan. most: plans to estimate at most."""
    given = problem.deployment.plan
    equals = [best, *(each for each in found.alternatives if _as_good(problem, found, each, best))]
    here = min(equals, key=lambda each: _disturbance(problem, each.plan))
    asked = 0
    while (left := most - asked) > 0 and here.feasible:
        names = [name for name, places in here.plan.placement.items() if places != given.placement[name]]
        pairs = [(each.producer, each.consumer) for each in problem.deployment.query.streams]
        back = [(name,) for name in names] + [pair for pair in pairs if {*pair} <= {*names}]
        plans = [
            here.plan.with_placement({**here.plan.placement, **{name: given.placement[name] for name in some}})
            for some in back
        ]
        plans = [plan for plan in plans if plan != given and _valid(problem, plan)][:left]
        if not plans:
            break
        judged, asked = estimate(problem, plans), asked + len(plans)
        equals = [each for each in map(judged.candidate, range(len(plans))) if _as_good(problem, found, each, best)]
        if not equals:
            break
        here = min(equals, key=lambda each: _disturbance(problem, each.plan))
    found = replace(found, evaluations=found.evaluations + asked)
    return answering(problem, found, here, best)


def _valid(problem: Problem, plan: ExecutionPlan) -> bool:
    try:
        problem.scenario.with_plan(plan)
    except BadInput:
        return False
    return space_of(problem, plan).includes(problem.deployment, plan)


def space_of(problem: Problem, plan: ExecutionPlan) -> Space:
    """Space of the problem; with slots, where the engine has them, for a plan of other numbers of subtasks."""
    scaled = (counts_of(problem.deployment, plan).sum(axis=1) != subtasks_of(problem.deployment)).any()
    return problem.settled(free_subtasks=True).space if scaled else problem.space


def _as_good(problem: Problem, found: Solution, one: Candidate, best: Candidate) -> bool:
    """Whether `one` is feasible, keeps up as surely as `best`, is no worse within the tolerance of proofs, and is
    behind in the second number by no more than a move is worth; nor better than a plan proved to be the best."""
    behind = problem.sign * (one.objective - best.objective) / max(abs(best.objective), 1e-300)
    sure = one.backpressured < SURE or one.backpressured <= best.backpressured
    as_good = behind <= CLOSE and one.second <= (1.0 + WORTH) * best.second
    as_good &= behind >= -CLOSE or found.status is not Status.OPTIMAL
    return one.feasible and sure and as_good


def _disturbance(problem: Problem, plan: ExecutionPlan) -> tuple[int, float]:
    """Number of subtasks that a plan moves, stops and starts, and its bytes a second on the network."""
    job = problem.deployment
    return int(changed(job, [plan])[0]), float(traffic(job, [plan])[0])


def _in_slots(problem: Problem, found: Solution) -> Solution:
    """The solution with its subtasks in slots, if the engine has slots and numbers of subtasks changed. A plan that is
    changed has no proof and no bound."""
    job, space = problem.deployment, space_of(problem, found.plan)
    if not space.has_slots(job) or space.includes(job, found.plan):
        return found
    plan = as_plans(job, space.deployable(job, counts_of(job, found.plan))[None])[0]
    judged, asked = estimate(problem, [plan]).candidate(0), found.evaluations + 1
    return replace(
        found,
        status=Status.FEASIBLE,
        plan=plan,
        objective=judged.objective,
        bound=None,
        runs=judged.runs,
        fulfils=judged.fulfils,
        evaluations=asked,
    )


def better(problem: Problem, found: Solution, judged: Estimated) -> Solution:
    """Solution with the found plan, or the given one if that is no worse. judged: the given plan, then the found
    one."""
    given, other = judged.candidate(0), judged.candidate(1)
    if found.plan == given.plan:
        return replace(found, message=said(KEPT, found.message))
    if not problem.space.includes(problem.deployment, given.plan):
        return replace(found, message=said(found.message, OUTSIDE))
    mine, theirs = map(tuple, ranks(problem, judged).T)
    if safer(problem, given, [other]) is other:
        return found if theirs <= mine else _unproved(problem, found, given)
    moves = found.plan.placement != given.plan.placement  # a change of chains alone moves no subtask
    is_better, by = theirs < mine, _gain(problem, judged) if moves else None
    if is_better and not _as_bad(mine, theirs) and by is None:
        return found
    why = KEPT if not is_better or not by or by < SEEN else HARDLY.format(by=100.0 * by)
    stays = replace(answering(problem, found, given, other), message=said(why, shortfall(problem, given)))
    if _agrees(found, given, other) or found.status is Status.INFEASIBLE:
        return stays
    return _unproved(problem, stays, given)


def _unproved(problem: Problem, found: Solution, given: Candidate) -> Solution:
    """Solution without the claims that the given plan refutes."""
    refuted = found.bound is None or problem.sign * given.objective < problem.sign * found.bound
    return replace(found, status=Status.FEASIBLE, bound=None if refuted else found.bound)


def _gain(problem: Problem, judged: Estimated) -> float | None:
    """Relative gain of the found plan over the given one, if both keep up and the gain is below WORTH or could be
    chance; else None. Of equal prices, or equal traffic, the gain is that in latency."""
    gain = problem.sign * _gained(judged.objective)
    equal = judged.second is not None and abs(gain) <= CLOSE
    if equal and judged.second is not None:
        gain = _gained(judged.second)
    chance = float(judged.error.max()) if judged.error is not None and (equal or judged.second is None) else 0.0
    return gain if judged.feasible.all() and gain <= max(WORTH, chance) else None


def _gained(values: np.ndarray) -> float:
    given, found = values
    return float((given - found) / max(abs(found), 1e-300))


def _as_bad(mine: Sequence[float], theirs: Sequence[float]) -> bool:
    """Whether neither plan keeps up, and the gain of the found one, by `ranks`, is within the model's error."""
    return bool(mine[0] and theirs[0] and as_close(theirs[1], mine[1]) and as_close(theirs[2], mine[2]))


def _agrees(found: Solution, given: Candidate, other: Candidate) -> bool:
    """Whether the claims about the found plan hold of the given one too."""
    as_good = abs(given.objective - other.objective) <= CLOSE * abs(other.objective)
    return given.feasible == found.feasible and as_good


# plans at the edge ---------------------------------------------------------------------------------------------------


ROOM = 0.1
"""Head room, as a share of the offered rates, with which a plan surely keeps up."""
EXCHANGED = "as good a plan is at the edge of backpressure; this one surely keeps up"


def with_room(problem: Problem, room: float, deadline: Deadline, spent: int = 0) -> Problem | None:
    """Problem of plans with at least so much head room, for the budget and the time left; None if nothing is left."""
    room = max(room, problem.requirements.head_room or 0.0)
    if spent >= problem.budget or deadline.over:
        return None
    seconds = None if problem.seconds is None else deadline.left_s
    required = replace(problem.requirements, head_room=room)
    return replace(problem, requirements=required, budget=problem.budget - spent, seconds=seconds)


def exchanged(
    problem: Problem, optimizer: Optimizer, found: Solution, best: Candidate, deadline: Deadline, beside: int
) -> Solution:
    """Solution, or its first safer alternative, or the optimizer's answer when it is asked for head room. best: the
    solution's plan. beside: estimates that are kept for later steps."""
    asked = with_room(problem, ROOM, deadline, found.evaluations + beside)
    chosen = safer(problem, best, found.alternatives)
    if chosen is best and asked is not None and safer(problem, best, [replace(best, backpressured=0.0)]) is not best:
        again = optimizer.solve(asked)
        kept_to = space_of(problem, again.plan).includes(problem.deployment, again.plan)
        other = Candidate(again.plan, again.objective, 0.0, 1.0, again.feasible and kept_to)
        found = replace(found, evaluations=found.evaluations + again.evaluations)
        chosen = safer(problem, best, [other])
    if chosen is best:
        return found
    safe = answering(problem, found, chosen, best)
    return replace(safe, status=Status.FEASIBLE, message=said(EXCHANGED, found.message))
