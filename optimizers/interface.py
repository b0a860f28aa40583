"""Interface of all optimizers: one problem in, one solution out, whatever the cost model."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Protocol

from optimizers.objectives import NOTHING_MORE, OBJECTIVES, USUAL_METRIC, Requirements
from optimizers.space import ALL_PLANS, Space
from twin.deployment import Deployment
from twin.errors import BadInput, suggest
from twin.metrics import CostModel, Slow, estimates
from twin.plan import ExecutionPlan
from twin.scenario import Scenario

# how a search ended --------------------------------------------------------------------------------------------------
# Claim that comes with the answer of a search.


class Status(StrEnum):
    """Claim that comes with a solution. OPTIMAL: proved to be the best of all plans of the space, by the cost model.

    FEASIBLE: the best of those looked at, keeping up or not. INFEASIBLE: proved that every plan of the space is
    predicted not to keep up, or not to fulfil the requirements.
    """

    OPTIMAL = "optimal"
    FEASIBLE = "feasible"
    INFEASIBLE = "infeasible"


# deadlines -----------------------------------------------------------------------------------------------------------
# Deadline of a search, which then returns its best plan so far: after a time limit, or when somebody asks it to stop.


Stopped = Callable[[], bool]
"""Whether the caller asks for the best plan so far."""


def never() -> bool:
    """Never stops a search."""
    return False


@dataclass(frozen=True, slots=True)
class Deadline:
    """Time limit, and a way to stop earlier. until_s: end of the time, on the clock of time.perf_counter(). stopped:
    whether somebody has asked to stop."""

    until_s: float = math.inf
    stopped: Stopped = never

    @classmethod
    def of(cls, seconds: float | None, stopped: Stopped = never) -> Deadline:
        """Deadline so many seconds from now. seconds: None: no limit."""
        return cls(math.inf if seconds is None else time.perf_counter() + seconds, stopped)

    @property
    def left_s(self) -> float:
        """Seconds left; 0 once the time is up or somebody has stopped the search."""
        return 0.0 if self.stopped() else max(0.0, self.until_s - time.perf_counter())

    def part(self, share: float) -> Deadline:
        """Deadline after a share of the time left."""
        return self if self.until_s == math.inf else replace(self, until_s=time.perf_counter() + share * self.left_s)

    @property
    def over(self) -> bool:
        """Whether the time is up: the best plan so far is to be returned."""
        return self.left_s <= 0.0

    @property
    def endless(self) -> bool:
        """Whether there is neither a time limit nor a way to stop."""
        return self.until_s == math.inf and self.stopped is never


ENDLESS = Deadline()
"""Deadline without a limit."""
USUAL_S = 30.0
"""Time limit of programs and of branch and bound unless the problem has one."""
LATE = f"time was up after {USUAL_S:g} s (--time-limit changes that); the best so far"


# problems and solutions ----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanningProgress:
    """Progress of long work: `done` of `total` (None: not known) things that `what` names. best, bound: values of the
    objective, as far as they are known."""

    what: str
    done: int
    total: int | None
    best: float | None = None
    bound: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """Planning problem: place the operators of a scenario, whose own plan gives the numbers of subtasks if those are
    fixed.

    objective: one of OBJECTIVES. seed: same problem, same plan. budget: plans that may be estimated, >= 1. seconds:
    time limit of an optimizer that can be stopped, which returns the best so far (so the same problem may give another
    plan). stopped: whether the search is to stop now. alternatives: number of next best plans returned. report: is told
    the progress. space: the plans that may be chosen. requirements: that a chosen plan must fulfil, if any does.
    proves: whether a bound of all plans is wanted, too; without, programs end after few nodes, so that the answer comes
    soon and is the same on every machine, unless time runs out.

    Raises BadInput for an unknown objective, a negative seed, a budget below 1, or no time.
    """

    scenario: Scenario
    cost_model: CostModel
    objective: str = USUAL_METRIC
    seed: int = 0
    budget: int = 1000
    alternatives: int = 5
    seconds: float | None = None
    stopped: Stopped = never
    report: Callable[[PlanningProgress], None] | None = None
    space: Space = ALL_PLANS
    requirements: Requirements = NOTHING_MORE
    proves: bool = True

    def __post_init__(self) -> None:
        if self.objective not in OBJECTIVES:
            raise BadInput(f"unknown objective {self.objective!r}; {suggest(self.objective, OBJECTIVES)}")
        if self.seed < 0:
            raise BadInput(f"seed must be >= 0, got {self.seed}")
        if self.budget < 1:
            raise BadInput(f"budget must be >= 1 plan, got {self.budget}")
        if self.alternatives < 0:
            raise BadInput(f"alternatives must be >= 0, got {self.alternatives}")
        if self.seconds is not None and not self.seconds > 0.0:
            raise BadInput(f"the time limit must be > 0 s, got {self.seconds:g}")

    def deadline(self) -> Deadline:
        """Deadline of the problem if work on it starts now."""
        return Deadline.of(self.seconds, self.stopped)

    def within_usual(self) -> Problem:
        """Problem with a limit of USUAL_S if it has none, unless its cost model takes long for a single plan."""
        endless = self.seconds is None and not isinstance(self.cost_model, Slow)
        return replace(self, seconds=USUAL_S) if endless else self

    def tell(
        self, what: str, done: int, total: int | None = None, *, best: float | None = None, bound: float | None = None
    ) -> None:
        """Reports the progress, with the fields of `PlanningProgress`."""
        if self.report is not None:
            self.report(PlanningProgress(what=what, done=done, total=total, best=best, bound=bound))

    def judged_by(self, model: CostModel) -> Problem:
        """The problem under another cost model. A quantile that it does not estimate becomes the mean, if it estimates
        that; else an objective becomes the usual latency, and a limit is left out, as limits of medians are."""
        objective = self.objective
        if OBJECTIVES[objective].of is None and not estimates(model, objective):
            mean = objective.partition(".")[0]
            objective = mean if estimates(model, mean) else USUAL_METRIC
        return replace(self, cost_model=model, objective=objective, requirements=self.requirements.as_known_to(model))

    @property
    def sign(self) -> float:
        """1 if a lower objective is better, else -1."""
        return 1.0 if OBJECTIVES[self.objective].better == "min" else -1.0

    @property
    def deployment(self) -> Deployment:
        """Deployment that is planned: the scenario, for callers that need not know how it is run."""
        return self.scenario

    def settled(self, *, free_subtasks: bool, costream_rules: bool = False) -> Problem:
        """Problem for an optimizer that may change numbers of subtasks or not (free_subtasks), where the space leaves
        that open; with Costream's rules if the optimizer brings them. Raises BadInput if the rules do not go with the
        space."""
        space = self.space.settled(free_subtasks=free_subtasks)
        return replace(self, space=replace(space, costream_rules=True) if costream_rules else space)


@dataclass(frozen=True, slots=True)
class Candidate:
    """Plan with its estimates: the target metric, P(backpressured), P(success), whether it fulfils the requirements,
    and a second number that decides among plans of an equal target metric (less is better). simulated: number of runs
    that say so; 0: estimated."""

    plan: ExecutionPlan
    objective: float
    backpressured: float
    success: float
    fulfils: bool = True
    second: float = 0.0
    simulated: int = 0

    @property
    def runs(self) -> bool:
        """Whether the plan is predicted to keep up (Costream's sanity check)."""
        return self.backpressured < 0.5 <= self.success

    @property
    def feasible(self) -> bool:
        """Whether it runs, and fulfils the rest."""
        return self.runs and self.fulfils


@dataclass(frozen=True, slots=True, kw_only=True)
class Solution:
    """Answer of an optimizer: the chosen plan, which obeys the rules even if it is not feasible (then the message says
    so).

    objective: its estimated target metric. bound: no feasible plan of the space is better than this by the cost model;
    None if nothing is proved. evaluations: plans estimated. seconds: wall time of planning. alternatives: the next
    best.
    weighed: plans, and parts of plans, that an optimizer's own model weighed. simulated: number of the plans
    estimated that a truer cost model judged (`optimizers.planner`). given: the given plan, if it was judged.
    among: the plans that the status is about, in words. runs, fulfils: as in `Candidate`. starts: plans by rates for
    each load, by name, as the same cost model judges them (`optimizers.planner`).
    """

    status: Status
    plan: ExecutionPlan
    objective: float
    bound: float | None
    evaluations: int
    seconds: float
    alternatives: tuple[Candidate, ...] = ()
    message: str = ""
    runs: bool = True
    fulfils: bool = True
    weighed: int = 0
    simulated: int = 0
    given: Candidate | None = None
    among: str = ""
    starts: Mapping[str, Candidate] = field(default_factory=dict)

    @classmethod
    def of(
        cls, best: Candidate, status: Status, *, evaluations: int, started_s: float, others: Iterable[Candidate] = ()
    ) -> Solution:
        """Solution of the best candidate; nothing is proved. started_s: time.perf_counter() when planning began."""
        seconds = time.perf_counter() - started_s
        found = cls(
            status=status,
            plan=best.plan,
            objective=best.objective,
            bound=None,
            evaluations=evaluations,
            seconds=seconds,
        )
        return replace(found, alternatives=tuple(others), runs=best.runs, fulfils=best.fulfils)

    @property
    def feasible(self) -> bool:
        """Whether it runs, and fulfils the rest."""
        return self.runs and self.fulfils

    @property
    def gap(self) -> float | None:
        """Relative difference between the objective found and its bound; None if nothing is proved."""
        return None if self.bound is None or not self.objective else abs(self.bound / self.objective - 1.0)


class Optimizer(Protocol):
    """Chooses a plan. The same problem gives the same plan: no global state, no hidden randomness."""

    @property
    def name(self) -> str:
        """The name in OPTIMIZERS."""

    def solve(self, problem: Problem) -> Solution:
        """Solution of a problem. Raises BadInput if the problem is not one that this optimizer can solve."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Traits:
    """Traits that an optimizer declares by an attribute `traits`; without it, it has the default ones.

    objective: target metric that it works towards, by which it is judged unless the user asks otherwise; None: any.
    by_objective: whether plans of better objective are better to it; else it has a goal of its own, for which it weighs
    the given plan too. goal: that goal, if it is an objective. costream_rules: whether its plans obey them whatever the
    space says. head_room: head room that its answer must have unless another is required. baseline: whether others are
    compared with it, so that it does not keep a better plan that it was given. drivable: whether any cost model may
    drive it. every_plan: whether it estimates all plans of the space, whatever the budget. analytic: whether it plans
    by the rate model's physics, so that a learned model usually chooses among the plans near its own.
    """

    objective: str | None = None
    by_objective: bool = True
    goal: str | None = None
    costream_rules: bool = False
    head_room: float | None = None
    baseline: bool = False
    drivable: bool = False
    every_plan: bool = False
    analytic: bool = False

    def required(self, problem: Problem) -> Requirements:
        """Requirements on an answer: the problem's, with the optimizer's own head room if the problem names none."""
        required = problem.requirements
        usual = self.head_room is not None and required.head_room is None
        return replace(required, head_room=self.head_room) if usual else required


Propose = Callable[[Problem], Solution]
"""Solves a problem, as an optimizer does."""


def traits_of(optimizer: Optimizer) -> Traits:
    """Traits of an optimizer: those that it declares, or the default ones with its objective, if any."""
    found = getattr(optimizer, "traits", None)
    return found if isinstance(found, Traits) else Traits(objective=getattr(optimizer, "objective", None))


def plan_on(deployment: Deployment, hosts: Mapping[str, str]) -> ExecutionPlan:
    """Plan of a placement: as many subtasks as in the deployment's plan, all of an operator on one host, socket 0."""
    plan = deployment.plan
    return plan.with_placement({name: (host,) * plan.parallelism(name) for name, host in hosts.items()})
