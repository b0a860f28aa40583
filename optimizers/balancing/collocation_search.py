"""Migrations that bring traffic together, chosen together so that no node leaves a band of loads: descents and kicks.

All migrations that there are from an assignment are weighed at once. A row is what may migrate: a key group, or a unit
of groups that exchange much already. Weights are those of `objective`, but for the mean, of which the first order alone
is taken, and for two migrations that exchange traffic. A step carries out the best exchange there is: one migration, or
two that make room for each other. Where none is left, some migrations are taken back and others begun at random, and
the descent starts anew. Effort is counted in steps, not in seconds, so that a balance has one answer.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.sparse import csr_matrix, identity, vstack

from optimizers.balancing.balance import Balance
from optimizers.balancing.objective import CollocationObjective
from optimizers.balancing.traffic import KeyGroupTraffic
from twin.randomness import random_stream

FIRST = 24
"""Migrations of most gain, and as many of the best change, that are weighed with all that make room for them."""
TRIED = 24
"""Best exchanges that are computed exactly, until one is better than none."""
KICKED = 3
"""Migrations that a kick takes back, at most."""
WORSE = 0.5
"""How much worse than the last local optimum the next start may be, in pairs of mean traffic."""
NOTHING = 1e-6


def collocated_by_search(
    balance: Balance, traffic: KeyGroupTraffic, hot_e: np.ndarray, unit_g: np.ndarray, *, band: float, steps: int
) -> np.ndarray:
    """[G] nodes. hot_e: pairs worth bringing together. unit_g: groups that exchange much already, and may go as one."""
    return _CollocationSearch(CollocationObjective(balance, traffic, hot_e, band), Movable.of(unit_g), steps).best()


@dataclass
class _CollocationSearch:
    worth: CollocationObjective
    rows: Movable
    steps: int

    def best(self) -> np.ndarray:
        """The best of all local optima."""
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
        """Whether everything is together that is worth it, and no node beyond the band."""
        worth = self.worth
        together_e = node_g[worth.traffic.sender_e] == node_g[worth.traffic.receiver_e]
        return bool(together_e[worth.hot_e].all()) and not worth.rank(node_g)[0]

    def _descended(self, node_g: np.ndarray, held_g: np.ndarray) -> np.ndarray:
        """The local optimum below in which some groups stay where they are, if the steps last."""
        after: np.ndarray | None = node_g
        while after is not None:
            node_g = after
            self.steps -= 1
            after = self._better(node_g, held_g) if self.steps >= 0 else None
        return node_g

    def _better(self, node_g: np.ndarray, held_g: np.ndarray) -> np.ndarray | None:
        """After the best exchange; None if nothing is better."""
        value = self.worth.value(node_g)
        there = Migrations(self.worth, self.rows, node_g, held_g)
        for exchange in _exchanges(there):
            after_g = self._after(node_g, there, exchange)
            if self.worth.value(after_g) < value - NOTHING and not self.worth.balance.violation(after_g):
                return after_g
        return None

    def _kicked(self, node_g: np.ndarray, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        """Some migrations are taken back, and one is begun that brings traffic together, whatever else it does; its
        groups are held."""
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
    """Those that look as if they made it better, the best first."""
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
"""Nodes, the least and the most loaded ones, to and from which a second migration makes room."""


@dataclass(frozen=True)
class Movable:
    """member_RxG: 1 where a group belongs to a row; single groups first."""

    member_RxG: csr_matrix  # noqa: N815  # its shape

    @classmethod
    def of(cls, unit_g: np.ndarray) -> Movable:
        """Each group, and each unit of several."""
        groups = len(unit_g)
        member_UxG = csr_matrix((np.ones(groups), (unit_g, np.arange(groups))))  # noqa: N806
        several = np.flatnonzero(np.bincount(unit_g) > 1)
        found = vstack([identity(groups, format="csr"), member_UxG[several]]).tocsr()
        found.sort_indices()
        return cls(found)

    def __getitem__(self, row: int) -> np.ndarray:
        """Its groups."""
        start, end = self.member_RxG.indptr[row : row + 2]
        return np.asarray(self.member_RxG.indices[start:end])

    def node_r(self, node_g: np.ndarray) -> np.ndarray:
        """[R] where the groups of a row are; -1 if they are on several nodes."""
        nodes, start = node_g[self.member_RxG.indices], self.member_RxG.indptr[:-1]
        least, most = np.minimum.reduceat(nodes, start), np.maximum.reduceat(nodes, start)
        return np.where(least == most, least, -1)


class Migrations:
    """M migrations: of all rows whose groups are on one node, to all nodes that are not marked. held_g: groups that
    stay there.

    from_m, to_m: nodes. left_m, got_m: how the work of these changes; all_m: of all nodes. gain_m: what comes together,
    less what is torn, in pairs. cost_m: of the budget. price_m: what it weighs. fits_m: whether there is room besides
    the load. left: of the budget."""

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
        """[M] of the value, by each alone; infinite if it is not paid for, or does not fit."""
        change = self._changes(np.arange(len(self.row_m))[None, :])
        return np.where((self.cost_m <= self.left) & self.fits_m, change, np.inf)

    def pairs(self, first: np.ndarray, most: int) -> tuple[np.ndarray, np.ndarray]:
        """The best pairs of one of the first and any other at the same nodes: [2, N] migrations, and [N] changes."""
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
        """Migrations from or to a node of this one, if it has room for both."""
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
        """[H] whether a node is one of the least loaded, and of the most."""
        rank_h = np.argsort(np.argsort(self.deviation_h, kind="stable"), kind="stable")
        return rank_h < PARTNERS, rank_h >= len(rank_h) - PARTNERS

    @cached_property
    def _from(self) -> list[np.ndarray]:
        return _by_node(self.from_m, len(self.deviation_h))

    @cached_property
    def _to(self) -> list[np.ndarray]:
        return _by_node(self.to_m, len(self.deviation_h))

    def _changes(self, together: np.ndarray) -> np.ndarray:
        """[N] changes of the value by K migrations [K, N] carried out together."""
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
    """Whether a row may be on a node: a marked one takes back its own alone."""
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
