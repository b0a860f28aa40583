"""What key groups send to each other, and how much of it stays on a node.

ALBIC's four partitioning patterns (Fig. 1) are traffic from N key groups to M: an [N, M] matrix of rates.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from twin.alignment import Alignment, parts
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
        """All rates together."""
        return float(self.rate_e.sum())

    @cached_property
    def both_ways(self) -> csr_matrix:
        """[G, G] symmetric: what two groups exchange."""
        from scipy.sparse import csr_matrix  # most commands start without

        groups = len(self.operator_g)
        one_way = csr_matrix((self.rate_e, (self.sender_e, self.receiver_e)), shape=(groups, groups))
        return (one_way + one_way.T).tocsr()

    def collocated(self, node_g: np.ndarray) -> float:
        """The rates between groups on the same node."""
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
        """[E] Whether a pair is outstanding for its receiver, too: more than a group upstream sends it on average.

        A popular receiver alone makes no pairs: it hears of all alike.
        """
        other_way = KeyGroupTraffic(self.operator_g, self.receiver_e, self.sender_e, self.rate_e)
        return np.asarray(self.outstanding(score_factor) & other_way.outstanding(score_factor))


def one_to_one(rate_n: np.ndarray) -> np.ndarray:
    """Each group sends to one of its own, which receives from no other."""
    return np.diag(_rates(rate_n))


def partial_merge(rate_n: np.ndarray, receivers: int) -> np.ndarray:
    """Each group sends all to one receiver, neighbours to the same. Raises BadInput for more receivers than senders."""
    rate_n = _rates(rate_n)
    _check("receivers", receivers, len(rate_n))
    return rate_n[:, None] * parts(Alignment(pattern="partial-merge"), len(rate_n), receivers)


def partial_partitioning(rate_n: np.ndarray, receivers: int, degree: int) -> np.ndarray:
    """Each group sends evenly to `degree` receivers in a row. Raises BadInput unless 1 <= degree <= receivers."""
    rate_n = _rates(rate_n)
    _check("degree", degree, receivers)
    return rate_n[:, None] * parts(Alignment(pattern="partial-partitioning", degree=degree), len(rate_n), receivers)


def full_partitioning(rate_n: np.ndarray, receivers: int) -> np.ndarray:
    """Each group sends evenly to all receivers."""
    return partial_partitioning(rate_n, receivers, receivers)


def _rates(rate_n: np.ndarray) -> np.ndarray:
    rate_n = np.asarray(rate_n, float)
    if rate_n.ndim != 1 or not len(rate_n) or not (np.isfinite(rate_n) & (rate_n >= 0.0)).all():
        raise BadInput("a pattern needs the rates of one key group at least, numbers >= 0")
    return rate_n


def _check(name: str, value: int, most: int) -> None:
    if not 1 <= value <= most:
        raise BadInput(f"{name} must be from 1 to {most}, got {value}")
