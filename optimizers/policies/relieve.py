"""Takes load off the hottest host: moves one replica from there to the host with the most idle CPU.

One move at a time, of the busiest replica that fits the other host; nothing while no host is above the threshold. A
host must have been hot for two periods in a row, between which nothing moved: work that is made up for after an outage
is soon done, and a period in which a replica left says of its host what is no longer so. Where the hottest host cannot
be helped, the next one is.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal

from pydantic import Field

from optimizers.policies.room import can_move, continues
from twin.control import PeriodStatistics, PolicySpec, Reconfiguration
from twin.deployment import Deployment
from twin.events import Move
from twin.plan import Location


class RelieveSpec(PolicySpec):
    """What of it can be set."""

    name: Literal["relieve"] = "relieve"
    hot: Annotated[float, Field(gt=0, le=1, description="CPU utilisation from which a host is relieved")] = 0.85
    gain: Annotated[
        float, Field(ge=0, lt=1, description="a move must leave the other host so much less utilised than the hot one")
    ] = 0.1

    def start(self, deployment: Deployment) -> Relieve:
        """For one run."""
        return Relieve(deployment, self)


DEFAULT = RelieveSpec()


class Relieve:
    """Remembers the last period."""

    name = "relieve"

    def __init__(self, deployment: Deployment, spec: RelieveSpec = DEFAULT) -> None:
        self.deployment = deployment
        self.spec = spec
        self._last: PeriodStatistics | None = None

    def decide(self, statistics: PeriodStatistics) -> Reconfiguration | None:
        """One move, or None."""
        last, self._last = self._last, statistics
        if last is None or not continues(last, statistics):
            return None
        cores = {host.name: host.cpu_percent / 100 for host in self.deployment.cluster.hosts}
        shares = {name: float(row["cpuUtilisation"]) for name, row in statistics.hosts.items()}
        before = {name: float(row["cpuUtilisation"]) for name, row in last.hosts.items()}
        hot = [name for name, share in shares.items() if min(share, before.get(name, 0.0)) >= self.spec.hot]
        used = {name: capacity * shares.get(name, 0.0) for name, capacity in cores.items()}
        for name in sorted(hot, key=lambda name: -shares[name]):
            move = self._move_from(name, statistics, cores, used)
            if move is not None:
                return Reconfiguration(moves=(move,), reason=f"{name} is {shares[name]:.0%} utilised")
        return None

    def _move_from(
        self, name: str, statistics: PeriodStatistics, cores: Mapping[str, float], used: Mapping[str, float]
    ) -> Move | None:
        here = self._replicas_on(name, statistics)
        for busy, operator, replica in here:
            # a replica that shares its host is busy for longer than it works: what the host did, in proportion
            work = used[name] * busy / sum(replica[0] for replica in here)
            target = min(cores, key=lambda host: ((used[host] + work) / cores[host], host))
            if target == name or (used[target] + work) / cores[target] >= used[name] / cores[name] - self.spec.gain:
                continue
            move = Move(operator=operator, replica=replica, to=target)
            if can_move(move, self.deployment, statistics.placement):
                return move
        return None

    def _replicas_on(self, host: str, statistics: PeriodStatistics) -> list[tuple[float, str, int]]:
        """(share of time busy, operator, replica), busiest first; replicas of one operator count as equal."""
        found = [
            (statistics.operators[operator]["busyTimeMsPerSecond"] / 1000, operator, replica)
            for operator, places in statistics.placement.items()
            for replica, place in enumerate(places)
            if Location.parse(place).host == host
        ]
        return sorted(
            (replica for replica in found if replica[0] > 0.0),
            key=lambda replica: (-replica[0], replica[1], replica[2]),
        )
