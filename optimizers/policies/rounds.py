"""Policies that move key groups in rounds: their common settings, the end of a round, and the worth of its plan.

Every few periods, statistics of the key groups become a `Balance`; a solver assigns groups to hosts, within
a budget of migrations, and they go by direct state migration. Periods in which the job stood still do not count, nor
do those before one; statistics that make no sense are noted, and nothing moves.
Where a change restarts the job, it is made only when it is worth a restart (`restarts`).
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Annotated, Self

from pydantic import Field, model_validator

from optimizers.balancing.balance import Balance
from optimizers.balancing.interface import Assignment, Solver
from optimizers.balancing.objective import relieved
from optimizers.policies.group_map import GroupMap, MigrationBudget
from optimizers.policies.restarts import TOO_DEAR, RestartAccount
from optimizers.policies.room import can_move, continues, stood_still
from twin.control import PeriodStatistics, Reconfiguration
from twin.deployment import Deployment
from twin.errors import BadInput
from twin.event_checks import pinning
from twin.event_time_events import Strategy, is_combined
from twin.events import Move
from twin.keys import key_groups_of
from twin.spec import Spec

MIGRATIONS = 20
NO_PLAN = Reconfiguration(reason="no moves within the budget balance the hosts better")
SEARCHED = 400
"""Number of looks of the search: a round need not be optimal, as loads have changed when it is done."""
LITTLE = 1e-6
"""Gain, in percent of all traffic or percentage points of a load distance, below which it counts as none."""


class Round(Spec):
    """Settings of all policies that move key groups in rounds."""

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
    def periods_before_acting(self) -> int:
        """Number of periods before the policy can act: one round."""
        return self.every_periods

    @property
    def budget(self) -> MigrationBudget:
        """Budget of a round."""
        return MigrationBudget(MIGRATIONS if self.max_migrations is None else self.max_migrations, self.max_state_mb)


@dataclass
class Rounds:
    """Policy in rounds during one run. with_traffic: whether traffic between key groups is measured, and counts.
    limited: whether a plan that breaks a limit, or the budget, is dropped as a whole; else groups that can move do.

    Raises BadInput for a job without key groups that can move."""

    deployment: Deployment
    spec: Round
    solver: Solver
    name: str
    with_traffic: bool = False
    limited: bool = True
    operators: list[str] = field(init=False)
    _seen: list[PeriodStatistics] = field(default_factory=list)
    account: RestartAccount = field(init=False)

    def __post_init__(self) -> None:
        self.account = RestartAccount(self.deployment)
        self.operators = [operator.name for operator in self.deployment.query.operators if self._movable(operator.name)]
        if not self.operators:
            raise BadInput(
                f"policy {self.name!r} moves key groups, and no operator of this job has any that can move; "
                "give key_groups to an operator with a hash input"
            )

    def decide(self, statistics: PeriodStatistics) -> Reconfiguration | None:
        """Returns moves at the end of a round; a reason alone where there can be none."""
        self.account.add(statistics)
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
        """Returns the moves of a plan that brings more traffic together, or balances better; None without."""
        balance = here.balance(self.spec.budget, with_traffic=self.with_traffic)
        if not self.with_traffic and balance.distance(balance.home_g) <= self.spec.band:
            return None
        cost = self.account.cost(here.periods[-1], balance.mean / 100.0)
        if not self.account.affords(cost):
            return TOO_DEAR
        plan = self._plan(balance)
        if (self.limited and balance.violation(plan.node_g)) or not gained(balance, plan):
            return None if balance.distance(balance.home_g) <= self.spec.band else NO_PLAN
        self.account.pay(cost)
        return Reconfiguration(
            moves=here.moves(plan.node_g), reason=reason(balance, plan), figures=figures(balance, plan)
        )

    def _plan(self, balance: Balance) -> Assignment:
        return self.solver.solve(balance)

    def _by_strategy(self, move: Move) -> Move:
        """A move with the policy's strategy, if the operator is over event time."""
        if self.spec.strategy is None or not self.deployment.query.operator(move.operator).needs_event_time:
            return move
        return move.model_copy(update={"strategy": self.spec.strategy})

    def _movable(self, operator: str) -> bool:
        deployment = self.deployment
        spec = deployment.query.operator(operator)
        follows = spec.merges and is_combined(deployment.query, operator)  # a consolidate goes where its compute goes
        if key_groups_of(spec) is None or follows or pinning(operator, deployment):
            return False
        probe = Move(operator=operator, key_groups=(0,), to_replica=0)
        return can_move(probe, deployment, deployment.plan.placement)


def gained(balance: Balance, plan: Assignment) -> bool:
    """Whether anything moves, and more traffic is together or the load distance is smaller."""
    closer = collocation(plan) - together(balance)
    nearer = balance.distance(balance.home_g) - distance(balance, plan)
    return bool(len(plan.moves)) and (closer > LITTLE or nearer > LITTLE)


def figures(balance: Balance, plan: Assignment) -> dict[str, float]:
    """Figures for the record of a decision: load distances and collocation factors, as they are and as planned."""
    told = {"load_distance": balance.distance(balance.home_g), "planned": distance(balance, plan)}
    if balance.traffic is None:
        return told | {"bound": plan.bound}
    return told | {"collocation": together(balance), "planned_collocation": collocation(plan)}


def reason(balance: Balance, plan: Assignment) -> str:
    """Reason of a decision in words."""
    told = f"load distance {balance.distance(balance.home_g):.3g}, planned {distance(balance, plan):.3g}"
    if balance.traffic is None:
        return told
    return f"{told}; traffic on one host {together(balance):.3g} %, planned {collocation(plan):.3g} %"


def distance(balance: Balance, plan: Assignment) -> float:
    """Planned load distance, when traffic within a host need not be serialised."""
    return relieved(balance, plan.node_g).distance(plan.node_g)


def together(balance: Balance) -> float:
    """Percent of the traffic that stays on one host now."""
    return 100.0 if balance.traffic is None else balance.traffic.factor(balance.home_g)


def collocation(plan: Assignment) -> float:
    """Percent of the traffic that stays on one host under a plan."""
    return 100.0 if plan.collocation is None else plan.collocation
