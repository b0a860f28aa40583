"""Rows of problems that have an answer of another kind than a placement: regret to the best of all that answered."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace

from scenarios.planning.validation import REFUSED, ValidationRow

ANSWERED = "feasible"


@dataclass(frozen=True, slots=True)
class Answer:
    """cost: what came of it, lower is better. kind: of two kinds the lower is better, whatever the costs. plan_s:
    seconds of planning. refusal: why there is no answer."""

    optimizer: str
    cost_model: str
    cost: float = math.inf
    kind: int = 0
    plan_s: float = 0.0
    predicted: float | None = None
    refusal: str = ""


def rows(problem: str, objective: str, answers: Iterable[Answer], *, worst: float | None = None) -> list[ValidationRow]:
    """One an answer. worst: cost of doing nothing; then regret is the share of what can be gained that is not."""
    listed = list(answers)
    given = [each for each in listed if not each.refusal]
    best = min(given, key=lambda each: (each.kind, each.cost), default=None)
    return [_row(_named(problem, objective, each), each, best, worst) for each in listed]


def _named(problem: str, objective: str, answer: Answer) -> ValidationRow:
    return ValidationRow(
        scenario=problem,
        optimizer=answer.optimizer,
        cost_model=answer.cost_model,
        objective=objective,
        status=REFUSED if answer.refusal else ANSWERED,
        message=answer.refusal,
    )


def _row(row: ValidationRow, answer: Answer, best: Answer | None, worst: float | None) -> ValidationRow:
    if answer.refusal or best is None:
        return row
    return replace(
        row,
        predicted=answer.predicted,
        simulated=answer.cost,
        best=best.cost,
        regret=_regret(answer, best, worst),
        backpressured=answer.kind == 1,
        success=answer.kind < 2,
        plan_s=answer.plan_s,
    )


def _regret(answer: Answer, best: Answer, worst: float | None) -> float:
    if answer.kind != best.kind or not math.isfinite(answer.cost):
        return 0.0 if answer is best else math.inf
    gained = best.cost if worst is None else worst - best.cost
    return 0.0 if answer.cost == best.cost else (answer.cost - best.cost) / gained if gained > 0.0 else math.inf
