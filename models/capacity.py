"""How much fits in a batch: capacities by node type and data-flow level, and cutting rows into batches that fit."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from models.features import HOST, NODE_TYPES, SINK
from models.graph import GraphTable

OPERATOR_TYPES = HOST  # operators are the types before the host


@dataclass(frozen=True)
class Capacity:
    """Shapes of a batch. graphs: G.  nodes: rows of each node type.  placements: operator-host pairs.
    levels: data-flow steps before the sinks.  cells: rows updated in any one level, of each operator type.
    streams: those that end in any one level.  sink_streams: those that end in sinks."""

    graphs: int
    nodes: tuple[int, ...]
    placements: int
    levels: int
    cells: tuple[int, ...]
    streams: int
    sink_streams: int

    @property
    def operators(self) -> int:
        """N, rows of all operator types together."""
        return sum(self.nodes[:OPERATOR_TYPES])

    @property
    def sinks(self) -> slice:
        """The rows of the sinks."""
        return slice(sum(self.nodes[:SINK]), sum(self.nodes[: SINK + 1]))

    @property
    def flat(self) -> np.ndarray:
        """All row capacities as one vector, as `needs` counts them."""
        every_level = [*(self.cells * self.levels), *((self.streams,) * self.levels)]
        return np.array([*self.nodes, self.placements, self.sink_streams, *every_level], np.int64)

    @classmethod
    def of_flat(cls, graphs: int, flat: np.ndarray) -> Capacity:
        """The smallest capacity with at least that room."""
        types = len(NODE_TYPES)
        levels = (len(flat) - types - 2) // (OPERATOR_TYPES + 1)
        cells_LxT = flat[types + 2 : types + 2 + levels * OPERATOR_TYPES].reshape(levels, OPERATOR_TYPES)
        return cls(
            graphs=graphs,
            nodes=tuple(int(n) for n in flat[:types]),
            placements=int(flat[types]),
            levels=levels,
            cells=tuple(int(n) for n in cells_LxT.max(axis=0, initial=0)),
            streams=int(flat[types + 2 + levels * OPERATOR_TYPES :].max(initial=0)),
            sink_streams=int(flat[types + 1]),
        )


def needs(table: GraphTable) -> np.ndarray:
    """[graphs, ...] rows a graph takes, in the order of Capacity.flat."""
    graphs, levels = len(table), depth(table)
    cells = np.zeros((graphs, levels, OPERATOR_TYPES), np.int64)
    owner = np.repeat(np.arange(graphs), table.updates.counts())
    kind, _, level = table.updates.rows.T
    np.add.at(cells, (owner, level - 1, kind), 1)
    streams, sink_streams = np.zeros((graphs, levels), np.int64), np.zeros((graphs, 1), np.int64)
    owner = np.repeat(np.arange(graphs), table.streams.counts())
    consumer, level = table.streams.rows[:, 2], table.streams.rows[:, 4]
    inner = consumer != SINK
    np.add.at(streams, (owner[inner], level[inner] - 1), 1)
    np.add.at(sink_streams, (owner[~inner], 0), 1)
    nodes = np.stack([ragged.counts() for ragged in table.nodes], axis=1)
    placements = table.placements.counts()[:, None]
    return np.concatenate([nodes, placements, sink_streams, cells.reshape(graphs, -1), streams], axis=1)


def depth(table: GraphTable) -> int:
    """Data-flow levels of the deepest graph, sources and sinks not counted."""
    return int(table.updates.rows[:, 2].max(initial=0))


def capacity_for(table: GraphTable, graphs: int, needs_GxC: np.ndarray | None = None) -> Capacity:
    """Room for `graphs` typical graphs of a table (mean + 3 standard deviations of the sum), and for any single one."""
    needs_GxC = needs(table) if needs_GxC is None else needs_GxC
    typical = graphs * needs_GxC.mean(axis=0) + 3 * np.sqrt(graphs) * needs_GxC.std(axis=0)
    room = np.minimum(typical, graphs * needs_GxC.max(axis=0))
    flat = np.maximum(np.ceil(room), needs_GxC.max(axis=0)).astype(np.int64)
    return Capacity.of_flat(graphs, np.where(flat > 8, -(-flat // 8) * 8, flat))


def cut(needs_GxC: np.ndarray, order: np.ndarray, capacity: Capacity) -> Iterator[np.ndarray]:
    """The graphs in that order as batches that fit; what does not fit opens the next batch.

    Raises ValueError if a single graph does not fit.
    """
    total = np.concatenate([np.zeros((1, needs_GxC.shape[1]), np.int64), np.cumsum(needs_GxC[order], axis=0)])
    first = 0
    while first < len(order):
        window = total[first + 1 : first + 1 + capacity.graphs] - total[first]
        fits = (window <= capacity.flat).all(axis=1)
        count = len(fits) if fits.all() else int(fits.argmin())
        if count == 0:
            raise ValueError("a graph is larger than the batch; choose the capacity from its own table")
        yield order[first : first + count]
        first += count
