"""Many plans of one query through the network at once: the same forward pass as models.gnn, arranged densely.

A plan changes only where operators sit, so the query is laid out once and the plans are the batch. The weights of each
operator's type are gathered by index and the data flow is a scan over the operators, so another query of a similar
size runs the same compiled program. Equality with the flat network is a test.

Axes: C plans of a chunk, O operators in data-flow order, K host slots, F inputs, D hidden features, M metrics.
"""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from models.columns import encode
from models.facts import LOADS, HostFacts, OperatorFacts
from models.features import COLUMNS, HOST, NODE_TYPES, raw_row
from models.layers import MLP, Array, NetworkConfig, Parameters, combined, encoder, head, updater
from twin.cluster import Host

OPERATOR_SIZES = (8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 512, 1024)
SLOT_SIZES = (4, 8, 16, 32, 64, 128, 256, 512, 1024)


class QueryInputs(NamedTuple):
    """What all plans share; padded operators have no producers, no place and no part in the readout.

    inputs_OxF: padded with zeros to the widest type.  kinds_O: type of each.  producers_OxO: 1 where row reads column.
    fed_O: whether it has inputs.  real_O: whether it exists.
    """

    inputs_OxF: np.ndarray
    kinds_O: np.ndarray
    producers_OxO: np.ndarray
    fed_O: np.ndarray
    real_O: np.ndarray


class PlanInputs(NamedTuple):
    """hosts_CxKxF: inputs of the hosts a plan uses, in slots.  placed_CxOxK: 1 where an operator has a replica."""

    hosts_CxKxF: np.ndarray
    placed_CxOxK: np.ndarray


def size_for(count: int, sizes: tuple[int, ...]) -> int:
    """The smallest of `sizes` that holds `count`; beyond the last one, `count` itself."""
    return next((size for size in sizes if size >= count), count)


def query_inputs(config: NetworkConfig, operators: list[OperatorFacts], streams: list[tuple[int, int]]) -> QueryInputs:
    """The query side of the graph. streams: (producer, consumer) indices into `operators`."""
    size = size_for(len(operators), OPERATOR_SIZES)
    width = widest(config)
    inputs_OxF = np.zeros((size, width), np.float32)
    kinds_O = np.zeros(size, np.int32)
    for o, facts in enumerate(operators):
        kind = NODE_TYPES.index(facts.spec.kind)
        raw = np.array([raw_row(facts.spec.kind, facts)])
        columns = config.columns(kind)
        inputs_OxF[o, : len(columns)] = encode(COLUMNS[facts.spec.kind], raw)[0, columns]
        kinds_O[o] = kind
    producers_OxO = np.zeros((size, size), np.float32)
    for producer, consumer in streams:
        producers_OxO[consumer, producer] = 1
    real_O = (np.arange(size) < len(operators)).astype(np.float32)
    return QueryInputs(inputs_OxF, kinds_O, producers_OxO, np.asarray(producers_OxO.any(axis=1)), real_O)


def plan_inputs(
    config: NetworkConfig, hosts: tuple[Host, ...], counts_PxOxH: np.ndarray, loads_PxHxL: np.ndarray, operators: int
) -> PlanInputs:
    """The host side of the graph, a plan each; only hosts that carry a replica get a slot. operators: O, padded."""
    plans, rows, _ = counts_PxOxH.shape
    used_PxH = counts_PxOxH.any(axis=1)
    slots = size_for(int(used_PxH.sum(axis=1).max(initial=1)), SLOT_SIZES)
    host_PxK = np.argsort(~used_PxH, axis=1, kind="stable")[:, :slots]
    raw_HxC = np.array([raw_row("host", HostFacts(host)) for host in hosts])
    raw_PxKxC = raw_HxC[host_PxK]
    loads_PxKxL = np.take_along_axis(loads_PxHxL, host_PxK[:, :, None], axis=1)
    names = [column.name for column in COLUMNS["host"]]
    for index, name in enumerate(LOADS):
        raw_PxKxC[:, :, names.index(name)] = loads_PxKxL[:, :, index]
    inputs = encode(COLUMNS["host"], raw_PxKxC.reshape(-1, raw_PxKxC.shape[2]))[:, config.columns(HOST)]
    found = host_PxK.shape[1]
    hosts_PxKxF = np.zeros((plans, slots, inputs.shape[1]), np.float32)
    hosts_PxKxF[:, :found] = inputs.reshape(plans, found, -1)
    placed_PxOxK = np.zeros((plans, operators, slots), np.float32)
    placed_PxOxK[:, :rows, :found] = np.take_along_axis(counts_PxOxH, host_PxK[:, None, :], axis=2) > 0
    return PlanInputs(hosts_PxKxF, placed_PxOxK)


def widest(config: NetworkConfig) -> int:
    """Inputs of the operator type that has most."""
    return max(len(config.columns(kind)) for kind in range(HOST))


def stacked(config: NetworkConfig, parameters: Parameters) -> dict[str, Any]:
    """A network's parameters with the operator types as a leading axis; encoders padded to the widest type."""
    width, phases = widest(config), {"flow": "flow", "placed": "placed"}
    if config.phase_weights == "shared":
        phases["placed"] = "flow"
    if not config.hosts:
        del phases["placed"]
    encoders = []
    for kind in NODE_TYPES[:HOST]:
        layers = dict(parameters[f"encoders_{kind}"])
        kernel = np.asarray(layers["layer_0"]["kernel"])
        padded = np.pad(kernel, ((0, width - kernel.shape[0]), (0, 0)))
        encoders.append({**layers, "layer_0": {**layers["layer_0"], "kernel": padded}})
    trees = {
        phase: _stack([parameters[f"updates_{name}_{kind}"] for kind in NODE_TYPES[:HOST]])
        for phase, name in phases.items()
    }
    names = ("head", "host_update", f"encoders_{NODE_TYPES[HOST]}")
    rest = {name: parameters[name] for name in names if name in parameters}
    return {"encoders": _stack(encoders), **trees, **rest}


def _stack(trees: list[Any]) -> Any:
    return jax.tree.map(lambda *leaves: np.stack(leaves), *trees)


def stack_members(config: NetworkConfig, members: tuple[Parameters, ...]) -> Any:
    """The members of an ensemble with a leading axis, ready for `score`."""
    return jax.device_put(_stack([stacked(config, member) for member in members]))


@partial(jax.jit, static_argnames=("config",))
def score(members: Any, query: QueryInputs, plans: PlanInputs, *, config: NetworkConfig) -> jax.Array:
    """[members, C, M] network outputs."""
    return jax.lax.map(lambda weights: _forward(config, weights, query, plans), members)


def _forward(config: NetworkConfig, weights: Any, query: QueryInputs, plans: PlanInputs) -> jax.Array:
    chunk = plans.placed_CxOxK.shape[0]
    h_OxD = _each(encoder(config), _of_kinds(weights["encoders"], query.kinds_O), query.inputs_OxF)
    h_OxCxD = jnp.broadcast_to(h_OxD[:, None], (h_OxD.shape[0], chunk, config.hidden))
    readout_CxD = jnp.zeros((chunk, config.hidden))
    if config.hosts:
        h_CxKxD, h_OxCxD = _placement(config, weights, query, plans, h_OxCxD)
        present_CxK = plans.placed_CxOxK.max(axis=1)
        readout_CxD += jnp.einsum("ckd,ck->cd", h_CxKxD, present_CxK)
    h_OxCxD = _flow(config, _of_kinds(weights["flow"], query.kinds_O), query, h_OxCxD)
    readout_CxD += jnp.einsum("ocd,o->cd", h_OxCxD, query.real_O)
    return _run(head(config), weights["head"], readout_CxD)


def _placement(
    config: NetworkConfig, weights: Any, query: QueryInputs, plans: PlanInputs, h_OxCxD: jax.Array
) -> tuple[jax.Array, jax.Array]:
    mlp = updater(config)
    h_CxKxD = _run(encoder(config), weights[f"encoders_{NODE_TYPES[HOST]}"], plans.hosts_CxKxF)
    inbox_CxKxD = jnp.einsum("cok,ocd->ckd", plans.placed_CxOxK, h_OxCxD)
    h_CxKxD = _updated(config, h_CxKxD, _run(mlp, weights["host_update"], combined(config, inbox_CxKxD, h_CxKxD)))
    inbox_OxCxD = jnp.einsum("cok,ckd->ocd", plans.placed_CxOxK, h_CxKxD)
    new_OxCxD = _each(mlp, _of_kinds(weights["placed"], query.kinds_O), combined(config, inbox_OxCxD, h_OxCxD))
    return h_CxKxD, _updated(config, h_OxCxD, new_OxCxD)


def _flow(config: NetworkConfig, weights_O: Any, query: QueryInputs, h_OxCxD: jax.Array) -> jax.Array:
    def visit(h_OxCxD: jax.Array, operator: tuple[Any, ...]) -> tuple[jax.Array, None]:
        weights, producers_O, fed, index = operator
        own_CxD = h_OxCxD[index]
        inbox_CxD = jnp.einsum("o,ocd->cd", producers_O, h_OxCxD)
        new_CxD = _updated(config, own_CxD, _run(updater(config), weights, combined(config, inbox_CxD, own_CxD)))
        return h_OxCxD.at[index].set(jnp.where(fed, new_CxD, own_CxD)), None

    order = jnp.arange(h_OxCxD.shape[0])
    return jax.lax.scan(visit, h_OxCxD, (weights_O, query.producers_OxO, query.fed_O, order))[0]


def _updated(config: NetworkConfig, own: jax.Array, new: jax.Array) -> jax.Array:
    return own + new if config.residual else new


def _of_kinds(weights: Any, kinds_O: Array) -> Any:
    return jax.tree.map(lambda leaf: leaf[kinds_O], weights)


def _run(mlp: MLP, weights: Any, x: Array) -> jax.Array:
    return jnp.asarray(mlp.apply({"params": weights}, x))


def _each(mlp: MLP, weights_O: Any, x_Ox: Array) -> jax.Array:
    return jax.vmap(partial(_run, mlp))(weights_O, x_Ox)
