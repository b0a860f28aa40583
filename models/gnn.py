"""The graph neural network of Costream (Algorithm 1) and its ablations, and the batches of graphs that it works on."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from typing import Any, NamedTuple

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np

from models.features import CONTEXT_WIDTH, HOST, NODE_TYPES, SINK, WIDTHS
from models.graph import GraphTable
from models.settings import NetworkConfig
from twin.randomness import random_stream

# batches -------------------------------------------------------------------------------------------------------------
# Flat, typed batches of fixed shape: many graphs as one, with padding that changes no result.
#
# Nodes lie grouped by type, so each type's MLP runs once over its own rows. Operators with inputs are updated level by
# level, each level with the same room for each type so that one compiled body serves all; sinks, which nothing reads,
# go all together at the end. Padding points one past the end: gathers there are never used, `segment_sum` and scatters
# drop it. One set of capacities is one compiled program.


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
    raise ValueError(f"too many {what} rows for the batch; cut batches with models.gnn.cut")


# the network ---------------------------------------------------------------------------------------------------------
# The graph neural network of Costream (Algorithm 1) and its ablations, as one configurable flax model.
#
# Axes: N operator rows, H host rows, G graphs, D hidden features, R rows of one level, M metrics. Two deviations from
# Algorithm 1, both configuration: sums and own state are concatenated (as the paper's text says; `combine: sum` is the
# algorithm's letter), and each phase may have weights of its own (`phase_weights`).


Array = jax.Array | np.ndarray
Parameters = dict[str, Any]
"""Parameters as nested mappings of arrays, in flax's form."""


class MLP(nn.Module):
    """MLP: linear layers with leaky ReLU between them, and after the last one too unless `linear_end`.

    Its parameters are drawn by `initial`; flax traces the initialiser of each layer whenever a network is compiled, so
    it is the shortest one.
    """

    widths: Sequence[int]
    linear_end: bool = False

    @nn.compact
    def __call__(self, x: Array) -> jax.Array:
        h = jnp.asarray(x)
        for index, width in enumerate(self.widths):
            h = nn.Dense(width, name=f"layer_{index}", kernel_init=nn.initializers.zeros_init())(h)
            if index < len(self.widths) - 1 or not self.linear_end:
                h = nn.leaky_relu(h)
        return h


def encoder(config: NetworkConfig) -> MLP:
    """MLP of Algorithm 1, line 2."""
    return MLP((config.hidden,) * config.layers)


def context_encoder(config: NetworkConfig) -> MLP:
    """MLP whose output the head sees of the plan as a whole, beside the sum over the nodes."""
    return MLP((config.hidden,) * config.layers)


def updater(config: NetworkConfig) -> MLP:
    """MLP' of Algorithm 1, line 5. In the residual form its end is linear, so that a state can also fall."""
    return MLP((config.hidden,) * config.layers, linear_end=config.residual)


def head(config: NetworkConfig) -> MLP:
    """MLP_out of Algorithm 1, line 6."""
    return MLP((*(config.hidden,) * (config.layers - 1), config.outputs), linear_end=True)


def combined(config: NetworkConfig, inbox: jax.Array, own: jax.Array) -> jax.Array:
    """Input of MLP': the children's sum and the node's own state."""
    return inbox + own if config.combine == "sum" else jnp.concatenate([inbox, own], axis=-1)


class CostNetwork(nn.Module):
    """Network that maps a batch to one number a graph and metric [G, M]: standardised log cost, or logit. Parameters do
    not depend on the capacity. Operators without inputs keep their state in the data-flow phase."""

    config: NetworkConfig
    capacity: Capacity

    def setup(self) -> None:
        phases = ("flow",) if self.config.phase_weights == "shared" else ("placed", "flow")
        kinds = NODE_TYPES if self.config.hosts else NODE_TYPES[:HOST]
        self.encoders = {kind: encoder(self.config) for kind in kinds}
        self.updates = {f"{phase}_{kind}": updater(self.config) for phase in phases for kind in NODE_TYPES[:HOST]}
        self.host_update = updater(self.config)
        self.head = head(self.config)
        if self.config.context.size:
            self.encoders_context = context_encoder(self.config)

    def __call__(self, batch: Batch) -> jax.Array:
        h_NxD, h_HxD = self.states(batch)
        return self.head(self._readout(batch, h_NxD, h_HxD))

    def states(self, batch: Batch) -> tuple[jax.Array, jax.Array]:
        """Final states of the operators [N, D] and of the hosts [H, D], before the readout."""
        h_NxD = jnp.concatenate([self._encode(kind, batch) for kind in range(HOST)])
        hosts = self.config.hosts
        h_HxD = self._encode(HOST, batch) if hosts else jnp.zeros((self.capacity.nodes[HOST], self.config.hidden))
        if self.config.scheme == "traditional":
            h_NxD, h_HxD = self._rounds(batch, h_NxD, h_HxD)
        else:
            if hosts:
                h_HxD = self._to_hosts(batch, h_NxD, h_HxD)
                h_NxD = self._to_operators(batch, h_NxD, h_HxD)
            h_NxD = self._to_sinks(batch, self._flow(batch.levels, h_NxD))
        return h_NxD, h_HxD

    def _encode(self, kind: int, batch: Batch) -> jax.Array:
        return self.encoders[NODE_TYPES[kind]](batch.inputs[kind][:, self.config.columns(kind)])

    def _update(self, mlp: MLP, inbox: jax.Array, own: jax.Array) -> jax.Array:
        new = mlp(combined(self.config, inbox, own))
        return own + new if self.config.residual else new

    def _by_kind(self, phase: str, rows: Sequence[int], inbox: jax.Array, own: jax.Array) -> jax.Array:
        """New states by each operator type's MLP' over its rows, which lie one type after the other."""
        phase = "flow" if self.config.phase_weights == "shared" else phase
        parts, start = [], 0
        for kind, count in zip(NODE_TYPES[:HOST], rows, strict=True):
            part = slice(start, start + count)
            if count:
                parts.append(self._update(self.updates[f"{phase}_{kind}"], inbox[part], own[part]))
            start += count
        return jnp.concatenate(parts)

    def _to_hosts(self, batch: Batch, h_NxD: jax.Array, h_HxD: jax.Array) -> jax.Array:
        inbox_HxD = _sum(h_NxD, batch.placed_operators, batch.placed_hosts, h_HxD.shape[0])
        return self._update(self.host_update, inbox_HxD, h_HxD)

    def _to_operators(self, batch: Batch, h_NxD: jax.Array, h_HxD: jax.Array) -> jax.Array:
        inbox_NxD = _sum(h_HxD, batch.placed_hosts, batch.placed_operators, h_NxD.shape[0])
        return self._by_kind("placed", self.capacity.nodes[:HOST], inbox_NxD, h_NxD)

    def _flow(self, levels: Levels, h_NxD: jax.Array) -> jax.Array:
        """New states by updates level after level, from the operators next to the sources to those before the sinks."""
        cells = self.capacity.cells
        if not self.capacity.levels:
            return h_NxD

        def visit(network: CostNetwork, h_NxD: jax.Array, level: Levels) -> tuple[jax.Array, None]:
            inbox_RxD = _sum(h_NxD, level.senders, level.receivers, sum(cells))
            new_RxD = network._by_kind("flow", cells, inbox_RxD, h_NxD[level.nodes])
            return h_NxD.at[level.nodes].set(new_RxD, mode="drop"), None

        over_levels = nn.scan(visit, variable_broadcast="params", split_rngs={"params": False})
        h_NxD, _ = over_levels(self, h_NxD, levels)
        return h_NxD

    def _to_sinks(self, batch: Batch, h_NxD: jax.Array) -> jax.Array:
        sinks = self.capacity.sinks
        inbox_SxD = _sum(h_NxD, batch.sink_senders, batch.sink_receivers, self.capacity.nodes[SINK])
        new_SxD = self._update(self.updates[f"flow_{NODE_TYPES[SINK]}"], inbox_SxD, h_NxD[sinks])
        return h_NxD.at[sinks].set(new_SxD)

    def _rounds(self, batch: Batch, h_NxD: jax.Array, h_HxD: jax.Array) -> tuple[jax.Array, jax.Array]:
        """New states by synchronous messages over streams and placements, both ways (Costream, Fig. 13)."""
        rows, levels = h_NxD.shape[0], batch.levels
        inner = jax.vmap(lambda nodes, position: nodes.at[position].get(mode="fill", fill_value=rows))
        sink_rows = jnp.where(
            batch.sink_receivers < self.capacity.nodes[SINK], batch.sink_receivers + self.capacity.sinks.start, rows
        )
        receivers = jnp.concatenate([inner(jnp.asarray(levels.nodes), levels.receivers).reshape(-1), sink_rows])
        senders = jnp.concatenate([jnp.asarray(levels.senders).reshape(-1), batch.sink_senders])
        for _ in range(self.config.rounds):
            inbox_NxD = _sum(h_NxD, senders, receivers, rows) + _sum(h_NxD, receivers, senders, rows)
            inbox_HxD = _sum(h_NxD, batch.placed_operators, batch.placed_hosts, h_HxD.shape[0])
            inbox_NxD += _sum(h_HxD, batch.placed_hosts, batch.placed_operators, rows)
            h_NxD = self._by_kind("flow", self.capacity.nodes[:HOST], inbox_NxD, h_NxD)
            if self.config.hosts:
                h_HxD = self._update(self.host_update, inbox_HxD, h_HxD)
        return h_NxD, h_HxD

    def _readout(self, batch: Batch, h_NxD: jax.Array, h_HxD: jax.Array) -> jax.Array:
        of_graphs = partial(jax.ops.segment_sum, num_segments=self.capacity.graphs)
        readout_GxD = of_graphs(h_NxD, batch.operator_graph)
        nodes_Gx1 = of_graphs(jnp.ones((len(h_NxD), 1)), batch.operator_graph)
        if self.config.hosts:
            readout_GxD += of_graphs(h_HxD, batch.host_graph)
            nodes_Gx1 += of_graphs(jnp.ones((len(h_HxD), 1)), batch.host_graph)
        if self.config.readout == "mean":
            readout_GxD /= jnp.maximum(nodes_Gx1, 1.0)  # a batch may have room for more graphs
        if self.config.context.size:
            context_GxD = self.encoders_context(batch.context[:, self.config.context])
            return jnp.concatenate([readout_GxD, context_GxD], axis=1)
        return readout_GxD


def _sum(h: jax.Array, senders: Array, receivers: Array, rows: int) -> jax.Array:
    """Sum of each receiver's senders. A receiver one past the end is dropped, whatever its sender."""
    return jax.ops.segment_sum(jnp.asarray(h)[senders], jnp.asarray(receivers), rows)


WHOLE = Capacity(
    graphs=1, nodes=(1,) * len(NODE_TYPES), placements=1, levels=1, cells=(1,) * HOST, streams=1, sink_streams=1
)
"""Smallest batch in which every MLP runs once."""


def initial(config: NetworkConfig, seed: int) -> Parameters:
    """Fresh parameters: biases zero, kernels normal with variance 1 / inputs. Same seed, same parameters.

    Numpy draws them from one stream a parameter: compiling flax's own initialisers takes longer than a small training.
    """

    def draw(path: tuple[object, ...], leaf: jax.ShapeDtypeStruct) -> np.ndarray:
        if len(leaf.shape) == 1:
            return np.zeros(leaf.shape, np.float32)
        normal = random_stream(seed, jax.tree_util.keystr(path)).standard_normal(leaf.shape)
        return (normal / np.sqrt(leaf.shape[0])).astype(np.float32)

    return dict(jax.tree_util.tree_map_with_path(draw, shapes(config)))


def silent(parameters: Parameters) -> Parameters:
    """Parameters with a head whose last layer is zero: the network's output is always 0."""
    last = f"layer_{len(parameters['head']) - 1}"
    head_ = {**parameters["head"], last: jax.tree.map(np.zeros_like, parameters["head"][last])}
    return {**parameters, "head": head_}


@cache
def shapes(config: NetworkConfig) -> Mapping[str, Any]:
    """Shapes of the parameters of a network: a jax.ShapeDtypeStruct each. To trace a network takes a second."""
    empty = Batch(
        inputs=tuple(np.zeros((1, width), np.float32) for width in WIDTHS),
        operator_graph=np.zeros(HOST, np.int32),
        host_graph=np.zeros(1, np.int32),
        placed_operators=np.zeros(1, np.int32),
        placed_hosts=np.zeros(1, np.int32),
        levels=Levels(np.arange(HOST, dtype=np.int32)[None], np.zeros((1, 1), np.int32), np.zeros((1, 1), np.int32)),
        sink_senders=np.zeros(1, np.int32),
        sink_receivers=np.zeros(1, np.int32),
        context=np.zeros((1, CONTEXT_WIDTH), np.float32),
    )
    found: Mapping[str, Any] = jax.eval_shape(CostNetwork(config, WHOLE).init, jax.random.key(0), empty)["params"]
    return found
