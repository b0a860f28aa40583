"""Migrations that bring traffic together, chosen together so that no node leaves a band of loads: descents and kicks.

All migrations from an assignment are weighed at once. A row is what may migrate: a key group, or a unit of groups that
exchange much already. Weights are those of `CollocationObjective`, with two approximations: changes of the mean count
to first order, and each of two migrations is weighed as if the other row stayed. A step carries out the best exchange:
one migration, or two that make room for each other. Where none is left, some migrations are taken back and others begun
at random, and the descent starts anew. Effort is counted in steps, not in seconds, so that a balance has one answer.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.sparse import csr_matrix, identity, vstack

from optimizers.balancing.joint import CollocationObjective
from optimizers.balancing.problem import Balance, KeyGroupTraffic
from twin.randomness import random_stream

FIRST = 24
"""Number of migrations of most gain, and of the best change, that are weighed together with a second one that makes
room."""
TRIED = 24
"""Number of exchanges, the most promising first, that are computed exactly in search of one that is better than
none."""
KICKED = 3
"""Most migrations that a kick takes back."""
WORSE = 0.5
"""Most by which the next start may be worse than the last local optimum, in pairs of mean traffic."""
NOTHING = 1e-6


def collocated_by_search(
    balance: Balance, traffic: KeyGroupTraffic, hot_e: np.ndarray, unit_g: np.ndarray, *, band: float, steps: int
) -> np.ndarray:
    """[G] nodes that bring the most traffic together in so many steps. hot_e: [E] pairs worth bringing together.
    unit_g: [G] groups that exchange much already, and may go as one. band: percentage points off the mean that cost
    nothing."""
    return _CollocationSearch(CollocationObjective(balance, traffic, hot_e, band), Movable.of(unit_g), steps).best()


@dataclass
class _CollocationSearch:
    worth: CollocationObjective
    rows: Movable
    steps: int

    def best(self) -> np.ndarray:
        """[G] nodes of the best of all local optima."""
        worth, rng = self.worth, random_stream(0, "balancing.gathering")
        nothing_g = np.zeros(len(worth.balance.home_g), bool)
        best = here = self._descended(worth.balance.home_g, nothing_g)
        while self.steps > 0 and not self._done(best):
            found = self._descended(*self._kicked(here, rng))
            if worth.value(found) <= worth.value(here) + WORSE * rng.random():
                here = found
            best = min(best, found, key=worth.rank)
        return best

    def _done(self, node_g: np.ndarray) -> bool:
        """Whether all pairs worth it are together, and no node is beyond the band."""
        worth = self.worth
        together_e = node_g[worth.traffic.sender_e] == node_g[worth.traffic.receiver_e]
        return bool(together_e[worth.hot_e].all()) and not worth.rank(node_g)[0]

    def _descended(self, node_g: np.ndarray, held_g: np.ndarray) -> np.ndarray:
        """[G] local optimum reached by descending from an assignment, within the steps left. held_g: groups that
        stay."""
        after: np.ndarray | None = node_g
        while after is not None:
            node_g = after
            self.steps -= 1
            after = self._better(node_g, held_g) if self.steps >= 0 else None
        return node_g

    def _better(self, node_g: np.ndarray, held_g: np.ndarray) -> np.ndarray | None:
        """[G] nodes after the best exchange; None if no exchange is better."""
        value = self.worth.value(node_g)
        there = Migrations(self.worth, self.rows, node_g, held_g)
        for exchange in _exchanges(there):
            after_g = self._after(node_g, there, exchange)
            if self.worth.value(after_g) < value - NOTHING and not self.worth.balance.violation(after_g):
                return after_g
        return None

    def _kicked(self, node_g: np.ndarray, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        """([G] nodes, [G] held groups) with some migrations taken back and one begun at random that brings traffic
        together, whatever else it does; its groups are held."""
        balance = self.worth.balance
        moved, kicked_g, held_g = np.flatnonzero(node_g != balance.home_g), node_g.copy(), np.zeros(len(node_g), bool)
        back = rng.choice(moved, min(len(moved), 1 + int(rng.integers(KICKED))), replace=False)
        kicked_g[back] = balance.home_g[back]
        there = Migrations(self.worth, self.rows, kicked_g, held_g)
        some = np.flatnonzero(np.isfinite(there.change_m) & (there.gain_m > 0.0))
        if len(some):
            begun = rng.choice(some, 1)
            kicked_g = self._after(kicked_g, there, begun)
            held_g[self.rows[int(there.row_m[begun[0]])]] = True
        return (node_g, held_g) if balance.violation(kicked_g) else (kicked_g, held_g)

    def _after(self, node_g: np.ndarray, there: Migrations, exchange: np.ndarray) -> np.ndarray:
        after_g = node_g.copy()
        for each in exchange:
            after_g[self.rows[int(there.row_m[each])]] = there.to_m[each]
        return after_g


def _exchanges(there: Migrations) -> Iterator[np.ndarray]:
    """Yields the exchanges that promise an improvement, the best first."""
    if not len(there.row_m):
        return
    single = np.argsort(there.change_m, kind="stable")
    gaining = np.argsort(-there.gain_m, kind="stable")
    pair, change = there.pairs(np.union1d(single[:FIRST], gaining[:FIRST]), TRIED)
    single = single[:TRIED]
    found = [*((float(there.change_m[each]), [each]) for each in single), *zip(change.tolist(), pair.T, strict=True)]
    for looks, exchange in sorted(found, key=lambda each: each[0])[:TRIED]:
        if looks < -NOTHING:
            yield np.asarray(exchange)


PARTNERS = 12
"""Number of least loaded nodes, and of most loaded ones, to and from which a second migration makes room."""


@dataclass(frozen=True)
class Movable:
    """Rows that may migrate: key groups, then units of several. member_RxG: 1 where a group belongs to a row."""

    member_RxG: csr_matrix  # noqa: N815  # its shape

    @classmethod
    def of(cls, unit_g: np.ndarray) -> Movable:
        """Rows of each group, and of each unit of several groups."""
        groups = len(unit_g)
        member_UxG = csr_matrix((np.ones(groups), (unit_g, np.arange(groups))))  # noqa: N806
        several = np.flatnonzero(np.bincount(unit_g) > 1)
        found = vstack([identity(groups, format="csr"), member_UxG[several]]).tocsr()
        found.sort_indices()
        return cls(found)

    def __getitem__(self, row: int) -> np.ndarray:
        """Groups of a row."""
        start, end = self.member_RxG.indptr[row : row + 2]
        return np.asarray(self.member_RxG.indices[start:end])

    def node_r(self, node_g: np.ndarray) -> np.ndarray:
        """[R] node of each row's groups; -1 if they are on several nodes."""
        nodes, start = node_g[self.member_RxG.indices], self.member_RxG.indptr[:-1]
        least, most = np.minimum.reduceat(nodes, start), np.maximum.reduceat(nodes, start)
        return np.where(least == most, least, -1)


class Migrations:
    """M migrations: of all rows whose groups are on one node, to all nodes that are not marked. held_g: groups that
    stay where they are.

    from_m, to_m: nodes. left_m, got_m: change of the work of these nodes; all_m: of all nodes together. gain_m: traffic
    that comes together less traffic that is torn apart, in pairs. cost_m: cost in units of the budget. price_m: weight
    of the cost in the objective. fits_m: whether the side constraints leave room. left: budget that is left.
    """

    def __init__(self, worth: CollocationObjective, rows: Movable, node_g: np.ndarray, held_g: np.ndarray) -> None:
        balance, member = worth.balance, rows.member_RxG
        groups, nodes = len(node_g), len(balance.capacity_h)
        from_r = rows.node_r(node_g)
        on_GxH = csr_matrix((np.ones(groups), (np.arange(groups), node_g)), shape=(groups, nodes))  # noqa: N806
        towards_RxG = member @ worth.traffic.both_ways  # noqa: N806
        with_RxH = (towards_RxG @ on_GxH).toarray()  # noqa: N806
        inside_r = np.asarray(towards_RxG.multiply(member).sum(axis=1)).ravel()
        away_GxH = np.arange(nodes) != balance.home_g[:, None]  # noqa: N806
        new_GxH = away_GxH.astype(float) - (node_g != balance.home_g)[:, None]  # noqa: N806
        free_r = (from_r >= 0) & ~(member @ (balance.stays_g | held_g).astype(float) > 0.0)
        row, to = np.nonzero(free_r[:, None] & (np.arange(nodes) != from_r[:, None]) & _open_RxH(worth, rows, nodes))
        joined, torn = with_RxH[row, to], (with_RxH[np.arange(len(from_r)), from_r] - inside_r)[row]
        work, serialising = (member @ worth.work_g(node_g))[row], balance.serialising
        self.worth, self.deviation_h = worth, worth.deviation_h(node_g)
        self.row_m, self.from_m, self.to_m = row, from_r[row], to
        self.left_m = 0.5 * serialising * torn - work
        self.got_m = work + serialising * (0.5 * torn - joined)
        self.all_m = serialising * (torn - joined)
        self.gain_m = (joined - torn) / worth.pair
        self.cost_m = (member @ (new_GxH * balance.costs_g[:, None]))[row, to]
        self.price_m = (member @ (new_GxH * worth.price_g[:, None]))[row, to]
        self.fits_m = _fits(worth, member, node_g, row, to)
        self.left = balance.budget - balance.spent(node_g) + 1e-9

    @cached_property
    def change_m(self) -> np.ndarray:
        """[M] change of the objective by each migration alone; infinite if it is not paid for, or does not fit."""
        change = self._changes(np.arange(len(self.row_m))[None, :])
        return np.where((self.cost_m <= self.left) & self.fits_m, change, np.inf)

    def pairs(self, first: np.ndarray, most: int) -> tuple[np.ndarray, np.ndarray]:
        """Best pairs of one of the migrations `first` and any other at the same nodes: [2, N] migrations, and [N]
        changes of the objective."""
        found = [np.stack([np.full(len(others), each), others]) for each in first for others in [self._others(each)]]
        pair = np.concatenate(found, axis=1) if found else np.zeros((2, 0), dtype=int)
        pair = pair[:, self.cost_m[pair].sum(axis=0) <= self.left]
        if not pair.shape[1]:
            return pair, np.zeros(0)
        change = self._changes(pair)
        best = np.argpartition(change, min(most, len(change)) - 1)[:most]
        best = best[np.argsort(change[best], kind="stable")]
        return pair[:, best], change[best]

    def _others(self, each: int) -> np.ndarray:
        """Migrations from or to a node of a given one, for which there is room beside it."""
        ends = self.from_m[each], self.to_m[each]
        leave = np.concatenate([self._from[node] for node in ends])
        come = np.concatenate([self._to[node] for node in ends])
        light_h, heavy_h = (each.copy() for each in self._partners)
        light_h[list(ends)] = heavy_h[list(ends)] = True
        others = np.concatenate([leave[light_h[self.to_m[leave]]], come[heavy_h[self.from_m[come]]]])
        room = self.fits_m[others] | (self.to_m[others] == ends[0])
        room &= self.fits_m[each] | (self.from_m[others] == ends[1])
        return np.asarray(others[room & (self.row_m[others] != self.row_m[each])])

    @cached_property
    def _partners(self) -> tuple[np.ndarray, np.ndarray]:
        """Whether a node is one of the least loaded [H], and of the most loaded [H]."""
        rank_h = np.argsort(np.argsort(self.deviation_h, kind="stable"), kind="stable")
        return rank_h < PARTNERS, rank_h >= len(rank_h) - PARTNERS

    @cached_property
    def _from(self) -> list[np.ndarray]:
        return _by_node(self.from_m, len(self.deviation_h))

    @cached_property
    def _to(self) -> list[np.ndarray]:
        return _by_node(self.to_m, len(self.deviation_h))

    def _changes(self, together: np.ndarray) -> np.ndarray:
        """[N] changes of the objective by K migrations [K, N] carried out together."""
        worth, capacity_h = self.worth, self.worth.balance.capacity_h
        mean = self.all_m[together].sum(axis=0) / worth.capacity
        nodes = np.concatenate([self.from_m[together], self.to_m[together]])
        work = np.concatenate([self.left_m[together], self.got_m[together]])
        change = (self.price_m - self.gain_m)[together].sum(axis=0) - worth.slope(self.deviation_h) * mean
        before_h = worth.penalty(self.deviation_h)
        for place, node in enumerate(nodes):
            again = (nodes[:place] == node).any(axis=0)
            net = (work * (nodes == node)).sum(axis=0) / capacity_h[node]
            after = worth.penalty(self.deviation_h[node] + net - mean, node)
            change += np.where(again, 0.0, after - before_h[node])
        return np.asarray(change)


def _open_RxH(worth: CollocationObjective, rows: Movable, nodes: int) -> np.ndarray:  # noqa: N802  # its shape
    """Whether a row may be on a node: a marked node takes back only what was on it."""
    marked_h, home_g = worth.balance.marked_h, worth.balance.home_g
    return ~marked_h | (np.arange(nodes) == rows.node_r(home_g)[:, None])


def _fits(
    worth: CollocationObjective, member: csr_matrix, node_g: np.ndarray, row: np.ndarray, to: np.ndarray
) -> np.ndarray:
    fits = np.ones(len(row), bool)
    for use_g, room_h in worth.balance.side_constraints:
        used_h = np.bincount(node_g, use_g, len(room_h))
        fits &= used_h[to] + (member @ use_g)[row] <= room_h[to] + 1e-9
    return fits


def _by_node(node_m: np.ndarray, nodes: int) -> list[np.ndarray]:
    order = np.argsort(node_m, kind="stable")
    return np.split(order, np.searchsorted(node_m[order], np.arange(1, nodes)))
