"""Validates chosen plans in the simulator: the predicted and the simulated objective, the regret, and the standings.

For each scenario the chosen plans of all optimizers and cost models are simulated with common random numbers, and
with them alternatives: all valid plans if they are few, else a uniform sample. The best of all of these is the
reference, so no regret can be negative. A plan that is backpressured or fails in the simulator is compared only with
its like: its regret is infinite if any plan is of a better kind. Standings have one line for each optimizer and cost
model: it is better if fewer scenarios are spoilt by such plans, refused or failed, then by its mean regret over the
others.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from optimizers.interface import Optimizer, Problem, Solution
from optimizers.objectives import NOTHING_MORE, OBJECTIVES, Requirements
from optimizers.planner import LOADS, RatesAt, rates_at
from optimizers.plugins import AnswerError, fitting
from optimizers.registry import BASELINES
from optimizers.space import ALL_PLANS, Space, SpacePlans, as_plans
from scenarios.beside import PredictionBesideRuns, doubts
from scenarios.executing import Processes
from scenarios.files.documents import CLOSED, Number
from scenarios.planning.bench import PlanBench, Simulate, half_width95, spared_s
from scenarios.planning.searching import SEARCHED
from twin.errors import BadInput, raised
from twin.metrics import BINARY_METRICS, OF_RESULTS, CostModel, estimates
from twin.plan import ExecutionPlan
from twin.randomness import random_stream
from twin.scenario import Scenario
from twin.work import Executor

REFUSED, FAILED = "refused", "failed"
UNASKED = BASELINES | {"as-given", SEARCHED}
"""Optimizers that choose without asking a cost model, or, as `searched`, take all loads at once."""
REFERENCES = 30
BUDGET = 300


@dataclass(frozen=True, slots=True, kw_only=True)
class ValidationRow:
    """Validation of one chosen plan, in the objective's own unit throughout: seconds, or records a second.

    status: of the solution; or "refused" (the optimizer cannot take the problem) or "failed" (it raised something else,
    or its plan is not in the space), with the reason in `message` and None below. predicted: by the cost model.
    simulated +- ci95: mean of the replications with its 95 % confidence interval (None for a single one).
    best: the best simulated plan known for the scenario. regret: simulated / best - 1 (best / simulated - 1 where
    more is better), >= 0; inf if the plan is backpressured or fails and another is not or does not. regret_ci95:
    half width from the replications, paired. references: plans that `best` was chosen from. beside: the prediction
    beside the runs; None for a plan that runs have chosen, or whose prediction is of another load.
    """

    scenario: str
    optimizer: str
    cost_model: str
    objective: str
    status: str
    message: str = ""
    predicted: float | None = None
    simulated: float | None = None
    ci95: float | None = None
    best: float | None = None
    regret: float | None = None
    regret_ci95: float | None = None
    backpressured: bool | None = None
    success: bool | None = None
    plan_s: float | None = None
    evaluations: int | None = None
    references: int | None = None
    plan: Mapping[str, object] | None = None
    beside: PredictionBesideRuns | None = None


PlannerOf = Callable[[Optimizer, CostModel], Optimizer]
"""Function that makes the planner of an optimizer and a cost model."""


def as_it_is(optimizer: Optimizer, model: CostModel) -> Optimizer:
    """Returns the optimizer unchanged, whatever the cost model."""
    del model
    return optimizer


@dataclass(frozen=True, slots=True)
class RefusedPlan:
    """Reason why there is no plan. status: REFUSED or FAILED."""

    status: str
    message: str


def validate(
    scenarios: Iterable[Scenario],
    optimizers: Sequence[Optimizer],
    cost_models: Sequence[CostModel],
    simulate: Simulate,
    replications: int,
    seed: int,
    *,
    objective: str = "processing_latency_s",
    budget: int = BUDGET,
    references: int = REFERENCES,
    space: Space = ALL_PLANS,
    requirements: Requirements = NOTHING_MORE,
    seconds: float | None = None,
    planner_of: PlannerOf = as_it_is,
    racing: bool = False,
    executor: Executor | None = None,
) -> list[ValidationRow]:
    """Validates plans: a row a scenario, optimizer and cost model; one a scenario if the optimizer needs no cost model.

    budget: number of estimates for an optimizer. references: alternatives simulated beside the chosen plans, >= 0.
    space: of the plans that may be chosen, and of alternatives. requirements: that a chosen plan must fulfil. seconds:
    of planning, for optimizers that can be stopped. planner_of: makes planners. racing: whether alternatives are
    simulated only until they are clearly beaten. executor: makes the runs; None: this process does.

    Raises BadInput for fewer than 1 replication, no cost model, a negative number of references, an unknown objective.
    """
    if not cost_models:
        raise BadInput("validation needs a cost model, such as rates")
    if objective in OBJECTIVES and objective not in OF_RESULTS:
        known = [name for name in OF_RESULTS if name not in BINARY_METRICS]
        raise BadInput(f"{objective} is not measured of results; validate by {', '.join(known)}")
    if not any(estimates(each, objective) for each in cost_models):
        names = ", ".join(each.name for each in cost_models)
        raise BadInput(f"{names} predicts no {objective}; give a cost model that does, such as --cost-model learned")
    if replications < 1:
        raise BadInput(f"replications must be >= 1, got {replications}")
    if references < 0:
        raise BadInput(f"references must be >= 0, got {references}")
    rows: list[ValidationRow] = []
    for scenario in scenarios:
        bench = PlanBench(scenario, objective, simulate, replications, seed, executor or Processes(1))
        problem = Problem(
            scenario=scenario,
            cost_model=cost_models[0],
            objective=objective,
            seed=seed,
            budget=budget,
            seconds=seconds,
            space=space,
            requirements=requirements,
        )
        chosen = [
            (
                *_named(optimizer, model, planner_of),
                model,
                _solve(replace(problem, cost_model=model), optimizer, planner_of, simulate),
            )
            for optimizer in optimizers
            for model in (cost_models[:1] if optimizer.name in UNASKED else cost_models)
        ]
        bench.simulate(solution.plan for *_, solution in chosen if isinstance(solution, Solution))
        others = alternatives(scenario, references, seed, space)
        (bench.race if racing else bench.simulate)(others)
        rows.extend(_row(bench, *each) for each in chosen)
    return rows


def _named(optimizer: Optimizer, model: CostModel, planner_of: PlannerOf) -> tuple[str, str]:
    """Names of a row's optimizer (as its planner has it, if there is one) and cost model."""
    try:
        return planner_of(optimizer, model).name, model.name
    except BadInput:
        return optimizer.name, model.name


def _solve(problem: Problem, optimizer: Optimizer, planner_of: PlannerOf, simulate: Simulate) -> Solution | RefusedPlan:
    """Solution, or the refusal or failure as data, so that an optimizer's error does not lose the other rows. Runs that

    were remembered count with the seconds that they took."""
    before_s = spared_s(simulate)
    try:
        found = fitting(problem, planner_of(optimizer, problem.cost_model).solve(problem), in_space=False)
    except AnswerError as failure:
        return RefusedPlan(FAILED, str(failure))
    except BadInput as refusal:
        return RefusedPlan(REFUSED, str(refusal))
    except Exception as error:
        return RefusedPlan(FAILED, raised(error))
    return replace(found, seconds=found.seconds + spared_s(simulate) - before_s)


def alternatives(scenario: Scenario, references: int, seed: int, space: Space) -> Sequence[ExecutionPlan]:
    """Plans to compare with, drawn uniformly, with the given numbers of subtasks even if the space leaves them free."""
    if references == 0:
        return []
    plans = SpacePlans(scenario, replace(space, free_subtasks=False))
    return as_plans(scenario, plans.sample(random_stream(seed, "references"), references))


def _row(
    bench: PlanBench, optimizer: str, name: str, model: CostModel, solution: Solution | RefusedPlan
) -> ValidationRow:
    """Row of one solution, against the best plan simulated. name: of the cost model in the row."""
    row = ValidationRow(
        scenario=bench.scenario.name, optimizer=optimizer, cost_model=name, objective=bench.objective, status=REFUSED
    )
    if isinstance(solution, RefusedPlan):
        return replace(row, status=solution.status, message=solution.message)
    outcome, best = bench.outcome(solution.plan), bench.best
    regret, regret_ci95 = bench.regret(solution.plan)
    beside = PredictionBesideRuns.of(
        solution.objective,
        abs(outcome.mean),
        doubts(model, bench.scenario.with_plan(solution.plan)),
        model=model.name,
        keep_up=(solution.runs, outcome.success and not outcome.backpressured),
    )
    return replace(
        row,
        status=solution.status.value,
        message=solution.message,
        predicted=solution.objective,
        simulated=abs(outcome.mean),
        ci95=half_width95(outcome.values),
        best=abs(best.mean),
        regret=regret,
        regret_ci95=regret_ci95,
        backpressured=outcome.backpressured,
        success=outcome.success,
        plan_s=solution.seconds,
        evaluations=solution.evaluations,
        references=len(bench),
        plan=solution.plan.model_dump(mode="json")["placement"],
        beside=None if solution.simulated or isinstance(model, RatesAt) else beside,
    )


FAR = 10.0
"""Largest ratio of a cost to the best known that is drawn; larger ones are drawn as this."""
RATES, *LOADED = (rates_at(load).name for load in LOADS)
"""Names of the rate model for the mean load, and for the others."""
LABEL = "{optimizer} by {cost_model}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """Standing of an optimizer with a cost model. scenarios: number that it was given; refused, failed: of these,
    without a plan; spoilt: with a plan of a worse kind than the best known. mean +- ci95, median, p90: regret over the
    others. plan_s, evaluations: medians."""

    optimizer: str
    cost_model: str
    scenarios: int
    refused: int
    failed: int
    spoilt: int
    mean: Number
    ci95: Number
    median: Number
    p90: Number
    plan_s: Number
    evaluations: Number


@CLOSED
@dataclass(frozen=True, slots=True, kw_only=True)
class PlansJudged:
    """The answer of `twin validate`. blind_to: features of a scenario that a cost model ignores, by both names."""

    objective: str
    rows: tuple[ValidationRow, ...]
    standings: tuple[Standing, ...]
    blind_to: Mapping[str, Mapping[str, tuple[str, ...]]]


def standings(rows: Iterable[ValidationRow]) -> tuple[Standing, ...]:
    """Standings of all optimizers and cost models in these rows, the best first. Where all loads are the mean, the plan
    by rates stands for each load."""
    groups: dict[tuple[str, str], list[ValidationRow]] = {}
    for row in rows:
        groups.setdefault((row.optimizer, row.cost_model), []).append(row)
    for (optimizer, model), group in groups.items():
        if model in LOADED:
            known = {row.scenario for row in group}
            group += [row for row in groups.get((optimizer, RATES), []) if row.scenario not in known]
    lines = [_standing(optimizer, model, group) for (optimizer, model), group in groups.items()]
    return tuple(sorted(lines, key=_place))


def _place(line: Standing) -> tuple[int, float]:
    return line.refused + line.failed + line.spoilt, math.inf if line.mean is None else line.mean


def _standing(optimizer: str, model: str, rows: Sequence[ValidationRow]) -> Standing:
    planned = [row for row in rows if row.regret is not None]
    regrets = np.array([row.regret for row in planned if row.regret is not None and math.isfinite(row.regret)])
    median, p90 = np.quantile(regrets, (0.5, 0.9)).tolist() if len(regrets) else (None, None)
    return Standing(
        optimizer=optimizer,
        cost_model=model,
        scenarios=len(rows),
        refused=sum(row.status == REFUSED for row in rows),
        failed=sum(row.status == FAILED for row in rows),
        spoilt=len(planned) - len(regrets),
        mean=float(regrets.mean()) if len(regrets) else None,
        ci95=half_width95(regrets),
        median=median,
        p90=p90,
        plan_s=float(np.median([row.plan_s or 0.0 for row in planned])) if planned else None,
        evaluations=float(np.median([row.evaluations or 0 for row in planned])) if planned else None,
    )


def samples(rows: Iterable[ValidationRow]) -> Mapping[str, Sequence[float]]:
    """Ratio of the cost to the best known in each scenario, at most FAR, by optimizer and cost model, for a figure."""
    found: dict[str, list[float]] = {}
    for row in rows:
        cost = FAR if row.regret is None else min(1.0 + row.regret, FAR)
        found.setdefault(LABEL.format(optimizer=row.optimizer, cost_model=row.cost_model), []).append(cost)
    return found


def csv_rows(rows: Iterable[ValidationRow]) -> list[dict[str, Any]]:
    """Rows as a table of plain values, without plans and what follows from others."""
    return [{name: value for name, value in asdict(row).items() if name not in ("plan", "beside")} for row in rows]
