"""Takes load off the hottest host: moves one replica from there to the host with the most idle CPU.

One move a period, of the busiest replica that fits the other host; nothing while no host is above the threshold.
"""

from __future__ import annotations

from twin.control import PeriodStatistics, Reconfiguration
from twin.deployment import Deployment
from twin.events import Move
from twin.plan import Location

HOT = 0.85
"""CPU utilisation above which a host is relieved."""
GAIN = 0.1
"""A move must leave the other host this much less utilised than the hot one is now."""


class Relieve:
    """Keeps no history."""

    name = "relieve"

    def __init__(self, deployment: Deployment) -> None:
        self.deployment = deployment

    def decide(self, statistics: PeriodStatistics) -> Reconfiguration | None:
        """One move, or None."""
        hot = max(statistics.hosts.values(), key=lambda row: row["cpuUtilisation"], default=None)
        if hot is None or hot["cpuUtilisation"] < HOT:
            return None
        cores = {host.name: host.cpu_percent / 100 for host in self.deployment.cluster.hosts}
        used = {
            name: capacity * (statistics.hosts[name]["cpuUtilisation"] if name in statistics.hosts else 0.0)
            for name, capacity in cores.items()
        }
        name = str(hot["host"])
        here = self._replicas_on(name, statistics)
        for busy, operator, replica in here:
            # a replica that shares its host is busy for longer than it works: what the host did, in proportion
            work = used[name] * busy / sum(each[0] for each in here)
            target = min(cores, key=lambda host: ((used[host] + work) / cores[host], host))
            if target != name and (used[target] + work) / cores[target] < hot["cpuUtilisation"] - GAIN:
                move = Move(operator=operator, replica=replica, to=target)
                return Reconfiguration(moves=(move,), reason=f"{name} is {hot['cpuUtilisation']:.0%} utilised")
        return None

    def _replicas_on(self, host: str, statistics: PeriodStatistics) -> list[tuple[float, str, int]]:
        """(share of time busy, operator, replica), busiest first; replicas of one operator count as equal."""
        found = [
            (statistics.operators[operator]["busyTimeMsPerSecond"] / 1000, operator, replica)
            for operator, places in statistics.placement.items()
            for replica, place in enumerate(places)
            if Location.parse(place).host == host
        ]
        return sorted((each for each in found if each[0] > 0.0), key=lambda each: (-each[0], each[1], each[2]))
