"""Every feature of Costream's Table I is there, documented, and read off the right place."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from models.feature import Linear, Log, OneHot, encode
from models.features import CONTEXT, FEATURE_SETS, FEATURE_VERSION, FEATURES, NODE_TYPES, WIDTHS, table
from models.graph import joint_graph
from tests.models.deployments import random_deployment
from twin.deployment import Deployment
from twin.plan import ExecutionPlan

TABLE_I = {
    "source": {"event_rate", "ints", "strings", "doubles", "tuple_width_in", "tuple_width_out"},
    "filter": {"function", "literal_type", "selectivity", "tuple_width_in", "tuple_width_out"},
    "join": {"key_type", "selectivity"},
    "aggregate": {"function", "group_by", "value_type", "selectivity"},
    "host": {"cpu", "ram", "network_latency", "network_bandwidth"},
}
WINDOW = {"window_type", "window_policy", "window_size_tuples", "window_size_s", "slide_tuples", "slide_s"}


@pytest.mark.parametrize("node", TABLE_I)
def test_table_1_is_complete_and_seen_by_the_papers_model(node: str) -> None:
    seen = {column.name for column in FEATURES[node] if column.group in FEATURE_SETS["table1"]}
    assert TABLE_I[node] <= seen
    assert node not in ("join", "aggregate") or seen >= WINDOW


def test_ablations_see_ever_more() -> None:
    sets = [FEATURE_SETS[name] for name in ("operators", "placement", "table1", "rates", "costs", "physics")]
    assert all(less < more for less, more in pairwise(sets))
    assert not [column for kind in NODE_TYPES[:-1] for column in FEATURES[kind] if column.group == "hardware"]


def test_every_feature_is_documented_once_a_node() -> None:
    rows = table()
    assert (
        len({(row.node, row.feature) for row in rows}) == len(rows) == len(CONTEXT) + sum(map(len, FEATURES.values()))
    )
    assert all(row.meaning and row.encoding for row in rows)
    assert len(FEATURE_VERSION) == 12


@given(st.floats(1e-6, 1e6), st.floats(1.01, 100))
def test_log_encoding_is_monotone_and_linear_in_the_logarithm(value: float, factor: float) -> None:
    low, middle, high = Log(10, 1000, floor=1e-9).encode(np.array([value, value * factor, value * factor**2]))[:, 0]
    assert low < middle < high
    assert high - middle == pytest.approx(middle - low, abs=1e-9)


def test_encodings_at_their_marks() -> None:
    np.testing.assert_allclose(Log(10, 1000).encode(np.array([10, 100, 1000]))[:, 0], [-1, 0, 1], atol=1e-12)
    np.testing.assert_allclose(Linear(0, 4).encode(np.array([0, 2, 8]))[:, 0], [-1, 0, 3])
    np.testing.assert_array_equal(OneHot(("a", "b")).encode(np.array([1.0, 0.0])), [[0, 1], [1, 0]])
    assert np.isfinite(Log(10, 1000).encode(np.array([0.0]))).all()


@pytest.mark.parametrize("seed", range(10))
def test_graph_has_a_node_an_operator_and_used_host_and_an_edge_a_pair(seed: int) -> None:
    deployment = random_deployment(seed, hosts=5, replicas=4)
    graph = joint_graph(deployment)
    names = [operator.name for operator in deployment.query.topological]
    assert [NODE_TYPES[kind] for kind in graph.kinds] == [operator.kind for operator in deployment.query.topological]
    assert {(names[u], names[v]) for u, v in graph.streams} == {
        (s.producer, s.consumer) for s in deployment.query.streams
    }
    hosts_of = [{location.host for location in deployment.plan.locations(name)} for name in names]
    assert len(graph.hosts) == len(set.union(*hosts_of))
    assert [sum(o == index for o, _ in graph.placements) for index in range(len(names))] == list(map(len, hosts_of))
    assert all(graph.levels[u] < graph.levels[v] for u, v in graph.streams)
    for kind, raw in zip(graph.kinds, graph.operators, strict=True):
        x = encode(FEATURES[NODE_TYPES[kind]], np.array([raw]))
        assert x.shape == (1, WIDTHS[kind])
        assert np.isfinite(x).all()


def column(deployment: Deployment, node: str, name: str) -> list[float]:
    """Raw values of one feature over the nodes of a type."""
    graph = joint_graph(deployment)
    index = [each.name for each in FEATURES[node]].index(name)
    if node == "host":
        return [raw[index] for raw in graph.hosts]
    return [raw[index] for raw, kind in zip(graph.operators, graph.kinds, strict=True) if NODE_TYPES[kind] == node]


def moved(deployment: Deployment, hosts: tuple[str, ...]) -> Deployment:
    """All operators with a replica on each of `hosts`."""
    return deployment.with_plan(ExecutionPlan(placement={o.name: hosts for o in deployment.query.operators}))


def test_loads_of_hosts_add_up_to_the_work_of_the_operators() -> None:
    deployment = random_deployment(3)
    cpu = {host.name: host.cpu_percent / 100 for host in deployment.cluster.hosts}
    demand = sum(sum(column(deployment, kind, "cpu_demand")) for kind in NODE_TYPES[:-1])
    alone = moved(deployment, ("h0",))
    assert column(alone, "host", "cpu_load") == pytest.approx([demand / cpu["h0"]])
    assert column(alone, "host", "network_load") == [0.0]
    spread = moved(deployment, ("h1", "h2", "h2", "h3"))
    loads = column(spread, "host", "cpu_load")
    assert loads == pytest.approx([demand * share / cpu[h] for h, share in (("h1", 0.25), ("h2", 0.5), ("h3", 0.25))])
    assert all(load > 0 for load in column(spread, "host", "network_load"))
    assert column(spread, "source", "replicas") == [4.0] * len(deployment.query.sources)


def test_features_of_operators_do_not_know_the_cluster_but_for_physics() -> None:
    graphs = [joint_graph(each) for each in (random_deployment(4), moved(random_deployment(4), ("h1",)))]
    for kind, *rows in zip(graphs[0].kinds, *(graph.operators for graph in graphs), strict=True):
        columns = [column for column in FEATURES[NODE_TYPES[kind]] if column.group != "physics"]
        assert columns == list(FEATURES[NODE_TYPES[kind]][: len(columns)])
        assert rows[0][: len(columns)] == rows[1][: len(columns)]
    assert graphs[0].context != graphs[1].context
