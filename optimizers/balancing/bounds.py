"""Lower bound of the load distance of every assignment within the budget.

The counting bound: how many key groups must leave overloaded nodes, and arrive at underloaded ones, for a load distance
d? If that is more than the budget pays for, no assignment reaches d.
"""

from __future__ import annotations

import numpy as np

from optimizers.balancing.balance import Balance

STEPS = 50
"""Steps of the bisection; the bound is exact to 2^-50 of the present distance."""


def counting_bound(balance: Balance) -> float:
    """Least load distance, in percentage points, that any assignment within the budget can have (a lower bound)."""
    facts = _Facts(balance)
    low, high = facts.floor, max(balance.distance(balance.home_g), facts.floor)
    for _ in range(STEPS):
        middle = 0.5 * (low + high)
        low, high = (low, middle) if facts.possible(middle) else (middle, high)
    return low


class _Facts:
    """Work and cost of each node's groups in the order in which a relaxed migration takes them: most work for its cost
    first. Where the budget counts migrations, whole groups are counted; else the last group may be split."""

    def __init__(self, balance: Balance) -> None:
        self.balance = balance
        self.mean_h = balance.mean * balance.capacity_h
        self.work_h = np.bincount(balance.home_g, balance.work_g, len(self.mean_h))
        groups = np.flatnonzero(~balance.stays_g & (balance.work_g > 0.0))
        with np.errstate(divide="ignore"):  # what costs nothing comes first: inf
            worth = balance.work_g[groups] / balance.costs_g[groups]
        order = groups[np.argsort(-worth, kind="stable")]
        self.all = self._curve(order)
        homes = balance.home_g[order]
        self.own = [self._curve(order[homes == node]) for node in range(len(self.mean_h))]
        self.floor = self._largest_group()

    def possible(self, d: float) -> bool:
        """Whether an assignment within the budget may have a load distance of d; False is a proof that none has."""
        room_h = d * self.balance.capacity_h
        excess_h = self.work_h - self.mean_h - room_h
        lack_h = np.where(self.balance.marked_h, 0.0, self.mean_h - room_h - self.work_h)
        budget = self.balance.budget + 1e-9
        leaving = sum(self._cost(excess_h[node], self.own[node]) for node in np.flatnonzero(excess_h > 1e-9))
        short = lack_h[lack_h > 1e-9]
        arriving = float(sum(self._costs(short, self.all)))
        return bool(leaving <= budget and arriving <= budget and self._cost(short.sum(), self.all) <= budget)

    def _largest_group(self) -> float:
        """Load distance that the largest group causes on whatever node, percentage points."""
        balance = self.balance
        best = np.maximum(balance.capacity_h[~balance.marked_h].max(), balance.capacity_h[balance.home_g])
        best = np.where(balance.stays_g, balance.capacity_h[balance.home_g], best)
        return max(0.0, float((balance.work_g / best).max()) - balance.mean)

    def _curve(self, order: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Cumulated work and cost of the first groups in an order; the first entry is of no groups."""
        totals = (self.balance.work_g[order], self.balance.costs_g[order])
        work, cost = (np.concatenate([[0.0], np.cumsum(each)]) for each in totals)
        return work, cost

    def _cost(self, work: float, curve: tuple[np.ndarray, np.ndarray]) -> float:
        return float(self._costs(np.array([work]), curve)[0])

    def _costs(self, work: np.ndarray, curve: tuple[np.ndarray, np.ndarray]) -> np.ndarray:
        """Least cost of moving that much work along a curve; inf where there is not as much."""
        totals, costs = curve
        if self.balance.counted:
            found = np.searchsorted(totals, work - 1e-9).astype(float)
        else:
            found = np.interp(work, totals, costs)
        return np.where(work > totals[-1] + 1e-9, np.inf, found)
