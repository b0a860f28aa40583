"""Interface of all solvers: one balancing problem in, one assignment out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from optimizers.balancing.balance import Balance
from optimizers.interface import Status


@dataclass(frozen=True, slots=True, kw_only=True)
class Assignment:
    """Answer of a solver: the node of each key group, and its costs and merits.

    status: OPTIMAL if proved that no assignment within the budget is better: has a smaller load distance or, for the
    MILP, a smaller weighted objective, but for what empties marked nodes. node_g: [G]. moves: the groups that
    migrate. cost: of the migrations. distance: load distance in percentage points; bound: no assignment within the
    budget has a smaller one. index: predicted average load in percent of that before (load index). collocation:
    percent of the traffic that stays on a node; None if it is not known. message: what a person should know.
    """

    status: Status
    node_g: np.ndarray
    moves: np.ndarray
    cost: float
    distance: float
    bound: float
    index: float
    collocation: float | None
    message: str = ""

    @property
    def gap(self) -> float:
        """Difference between the load distance found and its bound, in percentage points."""
        return max(self.distance - self.bound, 0.0)


class Solver(Protocol):
    """Chooses an assignment. The same balance gives the same assignment, but for a limit in seconds."""

    @property
    def name(self) -> str:
        """The name in SOLVERS."""

    def solve(self, balance: Balance) -> Assignment:
        """An assignment of the key groups; never raises for a valid balance, as staying is always possible."""


TOLERANCE = 1e-6
"""Difference in percentage points below which two load distances are the same."""


def assignment(
    balance: Balance, node_g: np.ndarray, bound: float, message: str = "", *, proved: bool = False
) -> Assignment:
    """Answer for the nodes found, with its status, cost, load distance and collocation. bound: of the load distance; 0
    if nothing is known. proved: optimal, whatever the bound says."""
    distance, before = balance.distance(node_g), balance.work_g.sum()
    traffic, saved = balance.traffic, 0.0
    if traffic is not None:
        saved = balance.serialising * (traffic.collocated(node_g) - traffic.collocated(balance.home_g))
    within = balance.spent(node_g) <= balance.budget * (1 + 1e-9) + 1e-9
    proved = within and (proved or distance <= bound + TOLERANCE)
    return Assignment(
        status=Status.OPTIMAL if proved else Status.FEASIBLE,
        node_g=node_g,
        moves=np.flatnonzero(node_g != balance.home_g),
        cost=balance.spent(node_g),
        distance=distance,
        bound=min(bound, distance) if within else bound,
        index=float(100.0 * (before - saved) / before) if before else 100.0,
        collocation=None if traffic is None else traffic.factor(node_g),
        message=message,
    )
