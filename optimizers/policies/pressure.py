"""By how much more, or less, work each operator would do if it took what is offered: three ways to know.

The paper's scaling looks at measured loads alone, and sees a full cluster as full, however much waits. DS2 and the rule
of Flink's autoscaler compare what arrives with what is taken. All three then decide by the same thresholds.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, Protocol

from optimizers.policies.demand import Demand
from optimizers.policies.flink_autoscaler import FlinkAutoscaler, FlinkAutoscalerSpec
from optimizers.policies.room import fixed_operators
from twin.control import PeriodStatistics
from twin.deployment import Deployment

By = Literal["measured", "ds2", "flink-autoscaler"]
MOST = 10.0
"""Times as much work as now, which is believed of one round; likewise its inverse."""
LITTLE = 1e-9


class PressureGauge(Protocol):
    """Fed with every period that counts."""

    def add(self, statistics: PeriodStatistics) -> None:
        """A period throughout which the job ran with the same replicas."""

    def ratios(self) -> Mapping[str, float]:
        """Work at the offered rates over present work, by operator; operators with the same work are not listed."""


@dataclass
class ByDs2:
    """Replicas that the offered rate and the backlog keep busy, over those that are."""

    deployment: Deployment
    target: float
    catch_up_s: float = 60.0
    _last: PeriodStatistics | None = None
    _demand: Demand = field(init=False)

    def __post_init__(self) -> None:
        fixed = fixed_operators(self.deployment)
        self._demand = Demand(self.deployment.query, fixed, self.catch_up_s, smoothing_periods=1)

    def add(self, statistics: PeriodStatistics) -> None:
        """See Pressure."""
        self._demand.add(statistics)
        self._last = statistics

    def ratios(self) -> Mapping[str, float]:
        """See Pressure."""
        if self._last is None:
            return {}
        busy = {name: row["busyTimeMsPerSecond"] / 1000 * row["replicas"] for name, row in self._last.operators.items()}
        needs = self._demand.lately()
        return {
            name: _believed((need.load + self.target * need.catch_up) / busy[name])
            for name, need in needs.items()
            if busy[name] > LITTLE
        }


@dataclass
class ByFlink:
    """The rate that an operator should be capable of, at the target, over the rate that it takes."""

    deployment: Deployment
    target: float
    _rule: FlinkAutoscaler = field(init=False)

    def __post_init__(self) -> None:
        spec = FlinkAutoscalerSpec(target_utilization=self.target, metrics_window_periods=1)
        self._rule = FlinkAutoscaler(self.deployment, spec)

    def add(self, statistics: PeriodStatistics) -> None:
        """See Pressure."""
        self._rule.window.append(statistics)

    def ratios(self) -> Mapping[str, float]:
        """See Pressure."""
        if not self._rule.window:
            return {}
        last = self._rule.window[-1]
        taken = {name: row["numRecordsIn"] / last.length_s for name, row in last.operators.items()}
        return {
            name: _believed(self.target * self._rule.wanted_rate(evaluated) / taken[name])
            for name, evaluated in self._rule.evaluated().items()
            if taken[name] > LITTLE
        }


def pressure(by: By, deployment: Deployment, target: float) -> PressureGauge | None:
    """target: utilisation, as a share of 1, that nodes are to have. None: what is measured is what is asked for."""
    if by == "measured":
        return None
    return ByDs2(deployment, target) if by == "ds2" else ByFlink(deployment, target)


def _believed(ratio: float) -> float:
    return min(max(ratio, 1.0 / MOST), MOST)
