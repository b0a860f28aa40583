"""Forecasts the time at which a job stops keeping up, if the trends of its rates hold, and finds moves against it.

Forecasts are the rate model's; moves are found by an optimizer, and tried in the simulator.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from optimizers.requirements import Requirements
from optimizers.space import Space
from scenarios.planning.planner import optimize
from streamtwin.connect.shadow.belief import Belief
from twin.errors import BadInput
from twin.plan import ExecutionPlan
from twin.rates.model import RateModel
from twin.scenario import Scenario
from twin.simulation import simulate

STEPS = 12
"""Number of times ahead that are tried; the crossing is then found between two of them."""
GRAIN = 0.01
"""Precision of the forecast time, as a share of the time ahead."""


@dataclass(frozen=True, slots=True)
class HighestLoad:
    """Highest utilisation of any resource that an operator depends on, and that operator. Above 1 it cannot keep up."""

    used: float
    operator: str


@dataclass(frozen=True, slots=True)
class Forecast:
    """Forecast of backpressure. in_s: time until it begins; 0: it has begun; None: not within ahead_s. operator: where
    it begins."""

    ahead_s: float
    now: HighestLoad
    then: HighestLoad
    in_s: float | None
    operator: str | None


def pressure(scenario: Scenario, plan: ExecutionPlan) -> HighestLoad:
    """Highest utilisation under a plan at the rates that the scenario offers."""
    answer = RateModel().answer(scenario, [plan])
    worst = int(answer.offered_pressure[0].argmax())
    return HighestLoad(float(answer.offered_pressure[0, worst]), answer.operators[worst])


def forecast(belief: Belief, plan: ExecutionPlan, ahead_s: float) -> Forecast:
    """Forecast of the first time within ahead_s at which any resource is overloaded."""
    now, then = (pressure(belief.ahead(at_s), plan) for at_s in (0.0, ahead_s))
    if now.used > 1.0:
        return Forecast(ahead_s, now, then, 0.0, now.operator)
    low_s = 0.0
    for step in range(1, STEPS + 1):
        high_s = ahead_s * step / STEPS
        if pressure(belief.ahead(high_s), plan).used > 1.0:
            at_s = _crossing_s(belief, plan, low_s, high_s)
            return Forecast(ahead_s, now, then, at_s, pressure(belief.ahead(at_s), plan).operator)
        low_s = high_s
    return Forecast(ahead_s, now, then, None, None)


def _crossing_s(belief: Belief, plan: ExecutionPlan, low_s: float, high_s: float) -> float:
    """First time of overload between low_s, when there is none, and high_s, when there is, by bisection to GRAIN."""
    while high_s - low_s > GRAIN * high_s:
        middle_s = (low_s + high_s) / 2
        over = pressure(belief.ahead(middle_s), plan).used > 1.0
        low_s, high_s = (low_s, middle_s) if over else (middle_s, high_s)
    return high_s


OBJECTIVE, BUDGET = "e2e_latency_s", 300
HEAD_ROOM = 0.05
"""Head room that a move should leave at the rates for which it is made."""
MOST_MOVES = 3
"""Most operators that a remedy moves."""
SHARES = (1.0, 0.3, 0.0)
"""Shares of the time from the backpressure to the end of the forecast that a move should bear, the largest first."""
MOST_CPU_S = 20.0
"""Most CPU seconds of a run that checks a move."""


@dataclass(frozen=True, slots=True)
class Relocation:
    """Move of an operator's replicas. Places are names, one for each replica."""

    operator: str
    before: tuple[str, ...]
    after: tuple[str, ...]

    @property
    def words(self) -> str:
        """Move in words, such as "moving work from a to b"."""
        return f"moving {self.operator} from {_listed(self.before)} to {_listed(self.after)}"


@dataclass(frozen=True, slots=True)
class Remedy:
    """Remedy: a plan with few moves. for_s: the time ahead whose rates it bears. in_s: time until backpressure under
    it; None: not within the forecast."""

    plan: ExecutionPlan
    moves: tuple[Relocation, ...]
    for_s: float
    in_s: float | None


def remedy(belief: Belief, coming: Forecast) -> Remedy | None:
    """Remedy that avoids the forecast backpressure, or else delays it; None if no move of a few operators does."""
    in_s = coming.in_s or 0.0
    for share in SHARES if coming.now.used <= coming.then.used else SHARES[-1:]:
        for_s = in_s + share * (coming.ahead_s - in_s)
        worst = belief.ahead(for_s)
        plan = _fewest_moves(worst)
        if plan is not None:
            later_s = forecast(belief, plan, coming.ahead_s).in_s
            if later_s is not None:
                if later_s <= in_s:
                    continue
                for_s = max(for_s, (in_s + later_s) / 2)  # between the two, so that runs can tell the plans apart
            return Remedy(plan, tuple(_moves(worst.plan, plan)), for_s, later_s)
    return None


def _fewest_moves(scenario: Scenario) -> ExecutionPlan | None:
    """Plan that bears the scenario's rates and moves as few operators as possible; None if none is found."""
    for count in range(1, MOST_MOVES + 1):
        space = Space(most_moves=count, free_replicas=False)
        try:
            room = Requirements(head_room=HEAD_ROOM)
            found = optimize(scenario, objective=OBJECTIVE, budget=BUDGET, space=space, requirements=room)
        except BadInput:  # the job has no plan in this space
            return None
        if pressure(scenario, found.plan).used <= 1.0:
            return found.plan
    return None


def backpressured(scenario: Scenario, plan: ExecutionPlan) -> bool | None:
    """Whether the job falls behind in a run at the scenario's rates; None if that is too long or not possible."""
    planned = scenario.with_plan(plan)
    try:
        return simulate(planned, most_s=MOST_CPU_S).metrics.falls_behind
    except BadInput:
        return None


def _moves(before: ExecutionPlan, after: ExecutionPlan) -> Iterator[Relocation]:
    for name in before.placement:
        old, new = (tuple(map(str, plan.locations(name))) for plan in (before, after))
        if sorted(old) != sorted(new):
            yield Relocation(name, old, new)


def _listed(places: tuple[str, ...]) -> str:
    return ", ".join(dict.fromkeys(places))
