"""Searches a plan for a job, and finds out what is known of it: by runs, by the cost model, and of hosts and prices."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from optimizers.interface import PlanningProgress, Solution, Stopped
from optimizers.objectives import LATENCIES, Requirements, price_of, priced
from optimizers.registry import DRIVEN
from optimizers.slots import SlotDeployment
from optimizers.space import Space
from scenarios.beside import PredictionBesideRuns, steepness
from scenarios.planning import planner
from scenarios.planning.planner import AS_SOLVED, HostsChosen, OtherPlan, PlanChosen
from scenarios.questions.capacity import load_predicted
from scenarios.questions.kept import RunOutcome
from scenarios.questions.prediction import measures_predicted
from scenarios.questions.resources import FULL, binding, resources
from twin.errors import BadInput
from twin.metrics import CostModel, Slow, Unsure
from twin.rates.model import RateModel
from twin.scenario import Scenario

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
    is. model: name of the cost model. prove: number of best plans that are simulated. drive, seconds: as in
    `scenarios.planning.planner.optimize`."""

    job: Scenario
    profiled: Scenario | None
    optimizer: str
    objective: str
    model: str
    costs: CostModel
    space: Space
    requirements: Requirements
    budget: int | None = None
    prove: int = 0
    drive: str | None = None
    seconds: float | None = None

    @property
    def planned(self) -> Scenario:
        """Job that is planned."""
        return self.job if self.profiled is None else self.profiled

    def solution(self, stopped: Stopped, report: Callable[[PlanningProgress], None]) -> Solution:
        """Searches. Raises BadInput as `scenarios.planning.planner.optimize` does."""
        return planner.optimize(
            self.planned,
            self.optimizer,
            self.costs,
            objective=self.objective,
            budget=self.budget,
            prove=self.prove,
            drive=self.drive,
            seconds=self.seconds,
            stopped=stopped,
            report=report,
            space=self.space,
            requirements=self.requirements,
        )

    def found(self, solution: Solution, interrupted: bool) -> PlanFound:
        """What is known of the plan of a solution: nothing is simulated but a job that was planned by profiles."""
        job, plan, prices = self.job, solution.plan, self.requirements.prices
        outcome = None if self.profiled is None else planner.simulated(job, plan, self.objective)
        beside = planner.beside_runs(self.planned, self.costs, solution, self.objective, outcome)
        has_price = priced(job, prices)
        on_hosts = self.objective == PRICE or has_price or self.requirements.head_room is not None
        return PlanFound(
            search=self,
            solution=solution,
            interrupted=interrupted,
            outcome=outcome,
            beside=beside,
            between=None if self.prove else planner.interval(self.planned, self.costs, plan, self.objective),
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


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanFound:
    """Plan that was found, and what is known of it. outcome: the objective in a simulation of a job that was planned by
    profiles. beside: the prediction beside runs. between: interval of the prediction. slots: deployment of the plan, if
    the engine has slots."""

    search: PlanSearch
    solution: Solution
    interrupted: bool
    outcome: float | None
    beside: PredictionBesideRuns | None
    between: tuple[float, float] | None
    price: float | None
    given_price: float | None
    hosts: HostsChosen | None
    slots: SlotDeployment | None

    @property
    def doubts(self) -> list[str]:
        """Sentences on what is not known of a prediction that neither runs nor an interval judge."""
        search, costs = self.search, self.search.costs
        if self.between is not None:
            return []
        unlike = costs.blind_to(search.job) or planner.beyond(search.job, costs)
        if not search.prove and isinstance(costs, Unsure) and unlike:
            unknown = f"how far off {search.model} may be is not known, as it has not learned from such jobs"
            return [f"{unknown}; --prove 5 tells"]
        if self.beside is None and isinstance(costs, RateModel) and search.objective in LATENCIES:
            steep = steepness(search.job.with_plan(self.solution.plan))
            return [f"careful: the rate model does not know {words}; --prove 5 tells" for words in steep]
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
    def judge(self) -> str:
        """Name of what has judged the plan: the cost model, or a simulation of those that it found."""
        count = self.solution.simulated
        by_runs = f"simulation of {count} plan{'s' * (count > 1)} found by {self.search.model}"
        return by_runs if count else self.search.model

    @property
    def answer(self) -> PlanChosen:
        """Answer of `twin optimize`."""
        search, solution, slots = self.search, self.solution, self.slots
        plan = solution.plan.model_dump(mode="json")
        return PlanChosen(
            scenario=search.job.name,
            optimizer=search.optimizer,
            cost_model=self.judge,
            objective=search.objective,
            status=str(solution.status),
            predicted=solution.objective,
            keeps_up=solution.runs,
            as_required=solution.fulfils,
            given=None if solution.given is None else OtherPlan.of(solution.given),
            simulated=self.outcome,
            **{name: getattr(solution, name) for name in AS_SOLVED},
            plans_simulated=solution.evaluations if isinstance(search.costs, Slow) else solution.simulated,
            placement=plan["placement"],
            key_groups=plan["key_groups"],
            fused=solution.plan.fused,
            interval=self.between,
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
