"""As many replicas as the measured true rates call for: DS2 (Kalavri et al., OSDI 2018), kept from flipping.

True rates and selectivities say how many replicas the offered rate keeps busy (`demand`), for all operators at once. As
many are wanted as bring them to `target_utilisation`. Around that lies a dead band, as in the autoscaler of Flink's
Kubernetes operator (`target.utilization`, `.boundary`): nothing changes while the present replicas would be between
`target_utilisation` less and plus `margin` busy. As there (`catch-up.duration`), a backlog is no steady demand: it is
to be gone within `catch_up_s`, with replicas that may be fully busy meanwhile; and while there is one nothing shrinks.

From DS2's scaling manager, here in periods: after each change one is ignored (warm-up time), as is one in which the job
stood still for a time; an operator shrinks only after `calm_periods` that all call for fewer replicas (activation
time), to the most that any of them called for, the first apart, which may have begun before the load fell. It grows at
once, by means over `smoothing_periods`: a step of the load or a growing backlog is believed in its first period, a
small excess is not. Ours: having to grow again after it shrank doubles the calm that the next time takes.
"""

from __future__ import annotations

import math

from optimizers.policies.demand import ENOUGH_BUSY_MS, Demand, Need
from optimizers.policies.room import Room, can_rescale, continues
from twin.control import PeriodStatistics, Reconfiguration
from twin.deployment import Deployment
from twin.errors import BadInput
from twin.events import Rescale

MOST_PATIENT = 8
"""Times `calm_periods` that an operator may have to be calm, however often it had to grow again."""
ROUNDING = 1e-9
"""So much of a replica more is none."""


class Ds2:
    """Scales every operator that can be scaled; new replicas go to the hosts with the most idle CPU, if there is any.

    target_utilisation: share of time that replicas are to be busy. margin: half of the dead band. catch_up_s: seconds
    in which a backlog is to be gone. smoothing_periods, calm_periods: see above. Raises BadInput if they make no sense.
    """

    name = "ds2"

    def __init__(
        self,
        deployment: Deployment,
        *,
        target_utilisation: float = 0.8,
        margin: float = 0.15,
        catch_up_s: float = 60.0,
        smoothing_periods: int = 5,
        calm_periods: int = 8,
    ) -> None:
        if not 0.0 <= margin < target_utilisation <= 1.0 - margin:
            raise BadInput(
                f"ds2: target_utilisation {target_utilisation:g} with margin {margin:g} leaves (0, 1]; "
                "give 0 <= margin < target_utilisation <= 1 - margin"
            )
        if catch_up_s <= 0.0 or smoothing_periods < 1 or calm_periods < 1:
            raise BadInput(
                f"ds2: catch_up_s {catch_up_s:g} must be > 0, smoothing_periods {smoothing_periods} and calm_periods "
                f"{calm_periods} >= 1"
            )
        self.deployment = deployment
        self.target_utilisation = target_utilisation
        self.margin = margin
        self.calm_periods = calm_periods
        names = [each.name for each in deployment.query.operators]
        places = deployment.plan.placement
        fixed = frozenset(name for name in names if not can_rescale(name, places[name][:1], deployment))
        self._demand = Demand(deployment.query, fixed, catch_up_s, smoothing_periods)
        self._last: PeriodStatistics | None = None
        self._calm: dict[str, list[int]] = {}
        self._patience: dict[str, int] = {}
        self._shrunk: set[str] = set()  # operators whose last change it was

    def decide(self, statistics: PeriodStatistics) -> Reconfiguration | None:
        """New replica counts where the present ones do not fit; None if all do, or if the period says nothing."""
        wanted = self.replicas_wanted(statistics)
        room = Room(self.deployment, statistics)
        rescales = []
        for name, count in wanted.items():
            places = statistics.placement[name]
            if count > len(places):
                new = places + room.give(name, count - len(places))
            else:
                new = places[:count]
            if len(new) != len(places):
                rescales.append(Rescale(operator=name, placement=new))
        if not rescales:
            return None
        counts = {name: len(places) for name, places in statistics.placement.items()}
        changes = (f"{each.operator} {counts[each.operator]}->{len(each.placement)}" for each in rescales)
        return Reconfiguration(rescales=tuple(rescales), reason=", ".join(changes))

    def replicas_wanted(self, statistics: PeriodStatistics) -> dict[str, int]:
        """For each operator that can be scaled and was ever busy, how many replicas it should have."""
        last, self._last = self._last, statistics
        if last is not None and not continues(last, statistics):
            self._calm.clear()
            return {}
        if self._stood_still(statistics):
            return {}
        demand = self._demand
        demand.add(statistics)
        now, lately = demand.now(), demand.lately()
        return {name: self._count(name, len(statistics.placement[name]), now[name], lately[name]) for name in now}

    def _count(self, name: str, present: int, now: Need, lately: Need) -> int:
        """Grows at once, shrinks after calm periods, and neither within the dead band."""
        calm = self._calm.setdefault(name, [])
        if lately.load / (self.target_utilisation + self.margin) + lately.catch_up > present + ROUNDING:
            calm.clear()
            return self._grown(name, self._wanted(lately, name))
        few = self._wanted(now, name)
        if self._demand.behind or few >= present or now.load / (self.target_utilisation - self.margin) >= present:
            calm.clear()
            return present
        calm.append(few)
        if len(calm) < self.calm_periods * self._patience.get(name, 1):
            return present
        count = max(calm[1:] or calm)
        calm.clear()
        self._shrunk.add(name)
        return count

    def _grown(self, name: str, count: int) -> int:
        if name in self._shrunk:
            self._shrunk.remove(name)
            self._patience[name] = min(MOST_PATIENT, 2 * self._patience.get(name, 1))
        return count

    def _wanted(self, need: Need, name: str) -> int:
        count = max(1, math.ceil(need.load / self.target_utilisation + need.catch_up - ROUNDING))
        groups: int | None = getattr(self.deployment.query.operator(name), "key_groups", None)
        return count if groups is None else min(count, groups)  # a replica without any would be idle

    def _stood_still(self, statistics: PeriodStatistics) -> bool:
        """Nothing can block a sink: if one was, the whole job was down."""
        sinks = (statistics.operators[each.name] for each in self.deployment.query.sinks)
        return any(row["backPressuredTimeMsPerSecond"] > ENOUGH_BUSY_MS for row in sinks)
