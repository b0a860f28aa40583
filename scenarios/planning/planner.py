"""Plans for the command line, the demo and Python: names of optimizers and cost models in, solutions out."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from optimizers.interface import Candidate, Optimizer, PlanningProgress, Problem, Solution, Stopped, never, traits_of
from optimizers.objectives import NOTHING_MORE, OBJECTIVES, USUAL_METRIC, Requirements
from optimizers.planner import Planner, RatesAt
from optimizers.plugins import faults_told
from optimizers.registry import optimizer_by_name
from optimizers.rules import SlotDeployment, by_slots, fits, groups_of
from optimizers.searching import Budget
from optimizers.selection import choose, estimate, intervals
from optimizers.space import ALL_PLANS, Space, counts_of
from scenarios.beside import PredictionBesideRuns, doubts
from scenarios.files.documents import CLOSED, Number, Seconds
from scenarios.planning.cost_models import cost_model as model_by_name
from scenarios.planning.cost_models import planner_for
from scenarios.planning.searching import SEARCHED, USUAL_BUDGET, BySearch, SearchTold, budget_of, search
from twin.errors import BadInput, suggest
from twin.metrics import OF_RESULTS, CostModel, Ranged, Slow, estimates
from twin.plan import ExecutionPlan
from twin.scenario import Scenario
from twin.simulation import simulate

ESTIMATES = 1000
GIVEN = "as-given"


@dataclass(frozen=True, slots=True)
class OtherPlan:
    """Prediction for a plan that stands beside the chosen one, by the cost model that chose; by a search by runs, what
    its own runs say, which are `simulated` (else 0)."""

    predicted: Number
    backpressured: bool
    success: bool
    simulated: int = 0

    @classmethod
    def of(cls, candidate: Candidate) -> OtherPlan:
        """Prediction for a plan from its estimate."""
        risky, gives = candidate.backpressured >= 0.5, candidate.success >= 0.5
        return cls(candidate.objective, risky, gives, candidate.simulated)


@dataclass(frozen=True, slots=True, kw_only=True)
class HostsChosen:
    """Hosts that a plan uses, and those of the given plan. pinned: operators that keep all of them in use; empty if
    some host holds none. bears: the factor on the offered rates that the plan bears, as `twin capacity` predicts it; 0
    if it bears no part of them, null if there is no limit. binds: what binds then.
    """

    chosen: tuple[str, ...]
    given: tuple[str, ...]
    pinned: tuple[str, ...]
    bears: Number
    binds: str


AS_SOLVED = ("bound", "gap", "evaluations", "weighed", "seconds", "message", "among")
"""Fields of a `Solution` that an answer repeats unchanged."""


@CLOSED
@dataclass(frozen=True, slots=True, kw_only=True)
class PlanChosen:
    """The answer of `twin optimize`. keeps_up: whether the plan is predicted to. as_required: whether it fulfils the
    other requirements. simulated: objective in a run, where it was planned by profiles. beside: what the cost model
    predicts of the plan beside its simulation; null without one. plans_simulated: number, of the plans estimated; by
    `sim` as the cost model, all. bound, gap: null where nothing is proved. placement: by operator the hosts of its
    subtasks, or their sockets. hosts: those in use, where head room or prices matter. price, given_price: of the hosts,
    where they have prices. parallelism, task_managers: deployment of the plan, where the engine has slots that can hold
    it: subtasks by operator, and slots by host. head_room, at_most: requirements: a share of the offered rates, and
    limits. starts: plans by rates for each load, by name; in a search by runs, all that were proposed. search: what a
    search by runs did. refusal: what binds, by rates, with the operators there, where the plan does not keep up; else
    empty.
    """

    scenario: str
    optimizer: str
    cost_model: str
    objective: str
    status: str
    predicted: Number
    keeps_up: bool
    as_required: bool
    given: OtherPlan | None
    simulated: Number
    bound: Number
    gap: Number
    evaluations: int
    plans_simulated: int
    weighed: int
    seconds: Seconds
    message: str
    among: str
    placement: Mapping[str, Any]
    key_groups: Mapping[str, Any]
    fused: tuple[tuple[str, ...], ...]
    interval: tuple[Number, Number] | None
    blind_to: tuple[str, ...]
    interrupted: bool
    hosts: HostsChosen | None = None
    price: Number = None
    given_price: Number = None
    parallelism: Mapping[str, int] | None = None
    task_managers: Mapping[str, int] | None = None
    head_room: Number = None
    at_most: Mapping[str, float] | None = None
    beside: PredictionBesideRuns | None = None
    starts: Mapping[str, OtherPlan] = field(default_factory=dict)
    search: SearchTold | None = None
    refusal: str = ""


def beside_runs(
    scenario: Scenario, model: CostModel, solution: Solution, objective: str, simulated: float | None
) -> PredictionBesideRuns | None:
    """Prediction of the cost model for the plan chosen, beside the simulation that chose it, or the run of a job that
    was planned by profiles (`simulated`); None if there was neither, no run tells the objective, or the model predicts
    another load than the one that is run."""
    if (
        not estimates(model, objective)
        or isinstance(model, Slow | RatesAt)
        or not (solution.simulated or simulated is not None)
    ):
        return None
    found = model.predict(scenario, [solution.plan])
    said = bool(found["backpressured"][0] < 0.5 <= found["success"][0])
    return PredictionBesideRuns.of(
        float(found[objective][0]),
        solution.objective if simulated is None else simulated,
        doubts(model, scenario.with_plan(solution.plan)),
        model=model.name,
        keep_up=(said, solution.runs) if solution.simulated else None,
    )


def in_slots(scenario: Scenario, plan: ExecutionPlan) -> SlotDeployment | None:
    """Deployment in slots of a plan's operators, pinned or not; None if the engine has no slots that can hold them."""
    names = [each.name for each in scenario.query.topological]
    if not by_slots(scenario):
        return None
    if not fits(counts_of(scenario, plan)[None], np.zeros(len(names), bool), groups_of(scenario))[0]:
        return None
    return SlotDeployment.of(plan, names, scenario.query.slot_sharing_groups)


def beyond(scenario: Scenario, model: CostModel) -> list[str]:
    """Numbers of a scenario from which a cost model extrapolates, in words; empty if its ranges are unknown."""
    return model.beyond(scenario) if isinstance(model, Ranged) else []


def interval(scenario: Scenario, model: CostModel, plan: ExecutionPlan, objective: str) -> tuple[float, float] | None:
    """Prediction interval (low, high) of the objective for one plan, by `optimizers.selection.intervals`, or None."""
    found = intervals(model, scenario, [plan], objective)
    return None if found is None else (float(found[0, 0]), float(found[1, 0]))


@dataclass(frozen=True, slots=True)
class AsGiven:
    """Optimizer that keeps the scenario's own plan: the baseline of all others."""

    name: str = GIVEN

    def solve(self, problem: Problem) -> Solution:
        """Solution with the scenario's own plan and its estimate. Never raises."""
        started_s = time.perf_counter()
        candidates = estimate(problem, [problem.deployment.plan])
        return choose(problem, candidates, evaluations=1, started_s=started_s, complete=False)


@dataclass(frozen=True, slots=True)
class WithCostModel:
    """Optimizer with a cost model and a budget of its own, instead of those of the problem; for a row of a table."""

    name: str
    optimizer: Optimizer
    cost_model: CostModel
    budget: int

    def solve(self, problem: Problem) -> Solution:
        """Solves the problem with its own cost model and budget. Raises BadInput if the optimizer cannot take it."""
        return self.optimizer.solve(replace(problem, cost_model=self.cost_model, budget=self.budget))


def optimizers(names: str, budget: Budget | None = None) -> list[Optimizer]:
    """Optimizers of a comma-separated list, which may hold `as-given` and, with a budget of runs, `searched`. Raises
    BadInput for an unknown name.

    All but baselines keep the given plan where they find none better.
    """
    wanted = [name.strip() for name in names.split(",") if name.strip()]
    if not wanted:
        raise BadInput("--optimizers names none; give at least one, such as local-search")
    return [_named(name, budget) for name in wanted]


def _named(name: str, budget: Budget | None) -> Optimizer:
    if name == SEARCHED:
        return BySearch(budget or USUAL_BUDGET)
    chosen = AsGiven() if name == GIVEN else optimizer_by_name(name)
    return Planner(chosen, keeps=name != GIVEN and not traits_of(chosen).baseline)


def objective_of(optimizers: Iterable[Optimizer], asked: str | None = None) -> str:
    """Target metric: `asked`; else the one of the optimizers, if it is the same for all of them; else the usual one.
    Raises BadInput for an unknown one.
    """
    if asked is not None:
        if asked not in OBJECTIVES:
            raise BadInput(f"{unpredicted(f'unknown objective {asked!r}: it')}; {suggest(asked, OBJECTIVES)}")
        return asked
    wanted = {traits_of(each).objective or USUAL_METRIC for each in optimizers}
    return wanted.pop() if len(wanted) == 1 else USUAL_METRIC


def unpredicted(what: str) -> str:
    """Words for an objective or a limit that no prediction knows."""
    return (
        f"{what} is not predicted; with a budget, runs judge any measure of theirs: twin optimize ... --budget 40runs"
    )


def estimates_of(optimizers: Iterable[Optimizer], asked: int | None, usual: int = ESTIMATES) -> int:
    """Number of plans that a cost model may estimate: `asked`, or the usual one. Raises BadInput if a number is asked
    for and one of these optimizers estimates every plan."""
    for optimizer in optimizers if asked is not None else ():
        if traits_of(optimizer).every_plan:
            raise BadInput(
                f"--estimates {asked}: {optimizer.name} estimates every plan; leave out --estimates, or use "
                "local-search or costream"
            )
    return usual if asked is None else asked


def blindness(scenario: Scenario, models: Iterable[CostModel]) -> dict[str, tuple[str, ...]]:
    """Features of the scenario that each cost model ignores, in words; models that ignore nothing are left out."""
    found = {model.name: model.blind_to(scenario) for model in models}
    return {name: words for name, words in found.items() if words}


def optimize(
    scenario: Scenario,
    optimizer: str | Optimizer = "local-search",
    cost_model: str | CostModel = "rates",
    *,
    objective: str | None = None,
    estimates: int | None = None,
    budget: Budget | str | float | None = None,
    seconds: float | None = None,
    stopped: Stopped = never,
    report: Callable[[PlanningProgress], None] | None = None,
    space: Space = ALL_PLANS,
    requirements: Requirements = NOTHING_MORE,
) -> Solution:
    """Solution of an optimizer, or the given plan if that is no worse; random numbers are those of the scenario's seed.
    `scenario.with_plan(solution.plan)` runs under it.

    optimizer, cost_model: names, as on the command line, or objects. objective: default is the optimizer's target
    metric. estimates: number of plans that the cost model may estimate, as in `estimates_of`. budget: of a search by
    runs, such as "40runs" or 20 CPU seconds, which begins with the optimizer's plans and may have any measure of a
    run as its objective; None: what predictions say. seconds, stopped, report, space, requirements: as in `Problem`.
    Raises BadInput for an unknown optimizer, cost model or objective, or a problem that the optimizer cannot take.
    """
    named = optimizer_by_name(optimizer) if isinstance(optimizer, str) else optimizer
    model = model_by_name(cost_model) if isinstance(cost_model, str) else cost_model
    problem = Problem(
        scenario=scenario,
        cost_model=model,
        seed=scenario.run.seed,
        budget=estimates_of([named], estimates),
        seconds=seconds,
        stopped=stopped,
        report=report,
        space=space,
        requirements=requirements,
    )
    if budget is not None:
        allowed = budget if isinstance(budget, Budget) else budget_of(str(budget))
        return search(problem, objective or objective_of([named]), allowed, optimizer=named).solution
    asked = replace(problem, objective=objective_of([named], objective))
    return planned(planner_for(named, model), asked)


def planned(planner: Planner, problem: Problem) -> Solution:
    """Solution of a planner. Raises BadInput also for what somebody else's optimizer or cost model raises."""
    with faults_told(planner.optimizer):
        return planner.solve(problem)


def simulated(scenario: Scenario, plan: ExecutionPlan, objective: str) -> float | None:
    """Objective in one simulated run of the scenario under a plan; inf if there are no results. None for price and
    traffic, which no run tells."""
    return simulate(scenario.with_plan(plan)).metrics.value(objective) if objective in OF_RESULTS else None
