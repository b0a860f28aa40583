"""Migrations that bring traffic together, chosen all at once so that no node leaves a band of loads.

A column is a migration: one key group, or a unit of groups that exchange much already, to a node that it exchanges
traffic with; and, to make room, to one of the least loaded nodes. Of two groups that exchange much, one migrates at
most, unless in one column: then what the columns gain adds up, and the choice among them is a linear program of a few
thousand columns instead of a quadratic one. For loads that stay what they are; see `meeting` for those that fall as
traffic comes together.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.sparse import csr_matrix, hstack, identity, vstack

from optimizers.balancing.balance import Balance
from optimizers.balancing.highs import Program, solved
from optimizers.balancing.traffic import Traffic

EXCESS = 100.0
"""What a percentage point beyond the band weighs, in pairs of mean traffic."""
MIGRATION = 0.15
"""What a migration of mean cost weighs: a pair of a seventh of the mean traffic is not worth it."""
FILLED = 4
"""Least loaded nodes that groups of the most loaded ones may go to only to make room."""
GAP = 0.03
"""Relative, at which the program counts as solved."""


@dataclass(frozen=True)
class Columns:
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

    def some(self, which: np.ndarray) -> Columns:
        """The same for some of them."""
        return Columns(
            self.member_GxC[:, which], self.node_c[which], self.joined_c[which], self.torn_c[which], self.unit
        )


def gathered(
    balance: Balance, traffic: Traffic, hot_e: np.ndarray, unit_g: np.ndarray, *, band: float, seconds: float
) -> np.ndarray:
    """[G] nodes. hot_e: pairs worth bringing together. unit_g: groups that exchange much already, and may go as one."""
    columns = _columns(balance, traffic, hot_e, unit_g)
    if not len(columns.node_c):
        return balance.home_g.copy()
    program = _program(balance, traffic, hot_e, columns, band)
    count = len(columns.node_c)
    above_h = balance.deviation_h(balance.home_g)
    slack_h = np.maximum(np.abs(above_h) - band, 0.0)
    start = np.zeros(len(program.cost))
    start[count : count + len(slack_h)] = slack_h
    answer = solved(program, start, seconds=seconds, gap=GAP)
    node_g = balance.home_g.copy()
    if answer.x is not None:
        for column in np.flatnonzero(answer.x[:count] > 0.5):
            node_g[columns.member_GxC[:, [column]].indices] = columns.node_c[column]
    return balance.home_g.copy() if balance.violation(node_g) else node_g


def _columns(balance: Balance, traffic: Traffic, hot_e: np.ndarray, unit_g: np.ndarray) -> Columns:
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
    columns = Columns(member, node_c, *_exchanged(balance, traffic, member, node_c), unit)
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
    balance: Balance, traffic: Traffic, member: csr_matrix, node_c: np.ndarray
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


def _program(balance: Balance, traffic: Traffic, hot_e: np.ndarray, columns: Columns, band: float) -> Program:
    """Columns: the migrations, and how far each node is beyond the band."""
    count, nodes, groups = len(columns.node_c), len(balance.capacity_h), len(balance.home_g)
    member = columns.member_GxC
    ends = np.concatenate([traffic.sender_e[hot_e], traffic.receiver_e[hot_e]])
    pair = np.tile(np.arange(len(ends) // 2), 2)
    pairs = csr_matrix((np.ones(len(ends)), (pair, ends)), shape=(len(ends) // 2, groups))
    either = (pairs @ member > 0).astype(float)
    flow = _flow(balance, columns)
    load = flow(balance.work_g)
    room = csr_matrix(np.diag(balance.capacity_h))
    raw_h = (balance.load_h(balance.home_g) - balance.mean) * balance.capacity_h
    unmarked = np.flatnonzero(~balance.marked_h)
    inf = np.inf
    parts = [
        (hstack([vstack([either, member]), csr_matrix((len(ends) // 2 + groups, nodes))]), -inf, 1.0),
        (hstack([load, -room]), -inf, band * balance.capacity_h - raw_h),
        (hstack([load, room]).tocsr()[unmarked], (-band * balance.capacity_h - raw_h)[unmarked], inf),
    ]
    cost_c = np.asarray(member.T @ balance.costs_g).ravel()
    if np.isfinite(balance.budget):
        parts.append((csr_matrix(np.concatenate([cost_c, np.zeros(nodes)])[None, :]), -inf, balance.budget))
    for use_g, room_h in balance.side_constraints:
        used_h = np.bincount(balance.home_g, use_g, nodes)
        parts.append((hstack([flow(use_g), csr_matrix((nodes, nodes))]), -inf, room_h - used_h))
    mean_cost = float(balance.costs_g.mean())
    price_c = MIGRATION * cost_c / mean_cost if mean_cost else np.zeros(count)
    return Program(
        cost=np.concatenate([price_c - columns.gain_c, np.full(nodes, EXCESS)]),
        matrix=vstack([each for each, _, _ in parts]).tocsr(),
        low=np.concatenate([np.broadcast_to(low, part.shape[0]) for part, low, _ in parts]),
        high=np.concatenate([np.broadcast_to(high, part.shape[0]) for part, _, high in parts]),
        upper=np.concatenate([np.ones(count), np.full(nodes, inf)]),
        integers=count,
    )


def _flow(balance: Balance, columns: Columns) -> Callable[[np.ndarray], csr_matrix]:
    """Of an amount a group: [H, C] what each node gets, or loses, by each migration."""
    entries, nodes = columns.member_GxC.tocoo(), len(balance.capacity_h)

    def flow(amount_g: np.ndarray) -> csr_matrix:
        amount = amount_g[entries.row]
        shape = (nodes, len(columns.node_c))
        comes = csr_matrix((amount, (columns.node_c[entries.col], entries.col)), shape=shape)
        return comes - csr_matrix((amount, (balance.home_g[entries.row], entries.col)), shape=shape)

    return flow
