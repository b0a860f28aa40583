"""A policy of one's own: an operator that is busy gets twice as many subtasks.

Once this module is imported, scenarios can name it, with settings: `scenario.with_policy("double-when-busy")`.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from optimizers.policies.room import fixed_operators
from twin.control import PeriodStatistics, PolicySpec, Reconfiguration
from twin.deployment import Deployment
from twin.events import Rescale


class DoubleWhenBusy:
    """Satisfies `twin.control.Policy`, a name and `decide`. limit: share of time beyond which an operator is busy."""

    name = "double-when-busy"

    def __init__(self, deployment: Deployment, limit: float) -> None:
        self.limit_ms = 1000 * limit
        fixed = fixed_operators(deployment)  # sources, what is pinned, and the like
        self.scalable = [name for name in deployment.plan.placement if name not in fixed]

    def decide(self, statistics: PeriodStatistics) -> Reconfiguration | None:
        """Is asked at the end of each period; None changes nothing."""
        busy = [name for name in self.scalable if statistics.operators[name]["busyTimeMsPerSecond"] > self.limit_ms]
        rescales = tuple(Rescale(operator=name, placement=statistics.placement[name] * 2) for name in busy)
        return Reconfiguration(rescales=rescales) if rescales else None


class DoubleWhenBusySpec(PolicySpec):
    """Settings of the policy, as a scenario writes them."""

    name: Literal["double-when-busy"] = "double-when-busy"
    limit: Annotated[float, Field(gt=0, le=1, description="share of time")] = 0.9

    def start(self, deployment: Deployment) -> DoubleWhenBusy:
        """Makes the policy of one run."""
        return DoubleWhenBusy(deployment, self.limit)
