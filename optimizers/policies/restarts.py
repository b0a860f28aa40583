"""Decides whether a better plan is worth a restart, where the engine restarts the job for a change.

Nobody knows how long the better plan will last. So a change is made once records have waited as long without
it as the restart will make them wait, as in the ski rental problem (Karlin et al. 1988, Algorithmica 3): this
costs at most twice what the best decision would have. Both are counted in records times seconds of waiting. A
restart of R seconds at a rate of r and a load of u, when balanced, costs r R^2 / (2 (1 - u)): records queue for R
seconds, and the queue goes down at a rate of r (1 - u) / u. Records that wait because of a restart are no reason for
another one, so its cost is subtracted from the waiting afterwards.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass

import numpy as np

from optimizers.policies.room import hosts_of
from twin.control import PeriodStatistics, Reconfiguration
from twin.deployment import Deployment
from twin.run import waiting

TOO_DEAR = Reconfiguration(reason="records would wait longer for a restart than they have waited so far")


@dataclass
class RestartAccount:
    """Account of waiting since the last change, less the cost of that change. Changes that need no restart are free."""

    deployment: Deployment
    _waited: float = 0.0

    def add(self, statistics: PeriodStatistics) -> None:
        """Adds the waiting of a period."""
        if self.deployment.engine.rescaling.stops:
            self._waited += records_waiting(statistics) * statistics.length_s

    def affords(self, cost: float) -> bool:
        """Whether records have waited for as long as a change costs."""
        return self._waited >= cost

    def pay(self, cost: float) -> None:
        """Takes note of a change: waiting before it counts no more."""
        self._waited = -cost

    def cost(self, last: PeriodStatistics, load: float) -> float:
        """Waiting that a restart after a period costs, in records times seconds.

        load: utilisation of hosts afterwards, at the rate at which records were read; it grows with the rate at which
        they arrive. Records that a restart from a checkpoint processes again are not counted.
        """
        rescaling, operators = self.deployment.engine.rescaling, last.operators
        if not rescaling.stops:
            return 0.0
        sources = [source.name for source in self.deployment.query.sources]
        came, read = (sum(operators[name][key] for name in sources) for key in ("arrived", "numRecordsIn"))
        hosts, state = hosts_of(last), defaultdict[str, float](float)
        for name, groups in last.key_groups.items():
            for group in groups:
                state[hosts[name, group.replica]] += group.state_bytes
        ways = 2 if rescaling.how == "restart" else 1  # the last checkpoint is there already
        stop_s = rescaling.redeploy_s + ways * max(state.values(), default=0.0) * 8e-6 / rescaling.state_mbps
        if load * came >= read:
            return np.inf
        return float(came / last.length_s * stop_s**2 / 2.0 / (1.0 - load * came / read))


def records_waiting(statistics: PeriodStatistics) -> float:
    """Number of records that wait at brokers and before operators at the end of a period."""
    return float(sum(map(waiting, statistics.operators.values())))
