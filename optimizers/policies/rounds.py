"""Policies that move key groups in rounds: the job as a balancing problem, settings, and the worth of a round."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate
from typing import Annotated, NamedTuple, Self

import numpy as np
from pydantic import Field, model_validator

from optimizers.balancing.joint import relieved
from optimizers.balancing.problem import Assignment, Balance, KeyGroupTraffic, Solver
from optimizers.policies.room import TOO_DEAR, RestartAccount, can_move, continues, stood_still
from twin.control import KeyGroupStatistics, PeriodStatistics, Reconfiguration
from twin.deployment import Deployment
from twin.errors import BadInput
from twin.event_checks import pinning
from twin.events import Move, Strategy, is_combined
from twin.plan import Location
from twin.spec import Spec
from twin.workload import group_count

# the job as a balancing problem --------------------------------------------------------------------------------------
# Turns a running job into a balancing problem of hosts and key groups, and the answer into moves.
#
# Anything else that runs on a host is one more group, which stays. A subtask works on one core at a time: a host
# counts as no more cores than it has subtasks that key groups can go to, and those that anything else there keeps
# busy.


NEW = -1
"""Stands for the number of a subtask that does not exist yet."""


class MigrationBudget(NamedTuple):
    """The budget of a round: number of migrations, or MB of state that they move, if given."""

    migrations: int
    state_mb: float | None = None


@dataclass(frozen=True)
class GroupMap:
    """Key groups and hosts in the last of some periods; loads are means over all of them.

    operators: those whose key groups may move. more: hosts without subtasks that key groups may go to as well. marked:
    hosts that key groups are to leave.
    """

    deployment: Deployment
    periods: Sequence[PeriodStatistics]
    operators: Sequence[str]
    more: frozenset[str] = frozenset()
    marked: frozenset[str] = frozenset()

    def balance(self, budget: MigrationBudget, with_traffic: bool = False) -> Balance:
        """Balancing problem with loads by CPU and by state, in percent of a host, and the memory of hosts as a limit.

        Raises BadInput if there is nothing to balance.
        """
        nodes, home_g = len(self.hosts), self.home_g
        cores_g, rest_h = self.cores()
        cores_h = np.array([self._core_count(host) for host in self.hosts])
        capacity_h = np.minimum(cores_h, self._subtasks_h() + rest_h)
        state_g, other_h, ram_h = self._memory_mb()
        ends_g = np.concatenate([home_g, np.arange(nodes)])
        traffic = None
        if with_traffic:
            traffic = traffic_of(self.deployment, self.periods, self.operators, beside=nodes)
        found = Balance(
            loads={
                "cpu": 100.0 * np.concatenate([cores_g, rest_h]) / capacity_h[ends_g],
                "state": 100.0 * np.concatenate([state_g, np.zeros(nodes)]) / ram_h[ends_g],
            },
            home_g=ends_g,
            capacity_h=capacity_h,
            budget=budget.migrations if budget.state_mb is None else budget.state_mb,
            cost_g=None if budget.state_mb is None else np.concatenate([state_g, other_h]),
            state_g=np.concatenate([state_g, other_h]),
            memory_h=self.deployment.engine.memory.onset * ram_h,
            fixed_g=np.arange(len(ends_g)) >= len(home_g),
            kill_h=np.array([host in self.marked for host in self.hosts]),
            traffic=traffic,
        )
        if with_traffic and found.bottleneck == "cpu":
            return replace(found, serialising=serialising(self.deployment))
        return found

    def moves(self, node_g: np.ndarray) -> tuple[Move, ...]:
        """Moves of key groups to these nodes: to the subtask there with the least work, or to a new one if possible."""
        cores_g, _ = self.cores()
        load = dict.fromkeys(self.subtasks, 0.0)
        for (operator, group), cores in zip(self.groups, cores_g, strict=True):
            load[operator, group.subtask] += cores
        wanted: dict[tuple[str, int, str], list[int]] = {}
        moved = np.flatnonzero(node_g[: len(self.groups)] != self.home_g)
        for index in sorted(moved, key=lambda index: -cores_g[index]):
            (operator, group), host = self.groups[index], self.hosts[node_g[index]]
            there = self._subtasks_of(operator, host)
            target = min(there, key=lambda key: (load[key], key)) if there else (operator, NEW)
            load[target] = load.get(target, 0.0) + cores_g[index]
            wanted.setdefault((*target, host), []).append(group.group)
        moves = (
            Move(operator=name, key_groups=tuple(sorted(groups)), **({"to": to} if k == NEW else {"to_subtask": k}))
            for (name, k, to), groups in sorted(wanted.items())
        )
        return tuple(move for move in moves if can_move(move, self.deployment, self.periods[-1].placement))

    # where everything is ----------------------------------------------------------------------------------------------

    @property
    def groups(self) -> list[tuple[str, KeyGroupStatistics]]:
        """[G] operator and statistics of each group in the last period."""
        return _groups(self.periods[-1], self.operators)

    @property
    def subtasks(self) -> dict[tuple[str, int], str]:
        """Host of each subtask that key groups can go to."""
        hosts = _hosts(self.periods[-1])
        return {(name, number): host for name in self.operators for number, host in enumerate(hosts[name])}

    @property
    def hosts(self) -> list[str]:
        """[H] names of the nodes."""
        return sorted(self.more.union(self.subtasks.values()))

    @property
    def home_g(self) -> np.ndarray:
        """[G] node of each group, an index into `hosts`."""
        number, subtasks = {host: index for index, host in enumerate(self.hosts)}, self.subtasks
        return np.array([number[subtasks[name, group.subtask]] for name, group in self.groups], dtype=int)

    def _subtasks_of(self, operator: str, host: str) -> list[tuple[str, int]]:
        return [key for key, where in self.subtasks.items() if key[0] == operator and where == host]

    # work and memory --------------------------------------------------------------------------------------------------

    def cores(self) -> tuple[np.ndarray, np.ndarray]:
        """Reference cores that each group keeps busy [G], and that anything else on a host does [H]."""
        found = [self._cores_in(period) for period in self.periods]
        return np.mean([cores_g for cores_g, _ in found], axis=0), np.mean([rest_h for _, rest_h in found], axis=0)

    def _cores_in(self, period: PeriodStatistics) -> tuple[np.ndarray, np.ndarray]:
        hosts = _hosts(period)
        on_host = dict.fromkeys(self.hosts, 0.0)
        cores_g = []
        for name, group in _groups(period, self.operators):
            host = hosts[name][group.subtask]
            cores_g.append(group.cpu_percent / 100.0 * self._core_count(host))
            on_host[host] = on_host.get(host, 0.0) + cores_g[-1]
        used = {host: row["cpuUtilisation"] * self._core_count(host) for host, row in period.hosts.items()}
        return np.array(cores_g), np.array([max(0.0, used.get(host, 0.0) - on_host[host]) for host in self.hosts])

    def _core_count(self, host: str) -> float:
        return self.deployment.cluster.host(host).left_percent / 100.0

    def _subtasks_h(self) -> np.ndarray:
        count = Counter(self.subtasks.values())
        count.update({host: len(self.operators) for host in self.more})  # a subtask of each operator may be made there
        return np.array([count[host] for host in self.hosts], dtype=float)

    def _memory_mb(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """State of groups as objects [G], other used memory of a host [H], and its RAM [H], all in MB."""
        overhead = self.deployment.engine.state_overhead
        state_g = np.array([group.state_bytes for _, group in self.groups]) * overhead / 1e6
        rows = self.periods[-1].hosts
        used_h = np.array([rows[host]["memoryUsedMb"] if host in rows else 0.0 for host in self.hosts])
        ram_h = np.array([self.deployment.cluster.host(host).ram_mb for host in self.hosts], dtype=float)
        return state_g, np.maximum(0.0, used_h - np.bincount(self.home_g, state_g, len(ram_h))), ram_h


def serialising(deployment: Deployment) -> float:
    """Cost of a byte a second between hosts, both ends together, in percent of a reference core."""
    engine = deployment.engine
    return 100.0 * 1e-9 * (engine.serialise_ns_per_byte + engine.deserialise_ns_per_byte)


def traffic_of(
    deployment: Deployment, periods: Sequence[PeriodStatistics], operators: Sequence[str], beside: int
) -> KeyGroupTraffic:
    """Mean traffic over the periods between key groups, operator by operator, and `beside` silent groups."""
    counts = [len(periods[-1].key_groups[name]) for name in operators]
    first = dict(zip(operators, accumulate(counts, initial=0), strict=False))
    senders, receivers, rates = [], [], []
    for ends in sorted({ends for period in periods for ends in period.traffic}):
        if ends[0] in first and ends[1] in first:
            size = deployment.engine.output_bytes(deployment.query, ends[0])
            rate = size * np.mean([period.traffic[ends] for period in periods], axis=0)
            sender, receiver = np.nonzero(rate)
            senders.append(sender + first[ends[0]])
            receivers.append(receiver + first[ends[1]])
            rates.append(rate[sender, receiver])
    nothing = np.zeros(0, dtype=int)
    return KeyGroupTraffic(
        operator_g=np.repeat(np.arange(len(operators) + 1), [*counts, beside]),
        sender_e=np.concatenate([nothing, *senders]),
        receiver_e=np.concatenate([nothing, *receivers]),
        rate_e=np.concatenate([nothing.astype(float), *rates]),
    )


def _groups(period: PeriodStatistics, operators: Sequence[str]) -> list[tuple[str, KeyGroupStatistics]]:
    return [(name, group) for name in operators for group in period.key_groups[name]]


def _hosts(period: PeriodStatistics) -> dict[str, list[str]]:
    """Host of each subtask, by operator."""
    return {name: [Location.parse(place).host for place in places] for name, places in period.placement.items()}


# rounds --------------------------------------------------------------------------------------------------------------
# Policies that move key groups in rounds: their common settings, the end of a round, and the worth of its plan.
#
# Every few periods, statistics of the key groups become a `Balance`; a solver assigns groups to hosts, within a budget
# of migrations, and they go by direct state migration. Periods in which the job stood still do not count, nor do those
# before one; statistics that make no sense are noted, and nothing moves. Where a change restarts the job, it is made
# only when it is worth a restart (`RestartAccount`).


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
        if (
            group_count(deployment.query, operator, deployment.plan.parallelism(operator)) is None
            or follows
            or pinning(operator, deployment)
        ):
            return False
        probe = Move(operator=operator, key_groups=(0,), to_subtask=0)
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
