"""Objective of an assignment that brings traffic together within a band of loads; less is better.

Once traffic stays on a node, it need not be serialised: loads are then lower (`relieved`).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from optimizers.balancing.problem import TOLERANCE, Balance, KeyGroupTraffic

EXCESS = 3.0
"""Weight of a percentage point beyond the band, in pairs of mean traffic; more, the further it is."""
MIGRATION = 0.15
"""Weight of a migration of mean cost: a pair of a seventh of the mean traffic is not worth it."""


@dataclass(frozen=True)
class CollocationObjective:
    """Objective of collocation: penalties of loads and weights of migrations, less the traffic that is together. hot_e:
    [E] pairs worth bringing together. band: percentage points that nodes may be off the mean."""

    balance: Balance
    traffic: KeyGroupTraffic
    hot_e: np.ndarray
    band: float

    @cached_property
    def pair(self) -> float:
        """Mean traffic of a pair worth bringing together; the unit of the objective."""
        return float(self.traffic.rate_e[self.hot_e].mean()) if self.hot_e.any() else 1.0

    @cached_property
    def price_g(self) -> np.ndarray:
        """[G] weight of migrating a group."""
        mean = float(self.balance.costs_g.mean())
        return MIGRATION * self.balance.costs_g / mean if mean else np.zeros(len(self.balance.costs_g))

    @cached_property
    def capacity(self) -> float:
        """Capacity of all nodes that are not marked for removal."""
        return float(self.balance.capacity_h[~self.balance.marked_h].sum())

    @cached_property
    def _remote_g(self) -> np.ndarray:
        return remote_g(self.traffic, self.balance.home_g)

    def work_g(self, node_g: np.ndarray) -> np.ndarray:
        """[G] bottleneck work of the groups at these nodes: traffic within a node need not be serialised (as in
        `relieved`)."""
        balance = self.balance
        if not balance.serialising:
            return balance.work_g
        more_g = remote_g(self.traffic, node_g) - self._remote_g
        return np.maximum(balance.work_g + 0.5 * balance.serialising * more_g, 0.0)

    def deviation_h(self, node_g: np.ndarray) -> np.ndarray:
        """[H] deviation of each node from the mean load, in percentage points."""
        work_g, capacity_h = self.work_g(node_g), self.balance.capacity_h
        return np.asarray(np.bincount(node_g, work_g, len(capacity_h)) / capacity_h - work_g.sum() / self.capacity)

    def penalty(self, deviation: np.ndarray, nodes: np.ndarray | slice = slice(None)) -> np.ndarray:
        """Penalty of deviations [percentage points] of these nodes; a marked node may be below the mean for free."""
        beyond = self._beyond(deviation, nodes)
        return np.asarray(EXCESS * beyond * (1.0 + 0.25 * beyond))

    def slope(self, deviation_h: np.ndarray) -> float:
        """Growth of the sum of all penalties if the mean falls by a percentage point."""
        beyond = self._beyond(deviation_h, slice(None))
        return float((np.sign(deviation_h) * (beyond > 0.0) * EXCESS * (1.0 + 0.5 * beyond)).sum())

    def _beyond(self, deviation: np.ndarray, nodes: np.ndarray | slice) -> np.ndarray:
        off = np.where(self.balance.marked_h[nodes], np.maximum(deviation, 0.0), np.abs(deviation))
        return np.maximum(off - self.band, 0.0)

    def value(self, node_g: np.ndarray) -> float:
        """Value of an assignment, less is better: penalties and weights of migrations, less the traffic that is
        together."""
        together = self.traffic.collocated(node_g) / self.pair
        paid = self.price_g[node_g != self.balance.home_g].sum()
        return float(self.penalty(self.deviation_h(node_g)).sum() + paid) - together

    def rank(self, node_g: np.ndarray) -> tuple[float, float]:
        """Order of assignments, less is better: percentage points beyond the band (0 if none), then the value."""
        beyond = float(self._beyond(self.deviation_h(node_g), slice(None)).max())
        return (beyond if beyond > TOLERANCE else 0.0), self.value(node_g)


def relieved(balance: Balance, node_g: np.ndarray) -> Balance:
    """The balance with the loads that its groups have on these nodes; unchanged if `serialising` is 0 or no traffic
    known.

    Half of what traffic between nodes costs is work of its sender, half of its receiver.
    """
    traffic = balance.traffic
    if traffic is None or not balance.serialising:
        return balance
    more_g = remote_g(traffic, node_g) - remote_g(traffic, balance.home_g)
    work_g = np.maximum(balance.work_g + 0.5 * balance.serialising * more_g, 0.0)
    loads = dict(balance.loads) | {balance.bottleneck: work_g / balance.capacity_h[balance.home_g]}
    return replace(balance, loads=loads)


def remote_g(traffic: KeyGroupTraffic, node_g: np.ndarray) -> np.ndarray:
    """[G] rate that each group exchanges with groups on other nodes."""
    apart = node_g[traffic.sender_e] != node_g[traffic.receiver_e]
    rate_e, groups = traffic.rate_e * apart, len(node_g)
    sent_g = np.bincount(traffic.sender_e, rate_e, groups)
    return np.asarray(sent_g + np.bincount(traffic.receiver_e, rate_e, groups))
