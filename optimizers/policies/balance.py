"""Balances the hosts by moving key groups: ALBIC's adaptation, Algorithm 1 (Madsen, Zhou, Cao 2016) without scaling.

Every few periods, what was measured of the key groups becomes a `Balance`; a solver says which groups go where, within
a budget of migrations, and they go by direct state migration. Periods in which the job stood still say nothing, nor do
those before it; a statistic that makes no sense is noted, and moves nothing.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from optimizers.balancing.flux import Flux
from optimizers.balancing.interface import Solver
from optimizers.balancing.milp import BalanceMilp
from optimizers.balancing.search import Search
from optimizers.policies.group_map import Budget, GroupMap
from optimizers.policies.room import can_move, continues, stood_still
from twin.control import PeriodStatistics, PolicySpec, Reconfiguration
from twin.deployment import Deployment
from twin.errors import BadInput
from twin.event_migrations import Strategy, is_combined
from twin.events import Move
from twin.keys import key_groups_of
from twin.spec import Spec

MIGRATIONS = 20
SEARCHED = 400
"""Looks of the search: a round need not be optimal, as loads have changed when it is done."""


class Round(Spec):
    """What can be set of any policy that moves key groups in rounds."""

    max_migrations: Annotated[
        int | None, Field(ge=0, description="key groups that may move in a round; 20 without max_state_mb")
    ] = None
    max_state_mb: Annotated[
        float | None, Field(ge=0, description="state that may move in a round, instead of a number of key groups")
    ] = None
    band: Annotated[
        float, Field(ge=0, le=100, description="percentage points off the mean at which hosts are left alone")
    ] = 1.0
    every_periods: Annotated[int, Field(ge=1, description="periods of a round; loads are means over them")] = 1
    strategy: Annotated[
        Strategy | None,
        Field(
            exclude_if=lambda strategy: strategy is None,
            description="by which key groups over event time move; absent: the one that costs least",
        ),
    ] = None

    @model_validator(mode="after")
    def _one_budget(self) -> Self:
        if self.max_state_mb is not None and self.max_migrations is not None:
            raise ValueError("give either max_migrations or max_state_mb")
        return self

    @property
    def budget(self) -> Budget:
        """What a round may spend."""
        return Budget(MIGRATIONS if self.max_migrations is None else self.max_migrations, self.max_state_mb)


class BalanceSpec(Round, PolicySpec):
    """What of it can be set."""

    name: Literal["balance"] = "balance"
    solver: Annotated[Literal["search", "milp", "flux", "flux-best-fit"], Field(description="as in docs/albic.md")] = (
        "search"
    )
    seconds: Annotated[float, Field(gt=0, le=3600, description="that HiGHS has for a round, if milp is the solver")] = 5

    def start(self, deployment: Deployment) -> Rounds:
        """For one run."""
        return Rounds(deployment, self, self._solver(), self.name)

    def _solver(self) -> Solver:
        search = Search(looks=SEARCHED, band=self.band)
        if self.solver == "milp":
            return BalanceMilp(seconds=self.seconds, start=search)
        return search if self.solver == "search" else Flux(best_fit=self.solver == "flux-best-fit")


@dataclass
class Rounds:
    """Remembers the periods of the round. Raises BadInput for a job without key groups that can move."""

    deployment: Deployment
    spec: Round
    solver: Solver
    name: str
    operators: list[str] = field(init=False)
    _seen: list[PeriodStatistics] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.operators = [operator.name for operator in self.deployment.query.operators if self._movable(operator.name)]
        if not self.operators:
            raise BadInput(
                f"policy {self.name!r} moves key groups, and no operator of this job has any that can move; "
                "give key_groups to an operator with a hash input"
            )

    def decide(self, statistics: PeriodStatistics) -> Reconfiguration | None:
        """Moves at the end of a round; a reason alone where there can be none."""
        if self._seen and not continues(self._seen[-1], statistics):
            self._seen.clear()
        if stood_still(statistics, self.deployment):
            return None
        self._seen.append(statistics)
        if len(self._seen) < self.spec.every_periods:
            return None
        periods, self._seen = self._seen, []
        try:
            decision = self._round(GroupMap(self.deployment, periods, self.operators))
        except BadInput as error:
            return Reconfiguration(reason=f"nothing to balance: {error}")
        if decision is None:
            return None
        return replace(decision, moves=tuple(self._by_strategy(move) for move in decision.moves))

    def _round(self, here: GroupMap) -> Reconfiguration | None:
        spec = self.spec
        balance = here.balance(spec.budget)
        before = balance.distance(balance.home_g)
        if before <= spec.band:
            return None
        plan = self.solver.solve(balance)
        if plan.distance >= before or balance.violation(plan.node_g):
            return None
        figures = {"load_distance": before, "planned": plan.distance, "bound": plan.bound}
        reason = f"load distance {before:.3g}, planned {plan.distance:.3g}"
        return Reconfiguration(moves=here.moves(plan.node_g), reason=reason, figures=figures)

    def _by_strategy(self, move: Move) -> Move:
        """Of operators over event time."""
        if self.spec.strategy is None or not self.deployment.query.operator(move.operator).needs_event_time:
            return move
        return move.model_copy(update={"strategy": self.spec.strategy})

    def _movable(self, operator: str) -> bool:
        deployment = self.deployment
        spec = deployment.query.operator(operator)
        follows = spec.merges and is_combined(deployment.query, operator)  # it goes where its compute goes
        if key_groups_of(spec) is None or follows or spec.pinned:
            return False
        probe = Move(operator=operator, key_groups=(0,), to_replica=0)
        return can_move(probe, deployment, deployment.plan.placement)
