"""Tests of the network and its batches: it computes Algorithm 1, and nothing is lost, doubled or mixed up."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from models.gnn import Batch, Capacity, CostNetwork, batch_of, cut, initial, needs
from models.graph import GraphTable, JointGraph, concatenate, joint_graph, stack
from models.prediction import forward
from models.settings import NetworkConfig
from tests.models.deployments import random_deployment
from tests.models.reference import Reference
from twin.deployment import Deployment
from twin.query import Query

CONFIGS = {
    "paper": NetworkConfig(hidden=5, features="table1", combine="sum", phase_weights="shared"),
    "default": NetworkConfig(hidden=5, outputs=3),
    "physics": NetworkConfig(hidden=5, features="physics", estimates=True, residual=True),
    "residual": NetworkConfig(hidden=5, residual=True),
    "composed": NetworkConfig(hidden=5, features="composed", estimates=True, residual=True, readout="mean"),
    "operators only": NetworkConfig(hidden=5, features="operators"),
    "traditional": NetworkConfig(hidden=5, features="rates", scheme="traditional", rounds=2),
}
SMALL = NetworkConfig(hidden=5)


def noisy(config: NetworkConfig, seed: int = 0) -> Any:
    """Parameters with biases, so that a forgotten bias or a padded row shows."""
    rng = np.random.default_rng(seed)
    return jax.tree.map(lambda leaf: leaf + 0.1 * rng.normal(size=leaf.shape).astype(np.float32), initial(config, seed))


@pytest.mark.slow
@pytest.mark.parametrize("name", CONFIGS)
def test_forward_pass_is_algorithm_1_node_by_node(name: str, graphs: list[JointGraph], table: GraphTable) -> None:
    config, parameters = CONFIGS[name], noisy(CONFIGS[name])
    outputs_GxM = forward(config, parameters, table)
    for graph, output_M in zip(graphs, outputs_GxM, strict=True):
        np.testing.assert_allclose(output_M, Reference(config, parameters, graph).output(), rtol=1e-4, atol=1e-5)


def test_prediction_depends_on_no_other_graph_and_on_no_batch_size(graphs: list[JointGraph], table: GraphTable) -> None:
    parameters = noisy(SMALL)
    together = forward(SMALL, parameters, table)
    shuffled = np.random.default_rng(0).permutation(len(graphs))
    again = forward(SMALL, parameters, stack([graphs[index] for index in shuffled]), batch=7)
    np.testing.assert_allclose(again, together[shuffled], rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(forward(SMALL, parameters, stack(graphs[:1])), together[:1], rtol=1e-5, atol=1e-6)


@pytest.mark.slow
def test_padding_adds_nothing_to_prediction_or_gradient(graphs: list[JointGraph]) -> None:
    table, parameters = stack(graphs[:3]), noisy(SMALL)
    tight = Capacity.of_flat(3, needs(table).sum(axis=0))
    wide = Capacity.of_flat(9, needs(table).sum(axis=0) * 2 + 3)
    found = []
    for capacity in (tight, wide):
        network, batch = CostNetwork(SMALL, capacity), batch_of(table, np.arange(3), capacity)

        def total(parameters: Any, network: CostNetwork = network, batch: Batch = batch) -> jax.Array:
            return jnp.asarray(network.apply({"params": parameters}, batch))[:3].sum()

        found.append(jax.jit(jax.value_and_grad(total))(parameters))
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-4), *found)


def test_order_in_which_operators_and_hosts_are_listed_does_not_matter() -> None:
    parameters = noisy(SMALL)
    original = [random_deployment(seed) for seed in range(8)]
    before = forward(SMALL, parameters, stack([joint_graph(each) for each in original]))
    after = forward(SMALL, parameters, stack([joint_graph(reversed_lists(each)) for each in original]))
    np.testing.assert_allclose(after, before, rtol=1e-4, atol=1e-5)


def reversed_lists(deployment: Deployment) -> Deployment:
    query = Query(operators=deployment.query.operators[::-1], streams=deployment.query.streams)
    cluster = deployment.cluster.model_copy(update={"hosts": deployment.cluster.hosts[::-1]})
    return Deployment(**{**dict(deployment), "query": query, "cluster": cluster})


def test_initial_parameters_follow_the_seed() -> None:
    one, same, other = initial(SMALL, 1), initial(SMALL, 1), initial(SMALL, 2)
    jax.tree.map(np.testing.assert_array_equal, one, same)
    assert np.any(one["head"]["layer_0"]["kernel"] != other["head"]["layer_0"]["kernel"])


def test_a_graph_that_does_not_fit_is_an_error(graphs: list[JointGraph], table: GraphTable) -> None:
    capacity = Capacity.of_flat(1, needs(table).min(axis=0))
    with pytest.raises(ValueError, match="larger than the batch"):
        list(cut(needs(table), np.arange(len(graphs)), capacity))
    with pytest.raises(ValueError, match="do not fit a batch of 1"):
        batch_of(table, np.arange(len(graphs)), capacity)


def test_concatenated_tables_hold_the_same_graphs(graphs: list[JointGraph], table: GraphTable) -> None:
    parts = concatenate([stack(graphs[:7]), stack(graphs[7:8]), stack(graphs[8:])])
    for ours, theirs in zip(parts.nodes, table.nodes, strict=True):
        np.testing.assert_array_equal(ours.rows, theirs.rows)
        np.testing.assert_array_equal(ours.start, theirs.start)
    np.testing.assert_array_equal(needs(parts), needs(table))
