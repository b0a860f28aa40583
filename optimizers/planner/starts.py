"""Starts: plans that the rate model finds for each load, candidates of every planner whose cost model is another one.

A learned model, or the simulator among a few plans, is worth what it adds to these. So its answer is never worse than
the best of them, by its own judgement.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace

from optimizers.deadline import Deadline
from optimizers.interface import Optimizer, Problem, Propose, Solution, Status, Traits
from optimizers.loads import MEAN, loads_of, planned_for, rates_at
from optimizers.planner.judging import CLOSE, early, kept, unless_given
from optimizers.selection import dealt_anew, estimate, goodness, ranked, said, surer
from twin.errors import BadInput
from twin.plan import ExecutionPlan

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
            ruled = asked.settled(free_replicas=False, costream_rules=traits.costream_rules)
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
    best = surer(problem, ranked(problem, judged, 1)[0], [own])
    mine, theirs = (goodness(problem, judged)[:, judged.plans.index(each.plan)] for each in (own, best))
    if tuple(theirs[:3]) >= (mine[0], mine[1], mine[2] - CLOSE * abs(mine[2])):
        return found
    name = next(name for name, each in found.starts.items() if each.plan == best.plan)
    chosen = replace(
        found,
        status=Status.FEASIBLE,
        plan=best.plan,
        objective=best.objective,
        bound=None,
        among="",
        runs=best.runs,
        fulfils=best.fulfils,
        alternatives=(own, *(each for each in found.alternatives if each.plan != best.plan))[: problem.alternatives],
        message=said(early(problem) if deadline.over else "", BETTER.format(name=name), dealt_anew(problem, best.plan)),
    )
    return unless_given(problem, chosen)
