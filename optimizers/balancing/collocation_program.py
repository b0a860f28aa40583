"""Migrations that bring traffic together, chosen all at once so that no node leaves a band of loads.

A column is a migration: one key group, or a unit of groups that exchange much already, to a node that it exchanges
traffic with; and, to make room, to one of the least loaded nodes. Of two groups that exchange much, one migrates at
most, unless in one column: then what the columns gain adds up, and the choice among them is a linear program of a few
thousand columns instead of a quadratic one. For loads that stay what they are; see `collocation_search` for those that
fall as traffic comes together.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.sparse import csr_matrix, hstack, identity

from optimizers.balancing.balance import Balance
from optimizers.balancing.traffic import KeyGroupTraffic
from optimizers.program import Program, ProgramLimits

EXCESS = 100.0
"""What a percentage point beyond the band weighs, in pairs of mean traffic."""
MIGRATION = 0.15
"""What a migration of mean cost weighs: a pair of a seventh of the mean traffic is not worth it."""
FILLED = 4
"""Least loaded nodes that groups of the most loaded ones may go to only to make room."""
GAP = 0.03
"""Relative, at which the program counts as solved."""


@dataclass(frozen=True)
class MigrationColumns:
    """C migrations. member_GxC: 1 where a group belongs to it. node_c: where to. joined_c: traffic with the node to go
    to; torn_c: with the node left, but for what goes along. unit: traffic of a pair, on average."""

    member_GxC: csr_matrix  # noqa: N815  # its shape
    node_c: np.ndarray
    joined_c: np.ndarray
    torn_c: np.ndarray
    unit: float

    @property
    def gain_c(self) -> np.ndarray:
        """[C] traffic brought together, in pairs of mean traffic."""
        return np.asarray((self.joined_c - self.torn_c) / self.unit)

    def some(self, which: np.ndarray) -> MigrationColumns:
        """The same for some of them."""
        return MigrationColumns(
            self.member_GxC[:, which], self.node_c[which], self.joined_c[which], self.torn_c[which], self.unit
        )


def collocated_by_program(
    balance: Balance, traffic: KeyGroupTraffic, hot_e: np.ndarray, unit_g: np.ndarray, *, band: float, seconds: float
) -> np.ndarray:
    """[G] nodes. hot_e: pairs worth bringing together. unit_g: groups that exchange much already, and may go as one."""
    columns = _columns(balance, traffic, hot_e, unit_g)
    if not len(columns.node_c):
        return balance.home_g.copy()
    values = _solved(balance, traffic, hot_e, columns, band, seconds)
    node_g = balance.home_g.copy()
    for column in np.flatnonzero(values > 0.5):
        node_g[columns.member_GxC[:, [column]].indices] = columns.node_c[column]
    return balance.home_g.copy() if balance.violation(node_g) else node_g


def _columns(balance: Balance, traffic: KeyGroupTraffic, hot_e: np.ndarray, unit_g: np.ndarray) -> MigrationColumns:
    unit = float(traffic.rate_e[hot_e].mean()) if hot_e.any() else 1.0
    members_u = csr_matrix((np.ones(len(unit_g)), (np.arange(len(unit_g)), unit_g)))
    home_g = balance.home_g
    apart = hot_e & (home_g[traffic.sender_e] != home_g[traffic.receiver_e])
    start = np.concatenate([traffic.sender_e[apart], traffic.receiver_e[apart]])
    node = home_g[np.concatenate([traffic.receiver_e[apart], traffic.sender_e[apart]])]
    singles = np.unique(np.stack([start, node]), axis=1)
    size_u = np.bincount(unit_g)
    whole = size_u[unit_g[start]] > 1
    together = np.unique(np.stack([unit_g[start][whole], node[whole]]), axis=1)
    fill = _fillers(balance, unit_g)
    one = identity(len(unit_g), format="csr")
    member = hstack([one[:, singles[0]], members_u[:, together[0]], members_u[:, fill[0]]]).tocsc()
    node_c = np.concatenate([singles[1], together[1], fill[1]]).astype(int)
    columns = MigrationColumns(member, node_c, *_exchanged(balance, traffic, member, node_c), unit)
    fills = np.arange(len(node_c)) >= len(node_c) - fill.shape[1]
    useful = _possible(balance, member, node_c)
    return columns.some(useful[fills[useful] | (columns.gain_c[useful] > MIGRATION)])


def _fillers(balance: Balance, unit_g: np.ndarray) -> np.ndarray:
    """[2, C] units of the most loaded nodes, and the least loaded nodes, each with each."""
    above_h = balance.load_h(balance.home_g) - balance.mean
    light = np.flatnonzero(~balance.marked_h)
    light = light[np.argsort(above_h[light], kind="stable")[:FILLED]]
    heavy = np.union1d(np.argsort(-above_h, kind="stable")[:FILLED], np.flatnonzero(balance.marked_h))
    units = np.unique(unit_g[np.isin(balance.home_g, heavy)])
    return np.stack([np.repeat(units, len(light)), np.tile(light, len(units))])


def _exchanged(
    balance: Balance, traffic: KeyGroupTraffic, member: csr_matrix, node_c: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """[C], [C] traffic with the node to go to, and with the node left, but for what goes along."""
    groups, nodes = len(balance.home_g), len(balance.capacity_h)
    on = csr_matrix((np.ones(groups), (np.arange(groups), balance.home_g)), shape=(groups, nodes))
    with_h = (traffic.both_ways @ on).toarray()
    inside_c = np.asarray((traffic.both_ways @ member).multiply(member).sum(axis=0)).ravel()
    entries = member.tocoo()
    joined = np.bincount(entries.col, with_h[entries.row, node_c[entries.col]], len(node_c))
    torn = np.bincount(entries.col, with_h[entries.row, balance.home_g[entries.row]], len(node_c))
    return joined, torn - inside_c


def _possible(balance: Balance, member: csr_matrix, node_c: np.ndarray) -> np.ndarray:
    entries = member.tocoo()
    fixed_c = np.bincount(entries.col, balance.stays_g[entries.row], len(node_c)) > 0
    stays_c = np.bincount(entries.col, balance.home_g[entries.row] == node_c[entries.col], len(node_c)) > 0
    paid_c = np.asarray(member.T @ balance.costs_g).ravel() <= balance.budget + 1e-9
    return np.flatnonzero(~fixed_c & ~stays_c & paid_c & ~balance.marked_h[node_c])


def _solved(
    balance: Balance,
    traffic: KeyGroupTraffic,
    hot_e: np.ndarray,
    columns: MigrationColumns,
    band: float,
    seconds: float,
) -> np.ndarray:
    """[C] which migrations are carried out; none if HiGHS finds nothing better."""
    count, nodes, groups = len(columns.node_c), len(balance.capacity_h), len(balance.home_g)
    member = columns.member_GxC
    ends = np.concatenate([traffic.sender_e[hot_e], traffic.receiver_e[hot_e]])
    pair = np.tile(np.arange(len(ends) // 2), 2)
    pairs = csr_matrix((np.ones(len(ends)), (pair, ends)), shape=(len(ends) // 2, groups))
    flow = _flow(balance, columns)
    load, room_h = flow(balance.work_g), balance.capacity_h
    above_h = balance.load_h(balance.home_g) - balance.mean
    unmarked = np.flatnonzero(~balance.marked_h)
    cost_c = np.asarray(member.T @ balance.costs_g).ravel()
    program = Program()
    goes = program.variables((count,), upper=1.0, integer=True)
    beyond = program.variables((nodes, 1))
    program.rows((goes, (pairs @ member > 0).astype(float)), high=1.0)
    program.rows((goes, member), high=1.0)
    program.rows((goes, load), (beyond, -room_h[:, None]), high=(band - above_h) * room_h)
    low_h = (-band - above_h) * room_h
    program.rows((goes, load[unmarked]), (beyond[unmarked], room_h[unmarked, None]), low=low_h[unmarked])
    if np.isfinite(balance.budget):
        program.row((goes, cost_c), high=balance.budget)
    for use_g, most_h in balance.side_constraints:
        program.rows((goes, flow(use_g)), high=most_h - np.bincount(balance.home_g, use_g, nodes))
    mean_cost = float(balance.costs_g.mean())
    program.costs(goes, (MIGRATION * cost_c / mean_cost if mean_cost else 0.0) - columns.gain_c)
    program.costs(beyond, EXCESS)
    start = np.concatenate([np.zeros(count), np.maximum(np.abs(balance.deviation_h(balance.home_g)) - band, 0.0)])
    values = program.solve(ProgramLimits(seconds=seconds, gap=GAP), start).values
    return start[:count] if values is None else values[goes]


def _flow(balance: Balance, columns: MigrationColumns) -> Callable[[np.ndarray], csr_matrix]:
    """Of an amount a group: [H, C] what each node gets, or loses, by each migration."""
    entries, nodes = columns.member_GxC.tocoo(), len(balance.capacity_h)

    def flow(amount_g: np.ndarray) -> csr_matrix:
        amount = amount_g[entries.row]
        shape = (nodes, len(columns.node_c))
        comes = csr_matrix((amount, (columns.node_c[entries.col], entries.col)), shape=shape)
        return comes - csr_matrix((amount, (balance.home_g[entries.row], entries.col)), shape=shape)

    return flow
