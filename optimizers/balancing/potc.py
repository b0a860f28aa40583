"""The power of both choices (Nasir et al., ICDE 2015) as a model of loads.

Each key goes to two nodes, chosen by hashing, and each tuple to the one with less load: in the long run, the loads of
key groups are divided between their two nodes so that nodes are as even as that allows. The partial states of a group
have to be merged, always at its first node, whatever its load: that part is not balanced.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from optimizers.balancing.balance import Balance
from twin.errors import BadInput
from twin.randomness import stream

SWEEPS = 200
"""Over all groups, at most."""


@dataclass(frozen=True)
class BothChoices:
    """first_g, second_g: [G] nodes of a group. share_g: of its tuples that the first takes. load_h: [H] percent,
    merging included. distance: load distance. overhead: percent of all load that is merging."""

    first_g: np.ndarray
    second_g: np.ndarray
    share_g: np.ndarray
    load_h: np.ndarray
    distance: float
    overhead: float


def both_choices(balance: Balance, merging_g: np.ndarray | None = None, seed: int = 0) -> BothChoices:
    """The steady state on unmarked nodes. merging_g: [G] load of merging a group's partial states, in percent of a node
    of capacity 1. Raises BadInput if it is not a number >= 0 a group."""
    merging_g = np.zeros(len(balance.home_g)) if merging_g is None else np.asarray(merging_g, float)
    if merging_g.shape != balance.home_g.shape or not (merging_g >= 0.0).all():
        raise BadInput(f"merging_g must be {len(balance.home_g)} numbers >= 0, one a key group")
    nodes = np.flatnonzero(~balance.marked_h)
    rng = stream(seed, "balancing.both-choices")
    first_g, second_g = (nodes[rng.integers(len(nodes), size=len(merging_g))] for _ in range(2))
    share_g = _divided(balance, first_g, second_g)
    work_h = np.zeros(len(balance.capacity_h))
    for node_g, part in ((first_g, share_g), (second_g, 1.0 - share_g)):
        work_h += np.bincount(node_g, balance.work_g * part, len(work_h))
    work_h += np.bincount(first_g, merging_g, len(work_h))
    load_h, total = work_h / balance.capacity_h, balance.work_g.sum() + merging_g.sum()
    mean = total / balance.capacity_h[nodes].sum()
    distance = float(np.abs(load_h[nodes] - mean).max())
    overhead = float(100.0 * merging_g.sum() / total) if total else 0.0
    return BothChoices(first_g, second_g, share_g, load_h, distance, overhead)


def _divided(balance: Balance, first_g: np.ndarray, second_g: np.ndarray) -> np.ndarray:
    """[G] the first node's share: group by group, what makes its two nodes most alike, until nothing changes."""
    work_g, capacity_h = balance.work_g, balance.capacity_h
    share_g = np.full(len(work_g), 0.5)
    ends = np.concatenate([first_g, second_g])
    work_h = np.bincount(ends, np.tile(0.5 * work_g, 2), len(capacity_h))
    for _ in range(SWEEPS):
        before_g = share_g.copy()
        for group in np.flatnonzero((first_g != second_g) & (work_g > 0.0)):
            one, two, work = first_g[group], second_g[group], work_g[group]
            level = (work_h[one] + work_h[two]) / (capacity_h[one] + capacity_h[two])
            rest = work_h[one] - share_g[group] * work
            share = min(1.0, max(0.0, (level * capacity_h[one] - rest) / work))
            work_h[one] += (share - share_g[group]) * work
            work_h[two] -= (share - share_g[group]) * work
            share_g[group] = share
        if np.abs(share_g - before_g).max(initial=0.0) < 1e-6:
            break
    return share_g
