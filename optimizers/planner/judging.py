"""The incumbent: the plan that a user already has is a candidate of every optimizer, so that no answer is worse.

An optimizer sees its own kind of plans (one socket an operator, other numbers of replicas, a sample); the plan that
stands in the scenario may be none of these and still be better. Here it is estimated beside the optimizer's answer by
the problem's cost model, and kept unless that is better. This is also where an answer outside the problem's space is
refused, whatever optimizer gave it.

A plan at the edge is exchanged for one that surely keeps up, where that costs hardly more. Among plans of about equal
latency, one may use a host to 99 % and another to 70 %. Both are said to keep up; of the former a run shows
backpressure as often as not. No search that only asks for the lowest latency tells them apart.
"""

from __future__ import annotations

import time
from dataclasses import replace

import numpy as np

from optimizers.deadline import Deadline
from optimizers.interface import (
    OBJECTIVES,
    Candidate,
    Optimizer,
    Problem,
    Solution,
    Status,
    traits_of,
)
from optimizers.plugins import fitting
from optimizers.selection import Estimated, as_close, estimate, goodness, insane, said, surer
from twin.errors import BadInput

KEPT = "nothing better than the given plan was found, which is kept"
OUTSIDE = "the given plan is not one of those that may be chosen"
STOPPED = "stopped; the best so far"
LATE = "time was up after {seconds:g} s; the best so far"
JUDGED = 2
"""The given plan and the optimizer's, estimated side by side."""
CLOSE = 1e-5
"""Relative; a proof holds to this, so a given plan that is better by no more does not refute it."""


def kept(problem: Problem, optimizer: Optimizer) -> Solution:
    """The optimizer's answer, or the given plan. The estimates of both are part of the budget, unless that is for less
    than one plan beside them.

    Raises BadInput if the optimizer cannot take the problem, or answers with a plan that is not in its space;
    AnswerError if what it answers is no solution of the job."""
    started_s = time.perf_counter()
    problem.space.check(problem.deployment)
    deadline = problem.deadline()
    found = fitting(problem, optimizer.solve(replace(problem, budget=max(1, problem.budget - JUDGED))))
    if not _holds(problem, found):
        raise BadInput(
            f"{optimizer.name} cannot keep to the space ({problem.space.words(problem.deployment)}); "
            "use local-search, milp or exhaustive"
        )
    stopped = deadline.over and found.status is Status.FEASIBLE
    judged = estimate(problem, [problem.deployment.plan, found.plan])
    if traits_of(optimizer).by_objective:
        sure = exchanged(problem, optimizer, found, judged.candidate(1), deadline)
        if sure.plan != found.plan:
            judged = estimate(problem, [problem.deployment.plan, sure.plan])
        found = _better(problem, sure, judged)
    early = "" if not stopped else STOPPED if problem.stopped() else LATE.format(seconds=problem.seconds)
    return replace(
        found,
        message=said(early, found.message),
        given=judged.candidate(0),
        evaluations=found.evaluations + len(judged.plans),
        seconds=time.perf_counter() - started_s,
    )


def _holds(problem: Problem, found: Solution) -> bool:
    return found.plan == problem.deployment.plan or problem.space.includes(problem.deployment, found.plan)


def _better(problem: Problem, found: Solution, judged: Estimated) -> Solution:
    """The found plan, or the given one if that is no worse. judged: the given plan, and the found one."""
    given, other = judged.candidate(0), judged.candidate(1)
    if found.plan == given.plan:
        return replace(found, message=said(KEPT, found.message))
    if not problem.space.includes(problem.deployment, given.plan):
        return replace(found, message=said(found.message, OUTSIDE))
    mine, theirs = goodness(problem, judged).T
    if surer(problem, given, [other]) is other:
        return found if tuple(theirs) <= tuple(mine) else _unproved(problem, found, given)
    if tuple(theirs) < tuple(mine) and not _as_bad(mine, theirs):
        return found
    kept = replace(
        found,
        plan=given.plan,
        objective=given.objective,
        sane=given.sane,
        alternatives=(other, *(each for each in found.alternatives if each.plan != given.plan))[: problem.alternatives],
        message=said(KEPT, insane(problem, given)),
    )
    if _agrees(found, given, other) or found.status is Status.INFEASIBLE:
        return kept
    return _unproved(problem, kept, given)


def _unproved(problem: Problem, found: Solution, given: Candidate) -> Solution:
    """Without the claims that the given plan refutes."""
    refuted = OBJECTIVES[problem.objective] == "min" or found.bound is None or given.objective > found.bound
    return replace(found, status=Status.FEASIBLE, bound=None if refuted else found.bound)


def _as_bad(mine: np.ndarray, theirs: np.ndarray) -> bool:
    """Whether neither plan keeps up, and what the found one gains (columns of `goodness`) is within the model's
    error."""
    return bool(mine[0] and theirs[0] and mine[1] == theirs[1] and as_close(theirs[2], mine[2]))


def _agrees(found: Solution, given: Candidate, other: Candidate) -> bool:
    """Whether what is claimed of the found plan holds of the given one too."""
    as_good = abs(given.objective - other.objective) <= CLOSE * abs(other.objective)
    return given.sane == found.sane and as_good


ROOM = 0.1
"""Share of the offered rates; what bears so much more is sure."""
EXCHANGED = "as good a plan is at the edge of backpressure; this one surely keeps up"


def with_room(problem: Problem, room: float, deadline: Deadline, spent: int = 0) -> Problem | None:
    """The same, of plans with so much head room at least, for what is left of the budget and of the time; None if
    that is nothing."""
    room = max(room, problem.requirements.head_room or 0.0)
    if spent >= problem.budget or deadline.over:
        return None
    seconds = None if problem.seconds is None else deadline.left_s
    required = replace(problem.requirements, head_room=room)
    return replace(problem, requirements=required, budget=problem.budget - spent, seconds=seconds)


def exchanged(problem: Problem, optimizer: Optimizer, found: Solution, best: Candidate, deadline: Deadline) -> Solution:
    """The solution, or its first surer alternative, or what the optimizer finds when it is asked for head room. best:
    the solution's plan."""
    asked = with_room(problem, ROOM, deadline, found.evaluations)
    chosen = surer(problem, best, found.alternatives)
    if chosen is best and asked is not None and surer(problem, best, [replace(best, backpressured=0.0)]) is not best:
        again = optimizer.solve(asked)
        kept_to = problem.space.includes(problem.deployment, again.plan)
        other = Candidate(again.plan, again.objective, 0.0, 1.0, again.sane and kept_to)
        found = replace(found, evaluations=found.evaluations + again.evaluations)
        chosen = surer(problem, best, [other])
    if chosen is best:
        return found
    return replace(
        found,
        status=Status.FEASIBLE,
        plan=chosen.plan,
        objective=chosen.objective,
        alternatives=(best, *(each for each in found.alternatives if each is not chosen))[: problem.alternatives],
        message=said(EXCHANGED, found.message),
    )
