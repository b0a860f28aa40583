"""Collocation and balance at once: as much traffic as possible stays on its node, while no node leaves a band of loads.

ALBIC decides which pairs to bring together before it knows what that does to the loads, and repairs afterwards. Here
all migrations of a round are chosen together. The rest of the budget balances, with groups that exchange much moving
together.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np

from optimizers.balancing.albic import units
from optimizers.balancing.objective import relieved
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
