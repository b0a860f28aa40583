"""No more migrations than needed: whatever goes home without loss goes home."""

from __future__ import annotations

import numpy as np

from optimizers.balancing.balance import Balance
from optimizers.balancing.interface import TOLERANCE


def thrifty(balance: Balance, node_g: np.ndarray, band: float = 0.0) -> np.ndarray:
    """The same without migrations that can be taken back one by one, the dearest first.

    As long as the load distance stays within the band or, if it is larger, does not grow; and no group goes back to a
    marked node.
    """
    node_g = node_g.copy()
    most = max(band, balance.distance(node_g)) + 0.1 * TOLERANCE
    while len(candidates := _returnable(balance, node_g, most)):
        group = candidates[np.lexsort((balance.work_g[candidates], -balance.costs_g[candidates]))[0]]
        node_g[group] = balance.home_g[group]
    return node_g


def _returnable(balance: Balance, node_g: np.ndarray, most: float) -> np.ndarray:
    """Groups that may go home alone."""
    moved = np.flatnonzero((node_g != balance.home_g) & ~balance.marked_h[balance.home_g])
    work, start, end = balance.work_g[moved], node_g[moved], balance.home_g[moved]
    deviation_h = balance.load_h(node_g) - balance.mean
    fits = deviation_h[start] - work / balance.capacity_h[start] >= -most
    fits &= deviation_h[end] + work / balance.capacity_h[end] <= most
    for use_g, room_h in balance.side_constraints:
        fits &= np.bincount(node_g, use_g, len(room_h))[end] + use_g[moved] <= room_h[end] + 1e-9
    return moved[fits]
