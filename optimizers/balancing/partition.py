"""Balanced graph partitioning by METIS, without its traps."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix

SCALE = 1000
"""METIS wants whole weights of at least 1: the largest becomes this."""


def partitioned(edges: csr_matrix, weights: np.ndarray, parts: int) -> np.ndarray:
    """The part, 0 to at most `parts` - 1, of each vertex; the parts weigh about the same and little is cut.

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
    """Each vertex to the part that is then lightest."""
    part, filled = np.zeros(len(weights), dtype=int), np.zeros((parts, 2))
    for vertex in np.argsort(-weights, kind="stable"):
        part[vertex] = np.lexsort((filled[:, 1], filled[:, 0]))[0]
        filled[part[vertex]] += weights[vertex], 1.0
    return part


def _whole(weights: np.ndarray) -> np.ndarray:
    most = float(weights.max(initial=0.0))
    return np.maximum(np.rint(weights * (SCALE / most)), 1).astype(int) if most else np.ones(len(weights), dtype=int)
