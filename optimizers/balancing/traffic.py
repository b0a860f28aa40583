"""Traffic between key groups, and the part of it that stays on a node."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from twin.errors import BadInput

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix


@dataclass(frozen=True)
class KeyGroupTraffic:
    """Rates between G key groups, one entry a pair; an absent pair exchanges nothing.

    operator_g: index of the operator that a group belongs to. sender_e, receiver_e: groups. rate_e: tuples (or bytes) a
    second, >= 0. Raises BadInput for columns of unequal length, unknown groups, a rate that is no number, and a group
    that sends to itself.
    """

    operator_g: np.ndarray
    sender_e: np.ndarray
    receiver_e: np.ndarray
    rate_e: np.ndarray

    def __post_init__(self) -> None:
        groups = len(np.asarray(self.operator_g))
        for name, kind in (("operator_g", int), ("sender_e", int), ("receiver_e", int), ("rate_e", float)):
            column = np.array(getattr(self, name), dtype=kind)
            column.flags.writeable = False
            object.__setattr__(self, name, column)
        if not len(self.sender_e) == len(self.receiver_e) == len(self.rate_e):
            raise BadInput("traffic: sender_e, receiver_e and rate_e must be of one length, one entry a pair")
        ends = np.concatenate([self.sender_e, self.receiver_e])
        if len(ends) and not 0 <= ends.min() <= ends.max() < groups:
            raise BadInput(f"traffic names key group {ends.max()}, but there are {groups}; number them from 0")
        if not (np.isfinite(self.rate_e) & (self.rate_e >= 0.0)).all():
            raise BadInput("traffic: every rate must be a number >= 0; leave out pairs of which nothing is known")
        if (self.sender_e == self.receiver_e).any():
            raise BadInput("traffic: a key group sends to itself; leave that pair out, it never crosses a node")

    @cached_property
    def total(self) -> float:
        """Sum of all rates."""
        return float(self.rate_e.sum())

    @cached_property
    def both_ways(self) -> csr_matrix:
        """[G, G] rate that two groups exchange, both ways together (symmetric)."""
        from scipy.sparse import csr_matrix  # most commands start without

        groups = len(self.operator_g)
        one_way = csr_matrix((self.rate_e, (self.sender_e, self.receiver_e)), shape=(groups, groups))
        return (one_way + one_way.T).tocsr()

    def collocated(self, node_g: np.ndarray) -> float:
        """Sum of the rates between groups on the same node."""
        return float(self.rate_e[node_g[self.sender_e] == node_g[self.receiver_e]].sum())

    def factor(self, node_g: np.ndarray) -> float:
        """Collocation factor: percent of all traffic that stays on a node; 100 if there is none."""
        return 100.0 * self.collocated(node_g) / self.total if self.total else 100.0

    def outstanding(self, score_factor: float) -> np.ndarray:
        """[E] Whether a pair exchanges more than `score_factor` times what its sender sends a downstream group on
        average (ALBIC, Step 1). Downstream are all operators that receive anything from the sender's operator.
        """
        groups_o = np.bincount(self.operator_g)
        links = np.zeros((len(groups_o), len(groups_o)), bool)
        links[self.operator_g[self.sender_e], self.operator_g[self.receiver_e]] = True
        downstream_o = links @ groups_o
        output_g = np.bincount(self.sender_e, self.rate_e, len(self.operator_g))
        average_g = output_g / np.maximum(downstream_o[self.operator_g], 1)
        return np.asarray(self.rate_e > score_factor * average_g[self.sender_e])

    def mutual(self, score_factor: float) -> np.ndarray:
        """[E] Whether a pair is `outstanding` for its sender and for its receiver: more than an upstream group sends on
        average.

        A receiver that all groups send to alike makes no pairs.
        """
        other_way = KeyGroupTraffic(self.operator_g, self.receiver_e, self.sender_e, self.rate_e)
        return np.asarray(self.outstanding(score_factor) & other_way.outstanding(score_factor))
