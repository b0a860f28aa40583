"""Which few operators to move so that backpressure does not come: found by an optimizer, checked in the simulator."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from optimizers.requirements import Requirements
from optimizers.space import Space
from scenarios.planning.planner import solve
from scenarios.shadowing.forecast import pressure
from twin.errors import BadInput
from twin.guards.effort import estimate
from twin.guards.fidelity import settled
from twin.plan import ExecutionPlan
from twin.rates.model import RateModel
from twin.scenario import Scenario
from twin.simulation import simulate

OPTIMIZER, OBJECTIVE, BUDGET = "local-search", "e2e_latency_s", 1000
HEAD_ROOM = 0.05
"""That a move should leave at the rates for which it is made."""
MOST_MOVES = 3
MOST_CPU_S = 20.0
"""Of a run that a remedy is checked with, about."""


@dataclass(frozen=True, slots=True)
class Move:
    """Of an operator's replicas; names of places, a replica each."""

    operator: str
    before: tuple[str, ...]
    after: tuple[str, ...]

    @property
    def words(self) -> str:
        """As in "moving work from a to b"."""
        return f"moving {self.operator} from {_listed(self.before)} to {_listed(self.after)}"


@dataclass(frozen=True, slots=True)
class Remedy:
    """plan: with the fewest moves found that avoid it by the rate model."""

    plan: ExecutionPlan
    moves: tuple[Move, ...]


def remedy(scenario: Scenario) -> Remedy | None:
    """For the job at the rates that are to come; None if no move of a few operators is found to be enough."""
    for count in range(1, MOST_MOVES + 1):
        space = Space(most_moves=count, free_replicas=False)
        try:
            found = solve(scenario, OPTIMIZER, RateModel(), objective=OBJECTIVE, budget=BUDGET, space=space,
                          requirements=Requirements(head_room=HEAD_ROOM))  # fmt: skip
        except BadInput:  # this job has no plan of that kind
            return None
        if pressure(scenario, found.plan).used <= 1.0:
            return Remedy(found.plan, tuple(_moves(scenario.plan, found.plan)))
    return None


def backpressured(scenario: Scenario, plan: ExecutionPlan) -> bool | None:
    """In a simulated run at the scenario's rates; None if that would take too long, or cannot be."""
    planned = settled(scenario.with_plan(plan))
    try:
        if estimate(planned, planned.run).cpu_s > MOST_CPU_S:
            return None
        return simulate(planned).metrics.backpressured
    except BadInput:
        return None


def _moves(before: ExecutionPlan, after: ExecutionPlan) -> Iterator[Move]:
    for name in before.placement:
        old, new = (tuple(map(str, plan.locations(name))) for plan in (before, after))
        if sorted(old) != sorted(new):
            yield Move(name, old, new)


def _listed(places: tuple[str, ...]) -> str:
    return ", ".join(dict.fromkeys(places))
