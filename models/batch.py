"""Flat, typed batches of fixed shape: many graphs as one, with padding that changes no result.

Nodes lie grouped by type, so each type's MLP runs once over its own rows. Operators with inputs are updated level by
level, each level with the same room for each type so that one compiled body serves all; sinks, which nothing reads, go
all together at the end. Padding points one past the end: gathers there are never used, `segment_sum` and scatters drop
it. One set of capacities is one compiled program.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from models.features import CONTEXT_WIDTH, HOST, NODE_TYPES, SINK, WIDTHS
from models.graph import GraphTable

OPERATOR_TYPES = HOST  # operators are the types before the host


@dataclass(frozen=True)
class Capacity:
    """Shapes of a batch. graphs: G.  nodes: rows of each node type.  placements: operator-host pairs. levels: data-flow
    steps before the sinks.  cells: rows updated in any one level, of each operator type. streams: those into the
    operators of any one level.  sink_streams: those that end in sinks."""

    graphs: int
    nodes: tuple[int, ...]
    placements: int
    levels: int
    cells: tuple[int, ...]
    streams: int
    sink_streams: int

    @property
    def operators(self) -> int:
        """Number N of rows of all operator types together."""
        return sum(self.nodes[:OPERATOR_TYPES])

    @property
    def sinks(self) -> slice:
        """Rows of the sinks."""
        return slice(sum(self.nodes[:SINK]), sum(self.nodes[: SINK + 1]))

    @property
    def flat(self) -> np.ndarray:
        """Row capacities as one vector, in the order of `needs`."""
        every_level = [*(self.cells * self.levels), *((self.streams,) * self.levels)]
        return np.array([*self.nodes, self.placements, self.sink_streams, *every_level], np.int64)

    @classmethod
    def of_flat(cls, graphs: int, flat: np.ndarray) -> Capacity:
        """Smallest capacity with at least that room."""
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
    """[graphs, ...] rows that each graph takes, in the order of Capacity.flat."""
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
    """Number of data-flow levels of the deepest graph, sources and sinks not counted."""
    return int(table.updates.rows[:, 2].max(initial=0))


def capacity_for(table: GraphTable, graphs: int, needs_GxC: np.ndarray | None = None) -> Capacity:
    """Room for `graphs` typical graphs of a table (mean + 3 standard deviations of the sum), and for any single one."""
    needs_GxC = needs(table) if needs_GxC is None else needs_GxC
    typical = graphs * needs_GxC.mean(axis=0) + 3 * np.sqrt(graphs) * needs_GxC.std(axis=0)
    room = np.minimum(typical, graphs * needs_GxC.max(axis=0))
    flat = np.maximum(np.ceil(room), needs_GxC.max(axis=0)).astype(np.int64)
    return Capacity.of_flat(graphs, np.where(flat > 8, -(-flat // 8) * 8, flat))


def cut(needs_GxC: np.ndarray, order: np.ndarray, capacity: Capacity) -> Iterator[np.ndarray]:
    """Yields the graphs in that order as batches that fit; a graph that does not fit opens the next batch.

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


class Levels(NamedTuple):
    """Operators that are updated together, level after level. nodes: [L, R] their rows, by type, padding N. senders:
    [L, E] rows of the producers, padding N.  receivers: [L, E] positions in the level's nodes, padding R."""

    nodes: np.ndarray
    senders: np.ndarray
    receivers: np.ndarray


class Batch(NamedTuple):
    """Batch of graphs, as arrays. inputs: for each node type [rows, WIDTHS[type]]; operator rows count over all types.
    operator_graph: [N], host_graph: [H] the graph of each row, padding G.
    placed_operators, placed_hosts: [P] operator and host rows of each placement, padding N and H.
    levels: the data flow up to the sinks.  sink_senders: [S] rows of their producers, padding N.
    sink_receivers: [S] which sink, counted among the sinks' rows, padding their number.
    context: [G, C] inputs of each plan as a whole, padding 0."""

    inputs: tuple[np.ndarray, ...]
    operator_graph: np.ndarray
    host_graph: np.ndarray
    placed_operators: np.ndarray
    placed_hosts: np.ndarray
    levels: Levels
    sink_senders: np.ndarray
    sink_receivers: np.ndarray
    context: np.ndarray


def batch_of(table: GraphTable, graphs: np.ndarray, capacity: Capacity) -> Batch:
    """Batch of some graphs of a table, padded. Raises ValueError if they do not fit."""
    if len(graphs) > capacity.graphs:
        raise ValueError(f"{len(graphs)} graphs do not fit a batch of {capacity.graphs}")
    inputs, owners, base = _nodes(table, graphs, capacity)
    n_rows, h_rows = capacity.operators, capacity.nodes[HOST]
    rows, owner = table.placements.take(graphs)
    placed = base[rows[:, 0], owner] + rows[:, 1]
    rows_S, owner_S = table.streams.take(graphs)
    senders = base[rows_S[:, 0], owner_S] + rows_S[:, 1]
    receivers = base[rows_S[:, 2], owner_S] + rows_S[:, 3]
    to_sink = rows_S[:, 2] == SINK
    context = np.zeros((capacity.graphs, CONTEXT_WIDTH), np.float32)
    context[: len(graphs)] = table.context_GxC[graphs]
    return Batch(
        inputs=tuple(inputs),
        operator_graph=np.concatenate(owners[:HOST]),
        host_graph=owners[HOST],
        placed_operators=_padded(placed, capacity.placements, n_rows),
        placed_hosts=_padded(base[HOST, owner] + rows[:, 2], capacity.placements, h_rows),
        levels=_levels(table, graphs, capacity, base, (senders, receivers, np.where(to_sink, 0, rows_S[:, 4]))),
        sink_senders=_padded(senders[to_sink], capacity.sink_streams, n_rows),
        sink_receivers=_padded(receivers[to_sink] - capacity.sinks.start, capacity.sink_streams, capacity.nodes[SINK]),
        context=context,
    )


def _nodes(
    table: GraphTable, graphs: np.ndarray, capacity: Capacity
) -> tuple[list[np.ndarray], list[np.ndarray], np.ndarray]:
    """Inputs and graphs of each type's rows, and [types, graphs] the row where a graph's nodes of a type begin."""
    inputs, owners = [], []
    base = np.zeros((len(NODE_TYPES), len(graphs)), np.int64)
    offset = 0
    for kind, ragged in enumerate(table.nodes):
        rows, owner = ragged.take(graphs)
        room = capacity.nodes[kind]
        filled = np.zeros((room, WIDTHS[kind]), np.float32)
        filled[: len(rows)] = rows if len(rows) <= room else _overflow(NODE_TYPES[kind])
        inputs.append(filled)
        owners.append(_padded(owner, room, capacity.graphs))
        count = ragged.counts()[graphs]
        base[kind] = (0 if kind == HOST else offset) + np.cumsum(count) - count
        offset += room
    return inputs, owners, base


def _levels(
    table: GraphTable,
    graphs: np.ndarray,
    capacity: Capacity,
    base: np.ndarray,
    streams: tuple[np.ndarray, np.ndarray, np.ndarray],
) -> Levels:
    """Levels of a batch. streams: rows of producers, rows of consumers, and levels of these, from 1; 0 for sinks."""
    rows, owner = table.updates.take(graphs)
    kind, level, row = rows[:, 0], rows[:, 2], base[rows[:, 0], owner] + rows[:, 1]
    width = sum(capacity.cells)
    nodes_LxR = np.full((capacity.levels, width), capacity.operators, np.int32)
    position = np.zeros(capacity.operators, np.int64)  # of a row in its level
    for type_, cell in enumerate(capacity.cells):
        start = sum(capacity.cells[:type_])
        for index in range(capacity.levels):
            mine = row[(kind == type_) & (level == index + 1)]
            position[mine] = start + np.arange(len(mine))
            nodes_LxR[index, start : start + cell] = _padded(mine, cell, capacity.operators)
    senders, receivers, step = streams
    here = [step == index + 1 for index in range(capacity.levels)]
    room = (capacity.levels, capacity.streams)
    return Levels(
        nodes_LxR,
        np.array([_padded(senders[each], room[1], capacity.operators) for each in here], np.int32).reshape(room),
        np.array([_padded(position[receivers[each]], room[1], width) for each in here], np.int32).reshape(room),
    )


def _padded(values: np.ndarray, room: int, padding: int) -> np.ndarray:
    if len(values) > room:
        _overflow("edge")
    filled = np.full(room, padding, np.int32)
    filled[: len(values)] = values
    return filled


def _overflow(what: str) -> np.ndarray:
    raise ValueError(f"too many {what} rows for the batch; cut batches with models.capacity.cut")
