"""Chosen twice: an optimizer's best plans by a cheap cost model are estimated again by a truer one, the simulator.

The harder one searches under one imperfect model, the more one finds its errors: the plan that it likes best is likely
one that it underestimates. Among the best few, the truer model finds out.
"""

from __future__ import annotations

import time
from dataclasses import replace

from optimizers.deadline import Deadline
from optimizers.interface import Problem, Propose, Solution, Status, Traits
from optimizers.planner.judging import STOPPED, with_room
from optimizers.selection import Estimated, choose, estimate, said
from twin.metrics import CostModel
from twin.plan import ExecutionPlan

UNPROVED = "not simulated"
REFUTED = 0.2
"""Head room, as a share of the offered rates, of the plans that are simulated next if none of the best keeps up."""


def proved(problem: Problem, propose: Propose, traits: Traits, truth: CostModel, count: int) -> Solution:
    """What is proposed and its next best, `count` >= 1 plans in all, judged by `truth`; and the given plan, if who
    proposes looked at it. If none of these keeps up though that said so, as many more are judged that have head room by
    the problem's cost model.

    An optimizer with a goal of its own (the fewest hosts) keeps its order; the first plan that does is taken.
    `evaluations` counts those of both models. Nothing is proved about plans outside: `bound` is None.
    """
    started_s = time.perf_counter()
    deadline, searching = Deadline.of(None, problem.stopped), problem.deadline()
    first = propose(replace(problem, alternatives=max(problem.alternatives, count - 1)))
    plans = [first.plan, *(each.plan for each in first.alternatives)][:count]
    given = None if first.given is None or not traits.by_objective else first.given.plan
    if given is not None and given not in plans and problem.space.includes(problem.deployment, given):
        plans.append(given)
    if deadline.over:
        return replace(first, message=said(first.message, UNPROVED))
    asked = replace(problem, cost_model=truth)
    if not traits.by_objective:
        asked = replace(asked, requirements=traits.required(problem))
        return _first_that_holds(first, _simulated(asked, plans, deadline))
    found, estimated_again = _simulated(asked, plans, deadline), 0
    if first.sane and not found.sane.any() and not deadline.over:
        roomier, estimated_again = _roomier(problem, propose, count, searching)
        plans += [plan for plan in roomier if plan not in plans]
        more = [found, *([_simulated(asked, new, deadline)] if (new := plans[len(found.plans) :]) else [])]
        found = Estimated.joined(more, plans[: sum(len(each.plans) for each in more)])
    evaluations = first.evaluations + estimated_again + len(found.plans)
    chosen = choose(problem, found, evaluations=evaluations, started_s=started_s, complete=False)
    if len(found.plans) < len(plans):
        chosen = replace(chosen, message=said(STOPPED, chosen.message))
    judged = given is not None and given in found.plans
    return replace(chosen, given=found.candidate(plans.index(given)) if given and judged else first.given)


def _roomier(problem: Problem, propose: Propose, count: int, searching: Deadline) -> tuple[list[ExecutionPlan], int]:
    """As many plans that have head room by the problem's cost model, where none of the best held, and how many
    that model was asked about."""
    asked = with_room(problem, REFUTED, searching)
    if asked is None:
        return [], 0
    found = propose(replace(asked, alternatives=max(problem.alternatives, count - 1)))
    plans = [found.plan, *(each.plan for each in found.alternatives if each.sane)]
    return plans[:count] if found.sane else [], found.evaluations


def _first_that_holds(first: Solution, found: Estimated) -> Solution:
    """Of an optimizer with another goal: its order stays, without the plans that do not do in the simulator."""
    row = int(found.sane.argmax())
    chosen = found.candidate(row)
    refuted = f"{row} better plans did not bear it in simulation; this one does" if row else first.message
    if not chosen.sane:
        refuted = f"none of {len(found.plans)} plans bore it in simulation"
    others = tuple(found.candidate(other) for other in range(len(found.plans)) if other != row)
    return replace(
        first,
        status=Status.FEASIBLE,
        plan=chosen.plan,
        objective=chosen.objective,
        bound=None,
        evaluations=first.evaluations + len(found.plans),
        alternatives=others,
        message=refuted,
        sane=chosen.sane,
    )


def _simulated(problem: Problem, plans: list[ExecutionPlan], deadline: Deadline) -> Estimated:
    """One after the other, until somebody stops."""
    parts: list[Estimated] = []
    for plan in plans:
        if parts and deadline.over:
            break
        parts.append(estimate(problem, [plan]))
        problem.tell("plans simulated", len(parts), len(plans))
    return Estimated.joined(parts, plans[: len(parts)])
