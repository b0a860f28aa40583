"""Costream's choice among candidates (Section V): drop what is predicted to fail or to be backpressured, take the best.

If everything would be dropped, the candidate least likely to fail or be backpressured is kept; among those about as
likely (all of them, for a job that no plan can bear) the target metric decides. Ties go to the better target metric,
then to the plan whose text comes first, so the choice depends neither on order nor on chance.
"""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from optimizers.interface import OBJECTIVES, Candidate, Problem, Solution, Status
from twin.metrics import BINARY_METRICS, Narrowable
from twin.plan import ExecutionPlan

RISK_STEP = 0.05
"""Of two plans that are both expected to fail, predicted probabilities closer than that say nothing."""

NOTHING_SANE = "every plan looked at is predicted to fail or to be backpressured; this one is the least likely to"


@dataclass(frozen=True, slots=True)
class Estimated:
    """N plans with what a cost model says of them; arrays [N] as the fields of a `Candidate`."""

    plans: Sequence[ExecutionPlan]
    objective: np.ndarray
    backpressured: np.ndarray
    success: np.ndarray

    def candidate(self, row: int) -> Candidate:
        """One of the plans."""
        numbers = (float(column[row]) for column in (self.objective, self.backpressured, self.success))
        return Candidate(self.plans[row], *numbers)


def estimate(problem: Problem, plans: Sequence[ExecutionPlan]) -> Estimated:
    """The plans with what the cost model says of them. Raises ValueError if it says NaN."""
    model = problem.cost_model
    if isinstance(model, Narrowable):
        model = model.only((problem.objective, *BINARY_METRICS))
    found = model.predict(problem.scenario, plans)
    columns = [np.asarray(found[metric]) for metric in (problem.objective, *BINARY_METRICS)]
    if any(np.isnan(column).any() for column in columns):
        raise ValueError(f"cost model {problem.cost_model.name!r} predicts NaN")
    return Estimated(plans, *columns)


def goodness(problem: Problem, found: Estimated) -> np.ndarray:
    """[3, N]: whether a plan is dropped, the risk for which, in steps, and its cost. Compared in this order; less is
    better."""
    sane = (found.backpressured < 0.5) & (found.success >= 0.5)
    risk = np.where(sane, 0.0, 1.0 - (1.0 - found.backpressured) * found.success)
    risk = np.round(risk / RISK_STEP)
    cost = found.objective if OBJECTIVES[problem.objective] == "min" else -found.objective
    return np.stack([~sane, risk, cost]).astype(float)


def ranked(problem: Problem, found: Estimated, count: int) -> list[Candidate]:
    """The best `count` candidates, from the best down."""
    columns = goodness(problem, found)
    order = np.lexsort(columns[::-1])
    last = columns[:, order[min(count, len(order)) - 1]]
    tied = (columns[:, order] == last[:, None]).all(axis=0)
    rows = order[: max(count, int(np.flatnonzero(tied)[-1]) + 1)]  # ties with the last go by their text
    best = [(tuple(columns[:, row]), found.candidate(int(row))) for row in rows]
    best.sort(key=lambda pair: (pair[0], _text(pair[1].plan)))
    return [candidate for _, candidate in best[:count]]


def _text(plan: ExecutionPlan) -> tuple[str, str]:
    """All of a plan, to compare."""
    return str(sorted(plan.placement.items())), str(sorted(plan.key_groups.items()))


def dealt_anew(problem: Problem, plan: ExecutionPlan) -> str:
    """What a plan cannot keep of the scenario's own; empty if there is nothing."""
    lost = problem.scenario.plan.lost_by(plan)
    return f"key groups of {', '.join(lost)} are dealt anew, for other numbers of replicas" if lost else ""


def said(*remarks: str) -> str:
    """Those that are not empty, as one message."""
    return "; ".join(filter(None, remarks))


def choose(problem: Problem, found: Estimated, *, evaluations: int, started_s: float, complete: bool) -> Solution:
    """The best candidate as a solution.

    started_s: time.perf_counter() when planning began. complete: the candidates are all valid plans. Raises
    ValueError without candidates.
    """
    if not len(found.plans):
        raise ValueError("nothing to choose from")
    best, *others = ranked(problem, found, 1 + problem.alternatives)
    proved = Status.OPTIMAL if best.sane else Status.INFEASIBLE
    return Solution(
        status=proved if complete else Status.FEASIBLE,
        plan=best.plan,
        objective=best.objective,
        bound=best.objective if complete and best.sane and math.isfinite(best.objective) else None,
        evaluations=evaluations,
        seconds=time.perf_counter() - started_s,
        alternatives=tuple(others),
        message=said("" if best.sane else NOTHING_SANE, dealt_anew(problem, best.plan)),
        sane=best.sane,
        among=problem.space.words(problem.deployment) if complete else "",
    )
