"""Flux (Shah et al., ICDE 2003), as ALBIC describes it: the most loaded node gives a key group to the least loaded one,
the second most to the second least, and so on, whenever that lessens the variance.

One pass of that is far from enough, so passes are repeated until the budget is spent or nothing helps. The biggest
group that helps is moved; *best fit* takes the one closest to half the difference instead.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from optimizers.balancing.problem import Assignment, Balance, assignment, counting_bound


@dataclass(frozen=True, slots=True)
class Flux:
    """Flux's solver. best_fit: move the group that fits best, not the biggest."""

    best_fit: bool = False
    name: str = "flux"

    def solve(self, balance: Balance) -> Assignment:
        """Balances the bottleneck resource; groups on marked nodes are given away like others."""
        return assignment(balance, flux(balance, best_fit=self.best_fit), counting_bound(balance))


def flux(balance: Balance, *, best_fit: bool) -> np.ndarray:
    """[G] nodes after all passes of Flux."""
    node_g, left = balance.home_g.copy(), balance.budget
    use_h = [np.bincount(node_g, use_g, len(room_h)) for use_g, room_h in balance.side_constraints]
    while True:
        before_g = node_g.copy()
        load_h = balance.load_h(node_g)
        order = np.argsort(-load_h, kind="stable")
        takers = order[~balance.marked_h[order]][::-1]
        for giver, taker in zip(order, takers, strict=False):
            if load_h[giver] <= load_h[taker]:
                break
            group = _suitable(balance, node_g, load_h, (int(giver), int(taker)), left, use_h, best_fit=best_fit)
            if group is not None:
                for (use_g, _), used_h in zip(balance.side_constraints, use_h, strict=True):
                    used_h[giver] -= use_g[group]
                    used_h[taker] += use_g[group]
                node_g[group] = taker
                left -= balance.costs_g[group]
        if (node_g == before_g).all():
            return node_g


def _suitable(
    balance: Balance,
    node_g: np.ndarray,
    load_h: np.ndarray,
    ends: tuple[int, int],
    left: float,
    use_h: list[np.ndarray],
    *,
    best_fit: bool,
) -> int | None:
    """Group to move between two nodes (giver, taker), None if none helps: variance falls if its work is less than twice
    the amount that would make them equal."""
    giver, taker = ends
    here = np.flatnonzero((node_g == giver) & (balance.home_g == giver) & ~balance.stays_g)
    capacities = 1.0 / balance.capacity_h[giver] + 1.0 / balance.capacity_h[taker]
    ideal = (load_h[giver] - load_h[taker]) / capacities
    work = balance.work_g[here]
    fits = (work > 0.0) & (work < 2.0 * ideal * (1 - 1e-12)) & (balance.costs_g[here] <= left + 1e-9)
    for (use_g, room_h), used_h in zip(balance.side_constraints, use_h, strict=True):
        fits &= used_h[taker] + use_g[here] <= room_h[taker] + 1e-9
    if not fits.any():
        return None
    score = -np.abs(work - ideal) if best_fit else work
    return int(here[np.where(fits, score, -np.inf).argmax()])
