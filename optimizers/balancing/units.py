"""Key groups that migrate together: how they are made, by METIS, and a balance of units instead of groups."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from optimizers.balancing.balance import Balance

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix


def contracted(balance: Balance, unit_g: np.ndarray, pins: Mapping[int, int]) -> Balance:
    """Balancing problem of U units instead of groups; a pinned unit is on its node already, and paid for.

    unit_g: the unit of each group, 0 to U - 1. pins: unit -> node. The groups of a unit that is not pinned are on one
    node. Raises BadInput if the pins cost more than the budget.
    """
    units = int(unit_g.max()) + 1
    home_u = np.zeros(units, dtype=int)
    home_u[unit_g] = balance.home_g
    home_u[list(pins)] = list(pins.values())
    pinned = np.zeros(units, dtype=bool)
    pinned[list(pins)] = True
    paid = balance.costs_g[(home_u[unit_g] != balance.home_g)].sum()

    def total(values_g: np.ndarray) -> np.ndarray:
        return np.bincount(unit_g, values_g, units)

    return replace(
        balance,
        loads={name: total(balance.work(name)) / balance.capacity_h[home_u] for name in balance.loads},
        home_g=home_u,
        budget=max(balance.budget - paid, 0.0) if paid <= balance.budget + 1e-9 else balance.budget - paid,
        cost_g=total(balance.costs_g),
        state_g=total(np.asarray(balance.state_g)),
        fixed_g=pinned | (total(balance.stays_g.astype(float)) > 0),
        traffic=None,
    )


SCALE = 1000
"""Largest weight given to METIS, which wants whole weights of at least 1."""


def partitioned(edges: csr_matrix, weights: np.ndarray, parts: int) -> np.ndarray:
    """Part, 0 to at most `parts` - 1, of each vertex of a graph; the parts weigh about the same and little traffic is
    cut.

    edges: symmetric. weights: of vertices, >= 0. Never more parts than vertices.
    """
    import pymetis
    from scipy.sparse import csr_matrix

    count = len(weights)
    parts = min(parts, count)
    if parts <= 1:
        return np.zeros(count, dtype=int)
    if parts == count:
        return np.arange(count)
    if 2 < parts > count // 2:  # METIS leaves parts empty, and complains on the terminal
        return _heaviest_first(weights, parts)
    edges = csr_matrix(edges)
    graph = pymetis.CSRAdjacency(edges.indptr.astype(int), edges.indices.astype(int))
    found = pymetis.part_graph(parts, adjacency=graph, vweights=_whole(weights), eweights=_whole(edges.data))[1]
    return np.asarray(found, dtype=int)


def _heaviest_first(weights: np.ndarray, parts: int) -> np.ndarray:
    """Part of each vertex if the heaviest goes first, and each to the part that is then lightest."""
    part, filled = np.zeros(len(weights), dtype=int), np.zeros((parts, 2))
    for vertex in np.argsort(-weights, kind="stable"):
        part[vertex] = np.lexsort((filled[:, 1], filled[:, 0]))[0]
        filled[part[vertex]] += weights[vertex], 1.0
    return part


def _whole(weights: np.ndarray) -> np.ndarray:
    most = float(weights.max(initial=0.0))
    return np.maximum(np.rint(weights * (SCALE / most)), 1).astype(int) if most else np.ones(len(weights), dtype=int)
