"""Takes load off the hottest host: moves one subtask from there to the host with the most idle CPU.

It makes one move at a time, of the busiest subtask that fits the other host, and none while no host is above the
threshold. A host must have been hot for two periods in a row, between which nothing moved: work caught up after an
outage is soon done, and a period in which a subtask left tells nothing of its host now. Where the hottest host cannot
be relieved, the next one is. Where a move restarts the job, it is made only when it is worth a restart (`restarts`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal

from pydantic import Field

from optimizers.policies.room import (
    TOO_DEAR,
    RestartAccount,
    can_move,
    continues,
    cores_by_subtask,
    hosts_of,
    stays,
    told,
)
from twin.control import PeriodStatistics, PolicySpec, Reconfiguration
from twin.deployment import Deployment
from twin.events import Move


class RelieveSpec(PolicySpec):
    """Settings of policy `relieve`."""

    name: Literal["relieve"] = "relieve"
    hot: Annotated[float, Field(gt=0, le=1, description="CPU utilisation from which a host is relieved")] = 0.85
    gain: Annotated[
        float, Field(ge=0, lt=1, description="a move must leave the other host so much less utilised than the hot one")
    ] = 0.1

    @property
    def periods_before_acting(self) -> int:
        """Number of periods before the policy can act: a host is hot after two."""
        return 2

    def start(self, deployment: Deployment) -> Relieve:
        """Starts the policy for one run."""
        return Relieve(deployment, self)


class Relieve:
    """Policy `relieve` in one run; it remembers the last period."""

    name = "relieve"

    def __init__(self, deployment: Deployment, spec: RelieveSpec) -> None:
        self.deployment = deployment
        self.spec = spec
        self._fixed = stays(deployment)
        self._last: PeriodStatistics | None = None
        self._account = RestartAccount(deployment)

    def decide(self, statistics: PeriodStatistics) -> Reconfiguration | None:
        """Returns one move off the hottest host that can be relieved, or None."""
        last, self._last = self._last, statistics
        self._account.add(statistics)
        if last is None or not continues(last, statistics):
            return None
        cores = {host.name: host.left_percent / 100 for host in self.deployment.cluster.hosts}
        shares = {name: float(row["cpuUtilisation"]) for name, row in statistics.hosts.items()}
        before = {name: float(row["cpuUtilisation"]) for name, row in last.hosts.items()}
        hot = [name for name, share in shares.items() if min(share, before.get(name, 0.0)) >= self.spec.hot]
        used = {name: capacity * shares.get(name, 0.0) for name, capacity in cores.items()}
        for name in sorted(hot, key=lambda name: -shares[name]):
            found = self._move_from(name, statistics, cores, used)
            if found is not None:
                move, load = found
                cost = self._account.cost(statistics, load)
                if not self._account.affords(cost):
                    return TOO_DEAR
                self._account.pay(cost)
                return Reconfiguration(moves=(move,), reason=f"{name} is {shares[name]:.0%} utilised")
        if self._fixed.keys() >= statistics.placement.keys():
            return Reconfiguration(warnings=(f"can move no subtask: {told(self._fixed)}",))
        return Reconfiguration(reason=f"no subtask of {', '.join(sorted(hot))} fits another host") if hot else None

    def _move_from(
        self, name: str, statistics: PeriodStatistics, cores: Mapping[str, float], used: Mapping[str, float]
    ) -> tuple[Move, float] | None:
        """Move of the busiest subtask that may go, and the utilisation of the fullest host afterwards; subtasks of one
        operator count as equal."""
        busy = {operator: row["busyTimeMsPerSecond"] for operator, row in statistics.operators.items()}
        work, hosts = cores_by_subtask(statistics, cores, self.deployment), hosts_of(statistics)
        here = [key for key in work if hosts[key] == name and busy[key[0]] > 0.0]
        for operator, subtask in sorted(here, key=lambda key: (-busy[key[0]], key)):
            load = work[operator, subtask]
            target = min(cores, key=lambda host: ((used[host] + load) / cores[host], host))
            if target == name or (used[target] + load) / cores[target] >= used[name] / cores[name] - self.spec.gain:
                continue
            move = Move(operator=operator, subtask=subtask, to=target)
            if can_move(move, self.deployment, statistics.placement):
                after = {**used, name: used[name] - load, target: used[target] + load}
                return move, max(after[host] / cores[host] for host in after)
        return None
