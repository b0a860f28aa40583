"""Scales to the replicas that measured true rates call for: DS2 (Kalavri et al., OSDI 2018), kept from oscillating.

True rates and selectivities give the number of replicas that the offered rate keeps busy (`demand`), for all operators
at once. The number wanted brings them to `target_utilisation`. Around that lies a dead band, as in the autoscaler of
Flink's Kubernetes operator (`target.utilization`, `.boundary`): nothing changes while the present replicas would be
between `target_utilisation` less and plus `margin` busy. As in Flink (`catch-up.duration`), a backlog is no steady
demand: it is to be gone within `catch_up_s`, with replicas that may be fully busy meanwhile, and until then no operator
shrinks.

From DS2's scaling manager, here in periods: a period after a change is ignored (warm-up time), as is one in which the
job stood still for a time; an operator shrinks only after `calm_periods` that all call for fewer replicas (activation
time), to the most that any of them called for, except the first, which may have begun before the load fell. It grows at
once, by means over `smoothing_periods`: a step of the load or a growing backlog is believed in its first period, a
small excess is not. Our addition: an operator that grows again after it shrank waits twice as long the next time.
"""

from __future__ import annotations

import math
from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from optimizers.policies.demand import Demand, Need
from optimizers.policies.room import continues, fixed_operators, rescaled, stood_still
from twin.control import PeriodStatistics, PolicySpec, Reconfiguration
from twin.deployment import Deployment

ROUNDING = 1e-9
"""Part of a replica that is not rounded up to a whole one."""


class Ds2Spec(PolicySpec):
    """Settings of policy `ds2`."""

    name: Literal["ds2"] = "ds2"
    target_utilisation: Annotated[float, Field(description="share of time that replicas are to be busy")] = 0.8
    margin: Annotated[float, Field(description="half of the dead band around it")] = 0.15
    catch_up_s: Annotated[float, Field(gt=0, le=10**10, description="within which a backlog is to be gone")] = 60.0
    smoothing_periods: Annotated[int, Field(ge=1, description="that the means are taken over")] = 5
    calm_periods: Annotated[int, Field(ge=1, description="that call for fewer replicas before there are fewer")] = 8
    patience: Annotated[
        int, Field(ge=1, description="times calm_periods, at most, for an operator that had to grow again")
    ] = 8

    @model_validator(mode="after")
    def _check(self) -> Self:
        if not 0.0 <= self.margin < self.target_utilisation <= 1.0 - self.margin:
            raise ValueError(
                f"target_utilisation {self.target_utilisation:g} with margin {self.margin:g} leaves (0, 1]; "
                "give 0 <= margin < target_utilisation <= 1 - margin"
            )
        return self

    def start(self, deployment: Deployment) -> Ds2:
        """Starts the policy for one run."""
        return Ds2(deployment, self)


class Ds2:
    """Scales all operators that can be scaled; new replicas go to the hosts with the most idle CPU, if there is any."""

    name = "ds2"

    def __init__(self, deployment: Deployment, spec: Ds2Spec) -> None:
        self.deployment = deployment
        self.spec = spec
        self._fixed = fixed_operators(deployment)
        self._demand = Demand(deployment.query, self._fixed, spec.catch_up_s, spec.smoothing_periods)
        self._last: PeriodStatistics | None = None
        self._calm: dict[str, list[int]] = {}
        self._patience: dict[str, int] = {}
        self._shrunk: set[str] = set()  # operators whose last change was to shrink

    def decide(self, statistics: PeriodStatistics) -> Reconfiguration | None:
        """Returns new replica counts where the present ones do not fit; None if all fit, or without a measurement."""
        return rescaled(self.deployment, statistics, self.replicas_wanted(statistics), self._fixed)

    def replicas_wanted(self, statistics: PeriodStatistics) -> dict[str, int]:
        """Number of replicas wanted of each operator that was ever busy, whether it can be scaled or not."""
        last, self._last = self._last, statistics
        if last is not None and not continues(last, statistics):
            self._calm.clear()
            return {}
        if stood_still(statistics, self.deployment):
            return {}
        demand = self._demand
        demand.add(statistics)
        now, lately = demand.now(), demand.lately()
        return {name: self._count(name, len(statistics.placement[name]), now[name], lately[name]) for name in now}

    def _count(self, name: str, present: int, now: Need, lately: Need) -> int:
        """Replicas wanted of an operator: it grows at once, shrinks after calm periods, not within the dead band."""
        calm = self._calm.setdefault(name, [])
        target, margin = self.spec.target_utilisation, self.spec.margin
        if lately.load / (target + margin) + lately.catch_up > present + ROUNDING:
            calm.clear()
            return self._grown(name, self._wanted(lately, name))
        few = self._wanted(now, name)
        if self._demand.behind or few >= present or now.load / (target - margin) >= present:
            calm.clear()
            return present
        calm.append(few)
        if len(calm) < self.spec.calm_periods * self._patience.get(name, 1):
            return present
        count = max(calm[1:] or calm)
        calm.clear()
        self._shrunk.add(name)
        return count

    def _grown(self, name: str, count: int) -> int:
        if name in self._shrunk:
            self._shrunk.remove(name)
            self._patience[name] = min(self.spec.patience, 2 * self._patience.get(name, 1))
        return count

    def _wanted(self, need: Need, name: str) -> int:
        count = max(1, math.ceil(need.load / self.spec.target_utilisation + need.catch_up - ROUNDING))
        groups: int | None = getattr(self.deployment.query.operator(name), "key_groups", None)
        return count if groups is None else min(count, groups)  # a replica without key groups would be idle
