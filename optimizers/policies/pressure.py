"""By how much more, or less, work each operator would do if it took what is offered: three ways to know.

The paper's scaling looks at measured loads alone, and sees a full cluster as full, however much waits. DS2 and the rule
of Flink's autoscaler compare what arrives with what is taken. All three then decide by the same thresholds.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal

from optimizers.policies.demand import Demand
from optimizers.policies.flink_autoscaler import FlinkAutoscaler, FlinkAutoscalerSpec
from optimizers.policies.room import fixed_operators
from twin.control import PeriodStatistics
from twin.deployment import Deployment

By = Literal["measured", "ds2", "flink-autoscaler"]
MOST = 10.0
"""Times as much work as now, which is believed of one round; likewise its inverse."""
LITTLE = 1e-9
CATCH_UP_S = 60.0
"""Within which a backlog is to be gone; DS2's usual."""


@dataclass
class PressureGauge:
    """measure: takes in a period. work: what operators would do at the offered rates, and what they do, in one unit."""

    measure: Callable[[PeriodStatistics], None]
    work: Callable[[PeriodStatistics], Mapping[str, tuple[float, float]]]
    _last: PeriodStatistics | None = None

    def add(self, statistics: PeriodStatistics) -> None:
        """A period throughout which the job ran with the same replicas."""
        self.measure(statistics)
        self._last = statistics

    def ratios(self) -> Mapping[str, float]:
        """Work at the offered rates over present work, by operator; operators with the same work are not listed."""
        found = {} if self._last is None else self.work(self._last)
        ratios = {name: wanted / present for name, (wanted, present) in found.items() if present > LITTLE}
        return {name: min(max(ratio, 1.0 / MOST), MOST) for name, ratio in ratios.items()}


def pressure(by: By, deployment: Deployment, target: float) -> PressureGauge | None:
    """target: utilisation, as a share of 1, that nodes are to have. None: what is measured is what is asked for."""
    if by == "measured":
        return None
    return _by_ds2(deployment, target) if by == "ds2" else _by_flink(deployment, target)


def _by_ds2(deployment: Deployment, target: float) -> PressureGauge:
    """By replicas that the offered rate and the backlog keep busy, and those that are."""
    demand = Demand(deployment.query, fixed_operators(deployment), CATCH_UP_S, smoothing_periods=1)

    def work(last: PeriodStatistics) -> dict[str, tuple[float, float]]:
        busy = {name: row["busyTimeMsPerSecond"] / 1000 * row["replicas"] for name, row in last.operators.items()}
        needs = demand.lately()
        return {name: (need.load + target * need.catch_up, busy[name]) for name, need in needs.items()}

    return PressureGauge(demand.add, work)


def _by_flink(deployment: Deployment, target: float) -> PressureGauge:
    """By the rate that an operator should be capable of, at the target, and the rate that it takes."""
    rule = FlinkAutoscaler(deployment, FlinkAutoscalerSpec(target_utilization=target, metrics_window_periods=1))

    def work(last: PeriodStatistics) -> dict[str, tuple[float, float]]:
        taken = {name: row["numRecordsIn"] / last.length_s for name, row in last.operators.items()}
        return {name: (target * rule.wanted_rate(each), taken[name]) for name, each in rule.evaluated().items()}

    return PressureGauge(rule.window.append, work)
