"""Emptying nodes that are marked for removal."""

from __future__ import annotations

import numpy as np

from optimizers.balancing.balance import Balance
from optimizers.balancing.interface import TOLERANCE
from optimizers.balancing.state import State


def drained(balance: Balance, node_g: np.ndarray, most: float = np.inf) -> np.ndarray:
    """The same with groups of marked nodes, the biggest first, on the least loaded unmarked node that has room.

    As long as the budget pays, and no unmarked node gets more than `most` percentage points above the mean.
    """
    state = State(balance, node_g)
    unmarked = np.flatnonzero(~balance.marked_h)
    waiting = np.flatnonzero(balance.marked_h[node_g] & ~balance.stays_g)
    for group in waiting[np.argsort(-balance.work_g[waiting], kind="stable")]:
        after_h = (state.work_h[unmarked] + balance.work_g[group]) / balance.capacity_h[unmarked]
        fits = after_h - balance.mean <= most + 0.1 * TOLERANCE
        for used_h, (use_g, room_h) in zip(state.used, state.sides, strict=True):
            fits &= used_h[unmarked] + use_g[group] <= room_h[unmarked] + 1e-9
        if balance.costs_g[group] <= state.left and fits.any():
            state.move([(int(group), int(unmarked[np.where(fits, after_h, np.inf).argmin()]))])
    return state.node_g
