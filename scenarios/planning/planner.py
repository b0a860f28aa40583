"""Plans for the command line, the demo and Python: names of optimizers and cost models in, solutions out."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from optimizers.interface import Candidate, Optimizer, PlanningProgress, Problem, Solution, Stopped, never, traits_of
from optimizers.objectives import NOTHING_MORE, OBJECTIVES, Requirements
from optimizers.planner import Planner, drive_of
from optimizers.planner.proving import RatesAt
from optimizers.plugins import AnswerError, of_others
from optimizers.registry import optimizer_by_name
from optimizers.selection import choose, estimate, intervals
from optimizers.slots import SlotDeployment, by_slots, fits, groups_of
from optimizers.space import ALL_PLANS, Space, counts_of
from scenarios.beside import PredictionBesideRuns, doubts
from scenarios.files.documents import CLOSED, Number, Seconds
from scenarios.planning.bench import Simulate, SimulatedCostModel
from scenarios.planning.cost_models import StagedCostModel, is_learned
from scenarios.planning.cost_models import cost_model as model_by_name
from twin.errors import BadInput, suggest
from twin.metrics import METRICS, CostModel, Ranged, Slow
from twin.plan import ExecutionPlan
from twin.randomness import child_seed
from twin.rates.model import RateModel
from twin.scenario import Scenario
from twin.simulation import simulate

USUAL = "processing_latency_s"
"""Default target metric of optimizers that take any."""
BUDGET = 1000
GIVEN = "as-given"
DECIDED = 5
"""Number of plans among which the simulator chooses for a staged cost model, or where quantiles are limited."""
PROOF = 2**31
"""Number of the child seed whose children are simulated to prove a choice; far from those that judge it."""


@dataclass(frozen=True, slots=True)
class OtherPlan:
    """Prediction for a plan that stands beside the chosen one, by the cost model that chose."""

    predicted: Number
    backpressured: bool
    success: bool

    @classmethod
    def of(cls, candidate: Candidate) -> OtherPlan:
        """Prediction for a plan from its estimate."""
        return cls(candidate.objective, candidate.backpressured >= 0.5, candidate.success >= 0.5)


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
    limits in seconds. starts: plans by rates for each load, and the one that bears the most, by name. refusal: what
    binds, by rates, with the operators there, where the plan does not keep up; else empty.
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
    refusal: str = ""


def beside_runs(
    scenario: Scenario, model: CostModel, solution: Solution, objective: str, simulated: float | None
) -> PredictionBesideRuns | None:
    """Prediction of the cost model for the plan chosen, beside the simulation that chose it, or the run of a job that
    was planned by profiles (`simulated`); None if there was neither, no run tells the objective, or the model predicts
    another load than the one that is run."""
    if (
        objective not in METRICS
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


def optimizers(names: str) -> list[Optimizer]:
    """Optimizers of a comma-separated list, which may hold `as-given`. Raises BadInput for an unknown name.

    All but baselines keep the given plan where they find none better.
    """
    wanted = [name.strip() for name in names.split(",") if name.strip()]
    if not wanted:
        raise BadInput("--optimizers names none; give at least one, such as local-search")
    chosen = [AsGiven() if name == GIVEN else optimizer_by_name(name) for name in wanted]
    return [Planner(each, keeps=each.name != GIVEN and not traits_of(each).baseline) for each in chosen]


def with_proof(optimizer: Optimizer, seed: int, count: int, run: Simulate = simulate) -> Planner:
    """Planner that simulates the `count` best plans of an optimizer, and takes the best of these; none if count is 0.

    The runs have other seeds than `seed` and its first children, by which the choice may be judged later.
    """
    planner = optimizer if isinstance(optimizer, Planner) else Planner(optimizer, keeps=False)
    if count == 0:
        return planner
    return replace(planner, truth=SimulatedCostModel(run, child_seed(seed, PROOF)), count=count)


def plans_to_simulate(model: CostModel, requirements: Requirements, asked: int) -> int:
    """Number of plans to simulate: `asked`, or if this is 0, a few where the cost model is staged, or where quantiles
    are limited and it cannot judge them."""
    cannot = bool(requirements.quantiles) and not isinstance(model, Slow)
    return asked or (DECIDED if cannot or isinstance(model, StagedCostModel) else 0)


def planner_for(
    optimizer: Optimizer, model: CostModel, drive: str | None, seed: int, prove: int, run: Simulate = simulate
) -> Planner:
    """Planner of an optimizer that is driven by a cost model, with `prove` plans simulated.

    drive: a name of `optimizers.driving`; None: the default. A staged model drives by `near`, and a few of its best
    plans are simulated. Raises BadInput for a drive that does not fit the optimizer or the model.
    """
    staged = isinstance(model, StagedCostModel)
    drive = "near" if staged and drive is None and traits_of(optimizer).drivable else drive
    asked = drive is not None and not isinstance(model, RateModel | RatesAt)
    chosen = drive_of(optimizer, drive, learned=is_learned(model) or asked)
    return replace(with_proof(optimizer, seed, plans_to_simulate(model, NOTHING_MORE, prove), run), drive=chosen)


def planners_by_model(
    drive: str | None, seed: int, prove: int, run: Simulate = simulate
) -> Callable[[Optimizer, CostModel], Planner]:
    """Function that makes the planner of each optimizer and cost model; `drive` is for learned models only."""
    return lambda optimizer, model: planner_for(
        optimizer, model, drive if is_learned(model) else None, seed, prove, run
    )


def objective_of(optimizers: Iterable[Optimizer], asked: str | None = None) -> str:
    """Target metric: `asked`; else the one of the optimizers, if it is the same for all of them; else the usual one.
    Raises BadInput for an unknown one.
    """
    if asked is not None:
        if asked not in OBJECTIVES:
            raise BadInput(f"unknown objective {asked!r}; {suggest(asked, OBJECTIVES)}")
        return asked
    wanted = {traits_of(each).objective or USUAL for each in optimizers}
    return wanted.pop() if len(wanted) == 1 else USUAL


def budget_of(optimizers: Iterable[Optimizer], asked: int | None, usual: int = BUDGET) -> int:
    """Number of plans that a cost model may estimate: `asked`, or the usual one. Raises BadInput if a number is asked
    for and one of these optimizers estimates every plan."""
    for optimizer in optimizers if asked is not None else ():
        if traits_of(optimizer).every_plan:
            raise BadInput(
                f"--budget {asked}: {optimizer.name} estimates every plan; leave out --budget, or use "
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
    budget: int | None = None,
    prove: int = 0,
    drive: str | None = None,
    seconds: float | None = None,
    stopped: Stopped = never,
    report: Callable[[PlanningProgress], None] | None = None,
    space: Space = ALL_PLANS,
    requirements: Requirements = NOTHING_MORE,
) -> Solution:
    """Solution of an optimizer, or the given plan if that is no worse; random numbers are those of the scenario's seed.
    `scenario.with_plan(solution.plan)` runs under it.

    optimizer, cost_model: names, as on the command line, or objects. objective: default is the optimizer's target
    metric. budget: number of plans that the cost model may estimate, as in `budget_of`. prove: number of best plans to
    simulate, as in `with_proof`; a few where quantiles are limited and the cost model does not predict them. drive: as
    in `planner_for`. seconds, stopped, report, space, requirements: as in `Problem`. Raises BadInput for an unknown
    optimizer, cost model or objective, or a problem that the optimizer cannot take.
    """
    named = optimizer_by_name(optimizer) if isinstance(optimizer, str) else optimizer
    model = model_by_name(cost_model) if isinstance(cost_model, str) else cost_model
    chosen = planner_for(Planner(named), model, drive, scenario.run.seed, plans_to_simulate(model, requirements, prove))
    problem = Problem(
        scenario=scenario,
        cost_model=model,
        objective=objective_of([named], objective),
        seed=scenario.run.seed,
        budget=budget_of([named], budget),
        seconds=seconds,
        stopped=stopped,
        report=report,
        space=space,
        requirements=requirements,
    )
    try:
        return chosen.solve(problem)
    except BadInput:
        raise
    except AnswerError as failure:
        raise BadInput(f"optimizer {named.name!r} failed: {failure}") from failure
    except Exception as error:
        if not of_others(named):
            raise
        words = f"{type(error).__name__}: {error}; see 'twin --traceback'"
        raise BadInput(f"optimizer {named.name!r} raised {words}") from error


def simulated(scenario: Scenario, plan: ExecutionPlan, objective: str) -> float | None:
    """Objective in one simulated run of the scenario under a plan; inf if there are no results. None for price and
    traffic, which no run tells."""
    return simulate(scenario.with_plan(plan)).metrics.value(objective) if objective in METRICS else None
