"""Tests of features: those of Costream's Table I, documented, read off the right place, and of a revision."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from models.dataset import of_deployments
from models.features import (
    CONTEXT,
    FEATURE_SETS,
    FEATURE_VERSION,
    FEATURES,
    NODE_TYPES,
    REVISION,
    WIDTHS,
    Feature,
    Linear,
    Log,
    OneHot,
    encode,
    table,
)
from models.graph import joint_graph
from models.job_columns import job_columns
from tests.models.deployments import random_deployment
from tests.twin.worlds import deployment, sink, source
from twin.deployment import Deployment
from twin.metrics import METRICS
from twin.plan import ExecutionPlan
from twin.scenario import RunSettings, Scenario
from twin.simulation import simulate

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
    deployment = random_deployment(seed, hosts=5, parallelism=4)
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
    """Deployment with a subtask of all operators on each of `hosts`."""
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


@pytest.mark.parametrize(("left", "right"), [(50, 450), (450, 50), (200, 200)])
def test_the_state_of_a_join_is_of_its_sides_records_at_their_own_size(left: int, right: int) -> None:
    """A join's state counts each side's records at their own size; by hand, and as an exact run holds it at the end."""
    columns = {"wide": {"strings": 20}, "narrow": {"ints": 1}}
    operators = [
        *(source(name, columns=of) for name, of in columns.items()),
        {"kind": "join", "name": "j", "window": {"policy": "time", "size_s": 2, "slide_s": 0.1}, "selectivity": 1e-6},
        sink(),
    ]
    job = deployment(
        operators, [("wide", "j"), ("narrow", "j"), ("j", "sink")], {"wide": left, "narrow": right}, engine="storm"
    )
    sizes = [job.engine.output_bytes(job.query, name) for name in columns]
    by_hand = 2.0 * (left * sizes[0] + right * sizes[1])
    found = job_columns(job)
    assert sizes[0] > 2 * sizes[1]
    assert found.operators["state"][found.names.index("j")] == pytest.approx(
        by_hand * job.engine.memory.object_overhead / 1e6, rel=0.01
    )
    run = simulate(Scenario.of(job, RunSettings(horizon_s=10, warmup_s=2, period_s=1)))
    held = [row["stateBytes"] for row in run.operator_rows if row["operator"] == "j"][-5:]
    records = 2.0 * (left + right)
    assert sum(held) / 5 == pytest.approx(by_hand, rel=5 / records**0.5)


FILE = Path(__file__).with_name("feature_values.json")
JOBS = Path(__file__).with_name("feature_jobs.json")
HORIZON_S = 60.0


def names_of(columns: tuple[Feature, ...]) -> list[str]:
    """Names of features, one for each input."""
    return [f"{each.name}.{number}" for each in columns for number in range(each.width)]


def means() -> dict[str, float]:
    """Means of features by node type and input, over all nodes of the type."""
    kept = [Deployment.model_validate(each) for each in json.loads(JOBS.read_text(encoding="utf-8"))]
    jobs = [Scenario.of(each, RunSettings(horizon_s=HORIZON_S)) for each in kept]
    graphs = of_deployments(jobs, np.zeros((len(jobs), len(METRICS)))).graphs
    tables = {
        kind: (names_of(FEATURES[kind]), ragged.rows) for kind, ragged in zip(NODE_TYPES, graphs.nodes, strict=True)
    }
    tables["plan"] = (names_of(CONTEXT), graphs.context_GxC)
    return {
        f"{kind}.{name}": float(column.mean())
        for kind, (names, rows) in tables.items()
        for name, column in zip(names, np.asarray(rows, float).T, strict=True)
    }


@pytest.fixture(scope="module")
def kept():
    return json.loads(FILE.read_text(encoding="utf-8"))


def test_values_change_only_with_the_revision(kept):
    found = means()
    assert kept["revision"] == REVISION, "the file is of another revision; see above"
    assert found.keys() == kept["means"].keys()
    changed = [name for name, value in found.items() if value != pytest.approx(kept["means"][name], rel=1e-4, abs=1e-5)]
    assert not changed, "these columns have other values; raise REVISION, and do what stands above"


if __name__ == "__main__":
    FILE.write_text(json.dumps({"revision": REVISION, "means": means()}, indent=1) + "\n", encoding="utf-8")
