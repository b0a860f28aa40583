"""Scales to the replicas that measured true rates call for: DS2 (Kalavri et al., OSDI 2018).

True rates and selectivities give the number of replicas that the offered rate keeps busy (`demand`), for all operators
but sources at once; the next whole number is the published optimum. Like DS2's scaling manager, in periods: a period
after a change is ignored (warm-up time), as is one in which the job stood still for a time; nothing changes if no
operator would grow, and none would shrink by more than `minor_change` replicas.

The other options keep it from oscillating, and are ours. `target_utilisation` leaves replicas idle for a part of the
time (DS2's scaling factor: 1 / (1 + factor)). Around that lies a dead band, as in the autoscaler of Flink's Kubernetes
operator: nothing changes while the present replicas would be between `target_utilisation` less and plus `margin` busy.
An operator grows by means over `smoothing_periods`: a step of the load or a growing backlog is believed in its first
period, a small excess is not. It shrinks only after `calm_periods` that all call for fewer replicas (activation time),
to the most that any of them called for, except the first, which may have begun before the load fell. An operator that
grows again after it shrank waits twice as long the next time, up to `patience` times. With `catch_up_s` a backlog is to
be gone within that time, with replicas that may be fully busy meanwhile, and until then no operator shrinks.
"""

from __future__ import annotations

import math
from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from optimizers.policies.demand import Demand, Need
from optimizers.policies.room import continues, fixed_operators, rescaled, stood_still
from twin.control import PeriodStatistics, PolicySpec, Reconfiguration
from twin.deployment import Deployment
from twin.keys import key_groups_of


class Ds2Spec(PolicySpec):
    """Settings of policy `ds2`; the defaults are as published."""

    name: Literal["ds2"] = "ds2"
    target_utilisation: Annotated[
        float, Field(gt=0, le=1, description="share of time that subtasks are to be busy")
    ] = 1.0
    margin: Annotated[float, Field(ge=0, description="half of the dead band around it")] = 0.0
    catch_up_s: Annotated[
        float | None,
        Field(gt=0, le=10**10, description="within which a backlog is to be gone; absent: it asks for no subtasks"),
    ] = None
    minor_change: Annotated[
        int, Field(ge=0, description="subtasks by which operators do not shrink unless another change is made")
    ] = 1
    smoothing_periods: Annotated[int, Field(ge=1, description="that the means are taken over")] = 1
    calm_periods: Annotated[int, Field(ge=1, description="that call for fewer subtasks before there are fewer")] = 1
    patience: Annotated[
        int, Field(ge=1, description="times calm_periods, at most, for an operator that had to grow again")
    ] = 1

    @model_validator(mode="after")
    def _check(self) -> Self:
        if not self.margin < self.target_utilisation:
            raise ValueError(
                f"margin {self.margin:g} is not below target_utilisation {self.target_utilisation:g}, so no operator "
                "could shrink; give 0 <= margin < target_utilisation"
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
        called = self.replicas_wanted(statistics)
        present = {name: len(places) for name, places in statistics.placement.items()}
        groups = {operator.name: key_groups_of(operator) for operator in self.deployment.query.operators}
        most = {name: count for name, count in groups.items() if count is not None}  # more replicas would be idle
        limits = {
            name: f"it has {most[name]} key groups; give it more"
            for name, count in called.items()
            if count > most.get(name, count) and name not in self._fixed
        }
        wanted = {name: min(count, most.get(name, count)) for name, count in called.items()}
        free = [(wanted[name], present[name]) for name in wanted if name not in self._fixed]
        if not any(count > now or count < now - self.spec.minor_change for count, now in free):
            wanted = {name: max(count, present[name]) for name, count in wanted.items()}
        self._shrunk |= {name for name, count in wanted.items() if count < present[name]}
        return rescaled(self.deployment, statistics, wanted, self._fixed, limits)

    def replicas_wanted(self, statistics: PeriodStatistics) -> dict[str, int]:
        """Number of replicas wanted of each operator that was ever busy, whether it can have them or not."""
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
        if (lately.load - lately.slack) / min(1.0, target + margin) + lately.catch_up > present:
            calm.clear()
            return self._grown(name, self._wanted(lately))
        few, catching_up = self._wanted(now), self.spec.catch_up_s is not None and self._demand.behind
        if catching_up or few >= present or now.load / (target - margin) >= present:
            calm.clear()
            return present
        calm.append(few)
        if len(calm) < self.spec.calm_periods * self._patience.get(name, 1):
            return present
        count = max(calm[1:] or calm)
        calm.clear()
        return count

    def _grown(self, name: str, count: int) -> int:
        if name in self._shrunk:
            self._shrunk.remove(name)
            self._patience[name] = min(self.spec.patience, 2 * self._patience.get(name, 1))
        return count

    def _wanted(self, need: Need) -> int:
        return max(1, math.ceil((need.load - need.slack) / self.spec.target_utilisation + need.catch_up))
