"""Searches a plan for a job, and finds out what is known of it: by runs, by the cost model, and of hosts and prices."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from optimizers.interface import PlanningProgress, Problem, Solution, Stopped
from optimizers.objectives import MEAN_LATENCIES, Requirements, price_of, priced
from optimizers.registry import DRIVEN, optimizer_by_name
from optimizers.rules import SlotDeployment
from optimizers.searching import Budget
from optimizers.space import Space
from scenarios.beside import PredictionBesideRuns, steepness
from scenarios.planning import planner
from scenarios.planning.cost_models import planner_for
from scenarios.planning.planner import AS_SOLVED, HostsChosen, OtherPlan, PlanChosen
from scenarios.planning.searching import SEARCHED, PlansSearched, search
from scenarios.questions.capacity import load_predicted
from scenarios.questions.kept import RunOutcome
from scenarios.questions.prediction import measures_predicted
from scenarios.questions.resources import FULL, binding, resources
from twin.errors import BadInput
from twin.metrics import CostModel, Unsure
from twin.rates.model import RateModel
from twin.scenario import Scenario
from twin.work import Executor

TELLS = "--budget 20 lets runs tell"
PRICE, BUYER = "price", "milp-hosts"
"""Objective, and its optimizer unless another one is named: it chooses hosts and numbers of subtasks."""


def buying(optimizer: str | None, objective: str | None) -> tuple[str, str | None]:
    """Optimizer, and the objective to give it; None if it has its own. Raises BadInput if the lowest price is asked of
    an optimizer that cannot take it: only BUYER, and those that take any objective, can."""
    if objective != PRICE or optimizer in DRIVEN:
        return optimizer or "local-search", objective
    if optimizer not in (None, BUYER):
        raise BadInput(f"--objective {PRICE} is the goal of {BUYER}, not of {optimizer}; leave one of the two out")
    return BUYER, PRICE


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanSearch:
    """Search for a plan of a job. profiled: the job with the costs of its profiles, by which it is planned; None: as it
    is. optimizer: its name; None: the usual one. model: name of the cost model. estimates, budget, seconds: as in
    `scenarios.planning.planner.optimize`."""

    job: Scenario
    profiled: Scenario | None
    optimizer: str
    objective: str
    model: str
    costs: CostModel
    space: Space
    requirements: Requirements
    estimates: int | None = None
    budget: Budget | None = None
    seconds: float | None = None

    @property
    def planned(self) -> Scenario:
        """Job that is planned."""
        return self.job if self.profiled is None else self.profiled

    def problem(self, stopped: Stopped, report: Callable[[PlanningProgress], None]) -> Problem:
        """Problem of the search, with the usual objective."""
        return Problem(
            scenario=self.planned,
            cost_model=self.costs,
            seed=self.planned.run.seed,
            budget=planner.estimates_of([optimizer_by_name(self.optimizer)], self.estimates),
            seconds=self.seconds,
            stopped=stopped,
            report=report,
            space=self.space,
            requirements=self.requirements,
        )

    def solve(self, problem: Problem, executor: Executor | None = None, at_once: int = 1) -> Solved:
        """Searches. executor, at_once: who makes runs, as in `scenarios.planning.searching.search`. Raises BadInput as
        `scenarios.planning.planner.optimize` does."""
        named = optimizer_by_name(self.optimizer)
        if self.budget is None:
            asked = replace(problem, objective=planner.objective_of([named], self.objective))
            return Solved(planner.planned(planner_for(named, self.costs), asked))
        found = search(problem, self.objective, self.budget, optimizer=named, executor=executor, at_once=at_once)
        return Solved(found.solution, found)

    def found(self, solved: Solved, interrupted: bool) -> PlanFound:
        """What is known of the plan of a solution."""
        solution, job, prices = solved.solution, self.job, self.requirements.prices
        plan = solution.plan
        outcome = None if self.profiled is None else planner.simulated(job, plan, self.objective)
        beside = planner.beside_runs(self.planned, self.costs, solution, self.objective, outcome)
        has_price = priced(job, prices)
        on_hosts = self.objective == PRICE or has_price or self.requirements.head_room is not None
        between = None
        if solved.by_runs is None:
            between = planner.interval(self.planned, self.costs, plan, self.objective)
        return PlanFound(
            search=self,
            solution=solution,
            interrupted=interrupted,
            outcome=outcome,
            beside=beside,
            between=between,
            by_runs=solved.by_runs,
            price=price_of(job, plan, prices) if has_price else None,
            given_price=price_of(job, job.plan, prices) if has_price else None,
            hosts=self._hosts(solution) if on_hosts else None,
            slots=planner.in_slots(job, plan),
        )

    def _hosts(self, solution: Solution) -> HostsChosen:
        """Hosts of a plan, and what it bears by the rate model; nothing of that where no limit is predicted."""
        job, plan = self.job, solution.plan
        used = plan.hosts(*plan.placement)
        pinned = [each.name for each in job.query.topological if each.pinned or each.name in self.space.pinned]
        load = load_predicted(job.with_plan(plan))
        bears = load.lasting if load.not_valid is None else None
        return HostsChosen(
            chosen=used,
            given=job.plan.hosts(*job.plan.placement),
            pinned=tuple(pinned) if {*used} == {*plan.hosts(*pinned)} else (),
            bears=0.0 if load.status == "never" else bears,
            binds=load.binds,
        )


def _running(job: Scenario, host: str) -> list[str]:
    """Operators with a subtask on a host, in data-flow order."""
    return [each.name for each in job.query.topological if host in job.plan.hosts(each.name)]


@dataclass(frozen=True, slots=True)
class Solved:
    """Solution of a search for a plan, and what runs said, if there was a budget for them."""

    solution: Solution
    by_runs: PlansSearched | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanFound:
    """Plan that was found, and what is known of it. outcome: the objective in a simulation of a job that was planned by
    profiles. beside: the prediction beside runs. between: interval of the prediction. by_runs: what runs said, if there
    was a budget for them. slots: deployment of the plan, if the engine has slots."""

    search: PlanSearch
    solution: Solution
    interrupted: bool
    outcome: float | None
    beside: PredictionBesideRuns | None
    between: tuple[float, float] | None
    by_runs: PlansSearched | None
    price: float | None
    given_price: float | None
    hosts: HostsChosen | None
    slots: SlotDeployment | None

    @property
    def doubts(self) -> list[str]:
        """Sentences on what is not known of a prediction that neither runs nor an interval judge."""
        search, costs = self.search, self.search.costs
        if self.between is not None or self.by_runs is not None:
            return []
        unlike = costs.blind_to(search.job) or planner.beyond(search.job, costs)
        if isinstance(costs, Unsure) and unlike:
            unknown = f"how far off {search.model} may be is not known, as it has not learned from such jobs"
            return [f"{unknown}; {TELLS}"]
        if self.beside is None and isinstance(costs, RateModel) and search.objective in MEAN_LATENCIES:
            steep = steepness(search.job.with_plan(self.solution.plan))
            return [f"careful: the rate model does not know {words}; {TELLS}" for words in steep]
        return []

    @property
    def refusal(self) -> str:
        """What binds with a plan that does not keep up, by the rate model, with the operators there; empty if it does,
        or if the rate model finds nothing."""
        if self.solution.runs:
            return ""
        job = self.search.planned.with_plan(self.solution.plan)
        found = resources(job, [RunOutcome(measures_predicted(job))])
        if not (words := binding(found, job)):
            return ""
        full = {each.name for each in found if each.kind in ("CPU", "memory", "network card") and each.used >= FULL}
        on = [f"{host} runs {names}" for host in sorted(full) if (names := ", ".join(_running(job, host)))]
        return "; ".join([f"what binds, by rates: {words}", *on])

    @property
    def answer_by(self) -> str:
        """Name of what has found the plan."""
        return self.search.optimizer if self.by_runs is None else SEARCHED

    @property
    def judge(self) -> str:
        """Name of what has judged the plan: the cost model, or runs."""
        count = self.solution.simulated
        return self.search.model if self.by_runs is None else f"runs of {count} plan{'s' * (count != 1)}"

    @property
    def answer(self) -> PlanChosen:
        """Answer of `twin optimize`."""
        search, solution, slots = self.search, self.solution, self.slots
        plan = solution.plan.model_dump(mode="json")
        return PlanChosen(
            scenario=search.job.name,
            optimizer=self.answer_by,
            cost_model=self.judge,
            objective=search.objective,
            status=str(solution.status),
            predicted=solution.objective,
            keeps_up=solution.runs,
            as_required=solution.fulfils,
            given=None if solution.given is None else OtherPlan.of(solution.given),
            simulated=self.outcome,
            **{name: getattr(solution, name) for name in AS_SOLVED},
            plans_simulated=solution.simulated,
            placement=plan["placement"],
            key_groups=plan["key_groups"],
            fused=solution.plan.fused,
            interval=self.between,
            search=None if self.by_runs is None else self.by_runs.told,
            blind_to=search.costs.blind_to(search.job),
            interrupted=self.interrupted,
            hosts=self.hosts,
            price=self.price,
            given_price=self.given_price,
            parallelism=None if slots is None else slots.parallelism,
            task_managers=None if slots is None else slots.task_managers,
            head_room=search.requirements.head_room,
            at_most=search.requirements.at_most,
            beside=self.beside,
            starts={name: OtherPlan.of(each) for name, each in solution.starts.items()},
            refusal=self.refusal,
        )
