"""Collocation and balance at once: as much traffic as possible stays on its node, while no node leaves a band of loads.

ALBIC decides which pairs to bring together before it knows what that does to the loads, and repairs afterwards. Here
all migrations of a round are chosen together. The rest of the budget balances, with groups that exchange much moving
together.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np

from optimizers.balancing.albic import units
from optimizers.balancing.problem import (
    TOLERANCE,
    Assignment,
    Balance,
    KeyGroupTraffic,
    Solver,
    assignment,
    contracted,
    counting_bound,
)
from optimizers.balancing.search import Search, drained
from twin.errors import BadInput

# the objective -------------------------------------------------------------------------------------------------------
# Objective of an assignment that brings traffic together within a band of loads; less is better.
#
# Once traffic stays on a node, it need not be serialised: loads are then lower (`relieved`).


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


# the solver ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Joint:
    """Solver that collocates and balances at once. band: percentage points that nodes may be off the mean.
    max_partition: most load of groups that migrate together, in percent. score_factor: of pairs worth bringing
    together, as ALBIC's. steps: most steps of the search that chooses migrations. inner: spends the rest of the budget.

    Raises BadInput unless band >= 0, and max_partition, score_factor and steps are > 0.
    """

    band: float = 2.0
    max_partition: float = 25.0
    score_factor: float = 1.5
    steps: int = 300
    inner: Solver = field(default_factory=lambda: Search(looks=400))
    name: str = "joint"

    def __post_init__(self) -> None:
        if not self.band >= 0.0:
            raise BadInput(f"band must be >= 0 percentage points, got {self.band}")
        for name in ("max_partition", "score_factor", "steps"):
            if not getattr(self, name) > 0.0:
                raise BadInput(f"{name} must be > 0, got {getattr(self, name)}")

    def solve(self, balance: Balance) -> Assignment:
        """Collocates, then balances; without traffic, the inner solver's assignment."""
        from optimizers.balancing.collocation import collocated_by_search  # most commands start without SciPy

        traffic = balance.traffic
        if traffic is None or not traffic.total:
            return self.inner.solve(balance)
        hot_e = traffic.mutual(self.score_factor)
        together_e = hot_e & _together(traffic, balance.home_g)
        unit_g = units(balance, traffic, together_e, self.max_partition)
        node_g = collocated_by_search(balance, traffic, hot_e, unit_g, band=self.band, steps=self.steps)
        after = relieved(balance, node_g)
        node_g = self._balanced(after, traffic, unit_g, hot_e, node_g)
        node_g = drained(after, node_g, max(self.band, after.distance(node_g)))
        distance = relieved(balance, node_g).distance(node_g)
        if distance > self.band + TOLERANCE:  # the budget does not reach the band: prefer the most even
            even = self.inner.solve(balance)
            even = replace(even, distance=relieved(balance, even.node_g).distance(even.node_g))
            if even.distance < distance - TOLERANCE:
                return even
        if not balance.serialising:
            return assignment(balance, node_g, counting_bound(balance))
        return replace(assignment(balance, node_g, 0.0), distance=distance)  # loads change, so no bound is known

    def _balanced(
        self, balance: Balance, traffic: KeyGroupTraffic, unit_g: np.ndarray, hot_e: np.ndarray, node_g: np.ndarray
    ) -> np.ndarray:
        """[G] nodes after the rest of the budget has lessened the load distance; groups that moved or got company stay.
        balance: with the loads that result from `node_g`."""
        met_e = hot_e & _together(traffic, node_g) & ~_together(traffic, balance.home_g)
        moved = np.flatnonzero(node_g != balance.home_g)
        unit_g = unit_g.copy()
        unit_g[moved] = unit_g.max() + 1 + np.arange(len(moved))  # a group that moved alone has left its unit
        unit_g = np.unique(unit_g, return_inverse=True)[1]
        pinned = np.concatenate([traffic.sender_e[met_e], traffic.receiver_e[met_e], moved])
        pins = {int(unit_g[group]): int(node_g[group]) for group in np.unique(pinned)}
        found = self.inner.solve(contracted(balance, unit_g, pins)).node_g[unit_g]
        better = balance.distance(found) < balance.distance(node_g) and not balance.violation(found)
        return found if better else node_g


def _together(traffic: KeyGroupTraffic, node_g: np.ndarray) -> np.ndarray:
    return np.asarray(node_g[traffic.sender_e] == node_g[traffic.receiver_e])
