"""Costream's choice among candidates (Section V): drop what is predicted to fail or to be backpressured, take the best.

If everything would be dropped, the candidate least likely to fail or be backpressured is kept. Ties go to the better
target metric, then to the plan whose text comes first, so the choice depends neither on order nor on chance.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Sequence

import numpy as np

from optimizers.interface import OBJECTIVES, Candidate, Problem, Solution, Status
from twin.plan import ExecutionPlan

ALTERNATIVES = 5
NOTHING_SANE = "every plan looked at is predicted to fail or to be backpressured; this one is the least likely to"

Key = tuple[bool, float, float, str]


def estimate(problem: Problem, plans: Sequence[ExecutionPlan]) -> list[Candidate]:
    """The plans with what the cost model says of them. Raises ValueError if it says NaN."""
    found = problem.cost_model.predict(problem.deployment, plans)
    values = getattr(found, problem.objective)
    if np.isnan(values).any() or np.isnan(found.backpressured).any() or np.isnan(found.success).any():
        raise ValueError(f"cost model {problem.cost_model.name!r} predicts NaN")
    return [
        Candidate(plan, float(value), float(backpressured), float(success))
        for plan, value, backpressured, success in zip(plans, values, found.backpressured, found.success, strict=True)
    ]


def key(problem: Problem, candidate: Candidate) -> Key:
    """Sorts candidates from best to worst."""
    cost = candidate.objective if OBJECTIVES[problem.objective] == "min" else -candidate.objective
    risk = 0.0 if candidate.sane else 1.0 - (1.0 - candidate.backpressured) * candidate.success
    return not candidate.sane, risk, cost, str(sorted(candidate.plan.placement.items()))


def choose(
    problem: Problem, candidates: Iterable[Candidate], *, evaluations: int, started_s: float, complete: bool
) -> Solution:
    """The best candidate as a solution.

    started_s: time.perf_counter() when planning began. complete: the candidates are all valid plans. Raises
    ValueError without candidates.
    """
    ranked = sorted(candidates, key=lambda candidate: key(problem, candidate))
    if not ranked:
        raise ValueError("nothing to choose from")
    best = ranked[0]
    proved = Status.OPTIMAL if best.sane else Status.INFEASIBLE
    return Solution(
        status=proved if complete else Status.FEASIBLE,
        plan=best.plan,
        objective=best.objective,
        bound=best.objective if complete and best.sane and math.isfinite(best.objective) else None,
        evaluations=evaluations,
        seconds=time.perf_counter() - started_s,
        alternatives=tuple(ranked[1 : 1 + ALTERNATIVES]),
        message="" if best.sane else NOTHING_SANE,
        sane=best.sane,
    )
