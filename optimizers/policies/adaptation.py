"""ALBIC's adaptation framework (Algorithm 1) in a running job: balance, decide on hosts, balance again, carry it out.

Hosts of the cluster that the job does not use may be added; one to be removed is marked, gives its key groups
away within the budget of the rounds, and is left when it has none. Where a change restarts the job, moves that only
balance wait until they are worth a restart (`RestartAccount`); those from a marked host do not, as they save the host.
Hosts are decided on by loads as they are measured (the paper's way), or by the rates that DS2 or Flink's autoscaler
find that operators should take.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Annotated, Literal, Self

import numpy as np
from pydantic import Field, model_validator

from optimizers.balancing.albic import Albic, Decision, Utilisation, planned
from optimizers.balancing.joint import Joint
from optimizers.balancing.problem import Assignment, Balance, Solver
from optimizers.balancing.search import Search
from optimizers.policies.ds2 import Demand
from optimizers.policies.flink_autoscaler import FlinkAutoscaler, FlinkAutoscalerSpec
from optimizers.policies.room import TOO_DEAR, can_move, continues, fixed_operators, stood_still
from optimizers.policies.rounds import SEARCHED, GroupMap, Round, Rounds, figures, gained, reason
from twin.control import PeriodStatistics, PolicySpec, Reconfiguration
from twin.deployment import Deployment
from twin.events import Move
from twin.plan import Location

By = Literal["measured", "ds2", "flink-autoscaler"]
MOST = 10.0
"""Largest factor on the present work that is believed of one round; its inverse is the smallest."""
LITTLE = 1e-9
CATCH_UP_S = 60.0
"""Seconds within which a backlog is to be gone."""


@dataclass
class PressureGauge:
    """Gauge of the work that operators would do at the offered rates. measure: takes in a period. work: by operator,
    that work and the present work, in one unit."""

    measure: Callable[[PeriodStatistics], None]
    work: Callable[[PeriodStatistics], Mapping[str, tuple[float, float]]]
    _last: PeriodStatistics | None = None

    def add(self, statistics: PeriodStatistics) -> None:
        """Adds a period throughout which the job ran with the same subtasks."""
        self.measure(statistics)
        self._last = statistics

    def ratios(self) -> Mapping[str, float]:
        """Work at the offered rates over present work, by operator; operators with the same work are not listed."""
        found = {} if self._last is None else self.work(self._last)
        ratios = {name: wanted / present for name, (wanted, present) in found.items() if present > LITTLE}
        return {name: min(max(ratio, 1.0 / MOST), MOST) for name, ratio in ratios.items()}


def pressure(by: By, deployment: Deployment, target: float) -> PressureGauge | None:
    """Gauge of the work each operator would do at the offered rates, over its present work; None for measured loads.

    The paper's scaling looks at measured loads alone, and sees a full cluster as full, however long its queues. DS2
    and Flink's autoscaler compare arriving with taken records. target: utilisation, as a share of 1, that nodes are to
    have.
    """
    if by == "measured":
        return None
    return _by_ds2(deployment, target) if by == "ds2" else _by_flink(deployment, target)


def _by_ds2(deployment: Deployment, target: float) -> PressureGauge:
    """Gauge by the subtasks that the offered rate and the backlog would keep busy, and those that are busy."""
    fixed = fixed_operators(deployment)
    demand = Demand(deployment.query, fixed, CATCH_UP_S, smoothing_periods=1)

    def work(last: PeriodStatistics) -> dict[str, tuple[float, float]]:
        busy = {name: row["busyTimeMsPerSecond"] / 1000 * row["parallelism"] for name, row in last.operators.items()}
        needs = demand.lately()
        free = {name: need for name, need in needs.items() if name not in fixed}
        return {name: (need.load + target * need.catch_up, busy[name]) for name, need in free.items()}

    return PressureGauge(demand.add, work)


def _by_flink(deployment: Deployment, target: float) -> PressureGauge:
    """Gauge by the rate that an operator should be capable of, at the target, and the rate that it takes."""
    rule = FlinkAutoscaler(deployment, FlinkAutoscalerSpec(utilization_target=target, metrics_window_periods=1))

    def work(last: PeriodStatistics) -> dict[str, tuple[float, float]]:
        taken = {name: row["numRecordsIn"] / last.length_s for name, row in last.operators.items()}
        rates = rule.evaluated()
        return {name: (target * rule.wanted_rate(rates[head]), taken[head]) for name, head in rule.heads.items()}

    return PressureGauge(rule.measure, work)


class AdaptationSpec(Round, PolicySpec):
    """Settings of policy `adaptation`: balancing by key groups, with hosts added and removed."""

    name: Literal["adaptation"] = "adaptation"
    solver: Annotated[Literal["search", "albic", "joint"], Field(description="as in docs/albic.md")] = "search"
    scaling: Annotated[By | Literal["never"], Field(description="what decides on hosts")] = "measured"
    low: Annotated[float, Field(gt=0, lt=100, description="mean load (percent) below which hosts go")] = 40.0
    target: Annotated[float, Field(gt=0, lt=100, description="mean load to come to by adding or removing hosts")] = 60.0
    high: Annotated[float, Field(gt=0, le=100, description="load of a host, as planned, above which hosts come")] = 85.0
    calm_rounds: Annotated[int, Field(ge=1, description="that call for fewer hosts before one goes")] = 3

    @model_validator(mode="after")
    def _check_thresholds(self) -> Self:
        if not self.low < self.target < self.high:
            raise ValueError(f"low < target < high is needed, got {self.low:g}, {self.target:g}, {self.high:g}")
        return self

    def start(self, deployment: Deployment) -> Adapting:
        """Starts the policy for one run."""
        by: By = "measured" if self.scaling == "never" else self.scaling
        asked = pressure(by, deployment, self.target / 100.0)
        return Adapting(deployment, self, self._solver(), self.name, options=self, asked=asked)

    def _solver(self) -> Solver:
        search = Search(looks=SEARCHED, band=self.band)
        if self.solver == "albic":
            return Albic(share=0.6, inner=search)
        return Joint(band=max(self.band, 3.0), inner=search) if self.solver == "joint" else search


@dataclass(kw_only=True)
class Adapting(Rounds):
    """Adaptation in one run. joined: hosts added that have no subtasks yet. marked: hosts to be removed."""

    options: AdaptationSpec
    asked: PressureGauge | None
    joined: set[str] = field(default_factory=set)
    marked: set[str] = field(default_factory=set)
    _last: PeriodStatistics | None = None
    _calm: int = 0
    _waiting: int = 0  # key groups on marked hosts, a round ago

    def decide(self, statistics: PeriodStatistics) -> Reconfiguration | None:
        """Returns, at the end of a round, the moves that balance or that added and removed hosts need; else None."""
        last, self._last = self._last, statistics
        counts = (last is None or continues(last, statistics)) and not stood_still(statistics, self.deployment)
        if self.asked is not None and counts:
            self.asked.add(statistics)
        return super().decide(statistics)

    def _round(self, here: GroupMap) -> Reconfiguration | None:
        used = set(here.hosts)
        self.joined -= used
        self.marked &= used
        here, balance = self._map(here)
        plan = self.solver.solve(balance)
        decision = self._decision(here, balance, plan)
        changed = self._applied(decision, here)
        waiting = int(balance.marked_h[balance.home_g[: len(here.groups)]].sum())
        stalled, self._waiting = 0 < waiting == self._waiting, waiting
        if changed or stalled:
            here, balance = self._map(here)
            plan = planned(balance, self.solver, stalled=stalled)
        worth = gained(balance, plan) and balance.distance(balance.home_g) > self.spec.band
        drains = bool(balance.marked_h[balance.home_g[plan.moves]].any())
        moves = here.moves(plan.node_g) if not balance.violation(plan.node_g) and (worth or drains) else ()
        if not (moves or changed):
            return None
        if moves:
            cost = self.account.cost(here.periods[-1], balance.mean / 100.0)
            if not (self.account.affords(cost) or (drains and np.isfinite(cost))):
                return replace(TOO_DEAR, reason=changed + TOO_DEAR.reason)
            self.account.pay(cost)
        told = figures(balance, plan) | {"hosts": float((~balance.marked_h).sum())}
        return Reconfiguration(moves, reason=changed + reason(balance, plan), figures=told, retire=True)

    def _map(self, here: GroupMap) -> tuple[GroupMap, Balance]:
        here = replace(here, more=frozenset(self.joined), marked=frozenset(self.marked))
        return here, here.balance(self.spec.budget, with_traffic=self.options.solver != "search")

    # hosts -----------------------------------------------------------------------------------------------------------

    def _decision(self, here: GroupMap, balance: Balance, plan: Assignment) -> Decision:
        """Decision by the thresholds, as if operators did all the work that the offered rates ask for."""
        if self.options.scaling == "never":
            return Decision()
        ratios = {} if self.asked is None else self.asked.ratios()
        more_g = np.ones(len(balance.home_g))
        more_g[: len(here.groups)] = [ratios.get(operator, 1.0) for operator, _ in here.groups]
        cpu = replace(balance, loads={"cpu": balance.loads["cpu"] * more_g}, limits={}, traffic=None)
        decision = Utilisation(self.options.low, self.options.target, self.options.high)(cpu, plan)
        self._calm = self._calm + 1 if decision.remove else 0
        return decision if not decision.remove or self._calm >= self.options.calm_rounds else Decision()

    def _applied(self, decision: Decision, here: GroupMap) -> str:
        """Notes a decision; returns the change of hosts in words, empty if none."""
        keep = {here.hosts[node] for node in decision.keep} & self.marked
        remove = {here.hosts[node] for node in decision.remove if self._may_go(here.hosts[node], here)}
        add = self._spare(decision.add, here)
        self.joined |= set(add)
        self.marked = (self.marked - keep) | remove
        if remove:
            self._calm = 0
        parts = (("add", add), ("keep", sorted(keep)), ("remove", sorted(remove)))
        return "".join(f"{verb} {', '.join(hosts)}; " for verb, hosts in parts if hosts)

    def _may_go(self, host: str, here: GroupMap) -> bool:
        """Whether a host has no subtasks but those whose key groups can move."""
        placement = here.periods[-1].placement
        there = {name for name, places in placement.items() for place in places if Location.parse(place).host == host}
        return there <= set(self.operators) and host not in self.joined

    def _spare(self, capacity: float, here: GroupMap) -> list[str]:
        """Unused hosts that may carry all of these operators, the strongest first, up to that capacity."""
        found, left = list[str](), capacity
        hosts = sorted(self.deployment.cluster.hosts, key=lambda host: (-host.left_percent, host.name))
        for host in hosts:
            if left > 1e-9 and host.name not in here.hosts and not self._used(host.name, here):
                probes = (Move(operator=name, key_groups=(0,), to=host.name) for name in self.operators)
                if all(can_move(probe, self.deployment, here.periods[-1].placement) for probe in probes):
                    found.append(host.name)
                    left -= min(host.left_percent / 100.0, float(len(self.operators)))
        return found

    def _used(self, host: str, here: GroupMap) -> bool:
        places = (place for row in here.periods[-1].placement.values() for place in row)
        return any(Location.parse(place).host == host for place in places)
