"""The graph neural network of Costream (Algorithm 1) and its ablations, as one configurable flax model.

Axes: N operator rows, H host rows, G graphs, D hidden features, R rows of one level, M metrics.
Two deviations from Algorithm 1, both configuration: sums and own state are concatenated (as the paper's text says;
`combine: sum` is the algorithm's letter), and each phase may have weights of its own (`phase_weights`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np

from models.batch import Batch, Capacity, Levels
from models.features import CONTEXT_WIDTH, HOST, NODE_TYPES, SINK, WIDTHS
from models.settings import NetworkConfig
from twin.randomness import random_stream

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
        readout_GxD = jax.ops.segment_sum(h_NxD, batch.operator_graph, self.capacity.graphs)
        if self.config.hosts:
            readout_GxD += jax.ops.segment_sum(h_HxD, batch.host_graph, self.capacity.graphs)
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
