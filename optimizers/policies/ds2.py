"""As many replicas as the measured true rates call for: DS2 (Kalavri et al., OSDI 2018).

A replica's true rate is what it takes in a second of useful work: input over busy time, whatever backpressure or
idleness there was. The offered rate at the sources and the measured selectivities say what each operator should take;
the ratio of the two is how many replicas it needs, all operators at once.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from typing import Any

from twin.control import PeriodStatistics, Reconfiguration
from twin.deployment import Deployment
from twin.events import Rescale, scaling_obstacle

FULL = 0.8
"""Replicas are counted so that none is busier than this."""
ENOUGH_BUSY_MS = 5.0
"""Busy time (ms a second) below which a true rate is not believed."""
CALM_PERIODS = 2
"""Periods in a row that must call for fewer replicas before any is taken away."""


class Ds2:
    """Scales every operator that can be scaled; new replicas go to the hosts with the most idle CPU."""

    name = "ds2"

    def __init__(self, deployment: Deployment) -> None:
        self.deployment = deployment
        self._calm: Counter[str] = Counter()

    def decide(self, statistics: PeriodStatistics) -> Reconfiguration | None:
        """New replica counts where the present ones do not fit; None if all do."""
        wanted = self.replicas_wanted(statistics)
        idle = self._idle_cores(statistics)
        rescales = []
        for name, count in wanted.items():
            places = statistics.placement[name]
            if count == len(places):
                continue
            if count < len(places):
                rescales.append(Rescale(operator=name, placement=places[:count]))
            else:
                rescales.append(Rescale(operator=name, placement=places + _idlest(idle, count - len(places))))
        if not rescales:
            return None
        counts = {name: len(places) for name, places in statistics.placement.items()}
        changes = (f"{each.operator} {counts[each.operator]}->{len(each.placement)}" for each in rescales)
        return Reconfiguration(rescales=tuple(rescales), reason=", ".join(changes))

    def replicas_wanted(self, statistics: PeriodStatistics) -> dict[str, int]:
        """For each operator that can be scaled and was busy, how many replicas it needs."""
        query, length_s = self.deployment.query, statistics.length_s
        target_out: dict[str, float] = {}
        wanted: dict[str, int] = {}
        for operator in query.topological:
            row = statistics.operators[operator.name]
            taken = row["numRecordsIn"] / length_s
            if operator.kind == "source":
                offered = row["arrived"] / length_s + row["backlog"] / length_s  # what waits is due, too
                target = offered
            else:
                target = sum(target_out[stream.producer] for stream in query.inputs(operator.name))
            selectivity = row["numRecordsOut"] / row["numRecordsIn"] if row["numRecordsIn"] else 0.0
            target_out[operator.name] = target * selectivity
            busy = row["busyTimeMsPerSecond"] / 1000 * row["replicas"]
            if row["busyTimeMsPerSecond"] < ENOUGH_BUSY_MS or scaling_obstacle(operator.name, self.deployment):
                continue
            needed = max(1, math.ceil(target * busy / taken / FULL - 1e-9)) if taken else 1
            wanted[operator.name] = self._damped(operator.name, needed, row["replicas"])
        return wanted

    def _damped(self, name: str, needed: int, present: int) -> int:
        """Grows at once, shrinks only after a few calm periods."""
        self._calm[name] = self._calm[name] + 1 if needed < present else 0
        if needed < present and self._calm[name] < CALM_PERIODS:
            return present
        self._calm[name] = 0 if needed < present else self._calm[name]
        return needed

    def _idle_cores(self, statistics: PeriodStatistics) -> dict[str, float]:
        """By host, reference cores that did nothing in the period."""
        used: Mapping[str, Mapping[str, Any]] = statistics.hosts
        return {
            host.name: host.cpu_percent / 100 * (1 - used[host.name]["cpuUtilisation"] if host.name in used else 1.0)
            for host in self.deployment.cluster.hosts
        }


def _idlest(idle: dict[str, float], count: int) -> tuple[str, ...]:
    """Hosts for new replicas, each taken to fill a core; notes what they use in `idle`."""
    places = []
    for _ in range(count):
        best = max(sorted(idle), key=lambda host: idle[host])  # ties by name
        idle[best] -= 1.0
        places.append(best)
    return tuple(places)
