"""Seats: the sockets of an operator's subtasks under N plans at once, in cells of subtasks with equal loads.

Letters at the end of a name are its axes, as in `twin.rates.layout`; v is one of the different ways in which an
operator's subtasks sit, k a cell of the operator.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple, Self

import numpy as np

from twin.plan import ExecutionPlan, Location
from twin.rates.placements import distinct_rows

if TYPE_CHECKING:
    from twin.rates.arrays import JobArrays
    from twin.rates.skew import SubtaskShares

EVEN = 1.0 + 1e-9
"""Factor up to which two subtasks count as equally busy: they differ by rounding."""


class Seats(NamedTuple):
    """Sockets of the subtasks of an operator that get any tuples. count_vl: number on each socket; code_n: the way v of
    each plan; sockets_v: their sockets in the order of subtasks, None if that is the order of sockets."""

    count_vl: np.ndarray
    code_n: np.ndarray
    sockets_v: list[np.ndarray] | None

    @classmethod
    def of_plans(cls, job: JobArrays, o: int, plans: Sequence[ExecutionPlan]) -> Self:
        """Seats of an operator under plans. Raises KeyError if a plan does not fit the deployment."""
        placements = [plan.placement[job.names[o]] for plan in plans]
        ways = {placement: v for v, placement in enumerate(dict.fromkeys(placements))}
        column, fed = job.places.column, job.dealing.fed_o[o]
        sockets_v = [
            np.array([column[Location.parse(text)] for text in way[: int(min(len(way), fed))]], dtype=int)
            for way in ways
        ]
        count_vl = np.zeros((len(sockets_v), len(column)))
        for row, each in zip(count_vl, sockets_v, strict=True):
            np.add.at(row, each, 1.0)
        return cls(count_vl, np.array([ways[each] for each in placements], dtype=int), sockets_v)

    @classmethod
    def of_counts(cls, job: JobArrays, o: int, count_nl: np.ndarray) -> Self:
        """Seats of an operator from numbers of subtasks. count_nl: by plan and socket."""
        count_nl, fed = np.asarray(count_nl, dtype=float), job.dealing.fed_o[o]
        if np.isfinite(fed):  # only the first subtasks get tuples
            count_nl = np.clip(fed - (np.cumsum(count_nl, axis=1) - count_nl), 0.0, count_nl)
        return cls(count_nl, np.arange(len(count_nl)), None)

    @property
    def replicas_n(self) -> np.ndarray:
        """Number of these subtasks. [N]"""
        return np.asarray(self.count_vl.sum(axis=1)[self.code_n])

    @property
    def way_n(self) -> np.ndarray:
        """Number of the way in which the subtasks sit, equal for plans with the same way. [N]"""
        return self.code_n if self.sockets_v is not None else distinct_rows(self.count_vl.astype(int))[1]

    def sockets(self, n: int) -> np.ndarray:
        """Socket of each subtask under a plan. [R]"""
        v = int(self.code_n[n])
        if self.sockets_v is not None:
            return self.sockets_v[v]
        return np.repeat(np.arange(self.count_vl.shape[1]), self.count_vl[v].astype(int))

    def select(self, rows: np.ndarray) -> Self:
        """Seats under some of the plans (a boolean mask [N])."""
        return self._replace(code_n=self.code_n[rows])

    def sockets_nr(self) -> np.ndarray:
        """Socket of each subtask under all plans, -1 where a plan has fewer. [N, R]"""
        if self.sockets_v is not None:
            size_v, each = np.array([len(way) for way in self.sockets_v]), np.concatenate(self.sockets_v)
        else:
            count_vl = self.count_vl.astype(int)
            size_v = count_vl.sum(axis=1)
            each = np.repeat(np.tile(np.arange(count_vl.shape[1]), len(count_vl)), count_vl.ravel())
        found_vr = np.full((len(size_v), size_v.max(initial=0)), -1)
        found_vr[np.arange(found_vr.shape[1]) < size_v[:, None]] = each
        return found_vr[self.code_n]


class Group(NamedTuple):
    """Cells of an operator. [K, N] each

    taken_kn, emitted_kn: their shares of its input and output. busiest_kn: expected decrease of the number of busiest
    subtasks on the socket if one subtask of the cell is left out; that of the others is one less this. 1 and 0 if it is
    known which subtasks these are.
    """

    socket_kn: np.ndarray
    count_kn: np.ndarray
    taken_kn: np.ndarray
    emitted_kn: np.ndarray
    busiest_kn: np.ndarray


def alike_cells(seats: Seats) -> Group:
    """Cells of an operator all of whose subtasks get the same: one a socket, empty if a plan does not need it."""
    most = max(1, int((seats.count_vl > 0).sum(axis=1).max(initial=1)))
    chosen_vk = np.argsort(-seats.count_vl, axis=1, kind="stable")[:, :most]
    socket_kn = chosen_vk.T[:, seats.code_n]
    count_kn = np.take_along_axis(seats.count_vl, chosen_vk, axis=1).T[:, seats.code_n]
    share_kn = count_kn / count_kn.sum(axis=0)
    return Group(socket_kn, count_kn, share_kn, share_kn, np.zeros_like(count_kn))


def uneven_cells(seats: Seats, shares: Sequence[SubtaskShares], kind_n: np.ndarray) -> Group:
    """Cells of an operator with uneven subtasks: two a socket, of the busiest there, and of the others.

    kind_n: which of the shares the subtasks have under each plan.
    """
    first_u, group_n = distinct_rows(np.stack([seats.way_n, kind_n], axis=1))
    groups = [_cells_of(seats.sockets(n), shares[kind_n[n]]) for n in first_u.tolist()]
    cells = max(len(each) for each in groups)
    padded = np.stack([np.vstack([each, np.zeros((cells - len(each), 5))]) for each in groups])
    socket_kn, *others = padded[group_n].transpose(2, 1, 0)
    return Group(socket_kn.astype(int), *others)


def _cells_of(sockets: np.ndarray, shares: SubtaskShares) -> np.ndarray:
    """Fields of `Group`, one row a cell. [2 for each socket in use, 5]"""
    taken, emitted = shares.taken, shares.emitted
    size, top = len(sockets), _busiest(taken)
    rows = []
    for socket in np.unique(sockets).tolist():
        mine = np.flatnonzero(sockets == socket)
        if shares.known:
            first = mine[_busiest(taken[mine])]
            count, all_, own = float(len(first)), [taken[mine].sum(), emitted[mine].sum()], (1.0, 0.0)
            sums = [taken[first].sum(), emitted[first].sum()]
        else:  # any subtask may be one of the busiest, so all sockets have their part of those
            here, others = len(mine) / size, (len(mine) - 1) / max(size - 1, 1)
            count, all_ = here * len(top), [here, here]
            # expected beside one of the busiest, and beside another (hypergeometric): others * (top - 1), others * top
            own = count - others * (len(top) - 1), count - others * len(top)
            sums = [here * taken[top].sum(), here * emitted[top].sum()]
        rows.append([socket, count, *sums, own[0]])
        rows.append([socket, len(mine) - count, all_[0] - sums[0], all_[1] - sums[1], own[1]])
    return np.array(rows)


def _busiest(taken: np.ndarray) -> np.ndarray:
    """Subtasks that get as much as the busiest."""
    return np.flatnonzero(taken * EVEN >= taken.max())
