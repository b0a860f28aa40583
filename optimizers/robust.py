"""A plan at the edge is exchanged for one that surely keeps up, where that costs hardly more.

Among plans of about the same latency, one may use a host to 99 % and another to 70 %. Both are said to keep up; of the
former a run shows backpressure as often as not. No search that only asks for the lowest latency tells them apart.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from optimizers.deadline import Deadline
from optimizers.interface import OBJECTIVES, Candidate, Optimizer, Problem, Solution, Status
from optimizers.selection import said

SURE = 0.2
"""Probability of backpressure below which a plan surely keeps up; the rate model says so up to 93 % of its pressure."""
PREMIUM = 0.01
"""Relative; what that may cost at most."""
ROOM = 0.1
"""Share of the offered rates; what bears so much more is sure."""
EXCHANGED = "as good a plan is at the edge of backpressure; this one surely keeps up"


def surer(problem: Problem, best: Candidate, others: Sequence[Candidate]) -> Candidate:
    """The first of the others that surely keeps up and hardly costs more, if the best does not; else the best."""
    if OBJECTIVES[problem.objective] != "min" or not best.sane or best.backpressured < SURE:
        return best
    most = best.objective * (1.0 + PREMIUM)
    return next((o for o in others if o.sane and o.backpressured < SURE and o.objective <= most), best)


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
