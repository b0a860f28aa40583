"""Links: routes, hops in a row, conservation, degradation, and messages on bad networks."""

from __future__ import annotations

from itertools import pairwise
from math import inf
from typing import Any

import networkx as nx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.twin.worlds import chain, deployment, simulated, sink, source, world_of
from twin.change.kept import in_flight
from twin.cluster import Routes
from twin.deployment import Deployment
from twin.errors import BadInput
from twin.events import LinkDegradation
from twin.rates.model import RateModel
from twin.scenario import RunSettings
from twin.spec import parse
from twin.world.ports import Path


def host(name: str, **more: Any) -> dict[str, Any]:
    """Host, by default large and well connected."""
    return {"name": name, "cpu_percent": 400, "ram_mb": 64_000, "bandwidth_mbps": 1000, "latency_ms": 500} | more


def link(one: str, other: str, mbps: float = 1000, ms: float = 1) -> dict[str, Any]:
    return {"between": [one, other], "bandwidth_mbps": mbps, "latency_ms": ms}


def linked(job: Deployment, links: list[dict[str, Any]], switches: tuple[str, ...] = ()) -> Deployment:
    """Job on a network of links."""
    document = job.model_dump(mode="json")
    document["cluster"] |= {"links": links, "switches": list(switches)}
    return parse(Deployment, document)


def across(rate: Any, links: list[dict[str, Any]], switches: tuple[str, ...] = (), **more: Any) -> Deployment:
    """Job with its source on a and its sink on c."""
    parts = {"hosts": [host(name) for name in "abc"], "placement": {"source": "a", "sink": "c"}} | more
    return chain([], rate, links=links, switches=switches, **parts)


# routes -------------------------------------------------------------------------------------------------------------


@settings(max_examples=50, deadline=None)
@given(
    edges=st.dictionaries(
        st.tuples(st.integers(0, 6), st.integers(0, 6)).filter(lambda ends: ends[0] < ends[1]),
        st.integers(0, 20),
        min_size=1,
    )
)
def test_routes_have_the_lowest_latency_and_then_the_fewest_hops(edges: dict[tuple[int, int], int]) -> None:
    names = [f"n{k}" for k in range(7)]
    links = [(names[i], names[j], float(ms)) for (i, j), ms in edges.items()]
    routes, again = Routes(names, links), Routes(names, links)
    graph: nx.Graph[str] = nx.Graph()
    graph.add_nodes_from(names)
    graph.add_weighted_edges_from(links)
    for start in names:
        for end in names:
            assert routes.connected(start, end) == nx.has_path(graph, start, end)
            if not routes.connected(start, end):
                continue
            taken = routes.between(start, end)
            assert taken == again.between(start, end)
            best = list(nx.all_shortest_paths(graph, start, end, weight="weight"))
            assert sum(graph.edges[step]["weight"] for step in taken) == nx.shortest_path_length(
                graph, start, end, weight="weight"
            )
            assert len(taken) == min(len(path) for path in best) - 1


# hops ---------------------------------------------------------------------------------------------------------------


def test_latency_is_the_sum_of_the_links_and_the_transmissions() -> None:
    """Latency is the sum over card and links of the time of one record's bytes; hosts' own latencies do not count."""
    job = across(
        {"law": "constant", "rate_per_s": 50},
        [link("a", "s", 1, 7), link("s", "t", 2, 11), link("t", "c", 4, 13)],
        ("s", "t"),
    )
    size = job.engine.bytes_of(job.query.columns_out["source"])
    wire_s = sum(size * 8e-6 / mbps for mbps in (1000, 1, 2, 4))
    cpu_s = size * job.engine.deserialise_ns_per_byte * 1e-9
    run = simulated(job, horizon_s=40, warmup_s=10)
    sending_s = size * job.engine.serialise_ns_per_byte * 1e-9
    assert run.metrics.processing_latency_s.mean == pytest.approx(0.031 + wire_s + cpu_s + sending_s, rel=0.002)


def test_the_narrowest_link_bounds_the_throughput() -> None:
    job = across(1000, [link("a", "s", 100), link("s", "c", 0.25)], ("s",))
    size = job.engine.bytes_of(job.query.columns_out["source"])
    run = simulated(job, horizon_s=40, warmup_s=10)
    assert run.metrics.throughput_per_s == pytest.approx(0.25e6 / 8 / size, rel=0.01)
    rows = [row for row in run.link_rows if row["link"] == "s->c" and row["start_s"] >= 10]
    assert min(row["utilisation"] for row in rows) > 0.98
    assert sum(row["bytesOut"] for row in rows) == pytest.approx(30 * 0.25e6 / 8, rel=0.01)
    links = run.to_dict()["links"]
    assert list(links) == ["a", "a->s", "s->c"]
    assert links["s->c"]["utilisation"] == pytest.approx(1, abs=0.02) and links["a->s"]["utilisation"] < 0.01
    assert links["s->c"]["sent_mbps"] == pytest.approx(0.25, rel=0.01)


def md1_latency_s(load: float, service_s: float) -> float:
    """Mean time in an M/D/1 queue."""
    return service_s * (1 + load / 2 / (1 - load))


@pytest.mark.parametrize("rates", [(240,), (120, 120), (200, 40), (40,) * 6])
@pytest.mark.parametrize("load", [0.4, 0.6])
def test_streams_wait_for_each_other_on_a_link_as_in_one_queue(load: float, rates: tuple[float, ...]) -> None:
    """Streams wait on a link as in one queue, however the load is split and from whatever hosts they come."""
    names = [f"s{k}" for k in range(len(rates))]
    job = deployment(
        [*map(source, names), sink()],
        [(name, "sink") for name in names],
        dict(zip(names, rates, strict=True)),
        hosts=[host(name) for name in "abc"],
        placement={name: "ab"[k % 2] for k, name in enumerate(names)} | {"sink": "c"},
    )
    size = job.engine.bytes_of(job.query.columns_out["s0"])
    shared = link("s", "c", sum(rates) * size * 8e-6 / load, 0)
    job = linked(job, [link("a", "s", ms=0), link("b", "s", ms=0), shared], ("s",))
    latency = simulated(job, horizon_s=240).metrics.processing_latency_s
    assert latency.mean == pytest.approx(md1_latency_s(load, load / sum(rates)), rel=0.1)


def test_links_change_nothing_where_streams_stay_on_their_host() -> None:
    job = chain([], 100, hosts=[host("h"), host("g")])
    runs = [simulated(each, horizon_s=10) for each in (job, linked(job, [link("h", "g")]))]
    assert runs[0].operator_rows == runs[1].operator_rows


# the rate model -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("width_mbps", [0.4, 20])
def test_the_rate_model_sees_latency_and_the_narrowest_link(width_mbps: float) -> None:
    links = [link("a", "s", 100, 40), link("s", "c", width_mbps, 60)]
    job = across({"law": "constant", "rate_per_s": 1000}, links, ("s",))
    found = RateModel(60).predict(job, [job.plan])
    run = simulated(job, horizon_s=60).metrics
    assert found["throughput_per_s"][0] == pytest.approx(run.throughput_per_s, rel=0.03)
    assert (found["backpressured"][0] > 0.5) == run.backpressured == (width_mbps < 1)
    if not run.backpressured:
        assert found["processing_latency_s"][0] == pytest.approx(run.processing_latency_s.mean, rel=0.05)


# degradation --------------------------------------------------------------------------------------------------------


def test_a_degraded_link_is_narrower_and_slower_until_it_is_mended() -> None:
    job = across(300, [link("a", "c", 1, 10)])
    size = job.engine.bytes_of(job.query.columns_out["source"])
    world = world_of(job)
    carried = world.links["a->c"]
    counts = []
    for at_s, factors in ((20.0, (0.1, 50.0)), (40.0, (10.0, 0.02)), (60.0, (1.0, 1.0))):
        world.advance(at_s)
        world.count()
        counts.append((carried.records_out, carried.capacity_bytes()))
        carried.degrade(*factors)
    assert counts[0][0] == pytest.approx(20 * 300, rel=0.05)
    assert (counts[1][0] - counts[0][0]) * size == pytest.approx(19.5 * 0.1e6 / 8, rel=0.05)
    assert [after[1] - before[1] for before, after in pairwise(counts)] == pytest.approx([20e5 / 8, 20e6 / 8])


STEPS = st.lists(st.tuples(st.floats(0.05, 1), st.floats(0.2, 5), st.floats(0.5, 2)), min_size=1, max_size=4)


@settings(max_examples=20, deadline=None)
@given(steps=STEPS, sizes=st.lists(st.integers(100, 20_000), min_size=2, max_size=3), seed=st.integers(0, 99))
def test_what_waits_on_a_link_is_sent_at_the_rate_of_the_moment(
    steps: list[tuple[float, float, float]], sizes: list[int], seed: int
) -> None:
    """Departures are those of a queue whose server's rate changes in steps, and records of a stream keep their order.

    Records of several sizes share the link. They are looked at more often than the shortest of latencies.
    """
    names = [f"s{number}" for number in range(len(sizes))]
    job = deployment(
        [*(source(name, record_bytes=size) for name, size in zip(names, sizes, strict=True)), sink()],
        [(name, "sink") for name in names],
        dict.fromkeys(names, 15.0),
        hosts=[host(name) for name in "ac"],
        placement=dict.fromkeys(names, "a") | {"sink": "c"},
    )
    world = world_of(linked(job, [link("a", "c", 1, 400)]), RunSettings(seed=seed))
    card, at_s = world.links["a->c"], 0.0
    seen: dict[int, tuple[float, float, float, float]] = {}
    streams: dict[int, list[int]] = {}

    def look(until_s: float) -> None:
        while world.env.now < until_s:
            world.advance(min(until_s, world.env.now + 0.02))
            note()

    def note() -> None:
        for at_s, order, item, lane in in_flight(world):
            if lane.card == card.here:
                path = Path(item.path)
                size = world.memory.at[path.inbox].record_bytes
                seen[order] = item.sent_s, size, at_s, item.latency_s
                if order not in streams.setdefault(path.inbox, []):
                    streams[path.inbox].append(order)

    changes = [(0.0, 1e6 / 8)]
    for wait_s, bandwidth, latency in steps:
        at_s += wait_s
        look(at_s)
        card.degrade(bandwidth, latency)
        changes.append((at_s, changes[-1][1] * bandwidth))
        note()
    look(at_s + 2.0)
    free_s, ends_s = 0.0, [*(when_s for when_s, _ in changes[1:]), inf]
    for order in sorted(seen):
        sent_s, left, arrival_s, latency_s = seen[order]
        free_s = max(free_s, sent_s)
        for end_s, (_, rate) in zip(ends_s, changes, strict=True):
            if left > 0.0 and free_s < end_s:
                done = min(left, (end_s - free_s) * rate)
                left, free_s = left - done, free_s + done / rate
        assert arrival_s >= free_s + latency_s - 1e-9
        if all(latency == 1.0 for *_, latency in steps):
            assert arrival_s == pytest.approx(free_s + latency_s, rel=1e-9)
    for orders in streams.values():
        arrivals = [seen[order][2] for order in sorted(orders)]
        assert arrivals == sorted(arrivals)


def test_a_backlog_drains_at_full_speed_after_a_degradation() -> None:
    """A backlog drains at full speed: at 50/s, 8 ms each, 500 records wait after 20 s at a fifth, for 10 s at most."""
    job = across({"law": "constant", "rate_per_s": 50}, [link("a", "c", 1, 0)])
    document = job.model_dump(mode="json")
    document["query"]["operators"][0] |= {"record_bytes": 1000}
    slow = LinkDegradation(at_s=40, link=("a", "c"), bandwidth_factor=0.2, duration_s=20)
    latency = simulated(parse(Deployment, document), slow, horizon_s=120).metrics.e2e_latency_s
    assert latency.mean == pytest.approx(1.12, abs=0.02) and latency.p99 == pytest.approx(9.5, abs=0.2)


# bad networks -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("links", "switches", "message"),
    [
        ([link("a", "x")], (), r"unknown node 'x'"),
        ([link("a", "a")], (), "connects a node with itself"),
        ([link("a", "b"), link("b", "a")], (), "given twice"),
        ([], ("s",), "switches without links"),
        ([link("a", "b")], ("a",), "switch name 'a' is used more than once"),
        ([link("a", "b", 0)], (), "greater than"),
        ([link("a", "b", 1, -1)], (), "greater than or equal to 0"),
        ([link("a", "b")], (), "stream source -> sink: no route from host 'a' to 'c'"),
    ],
)
def test_bad_networks_are_named(links: list[dict[str, Any]], switches: tuple[str, ...], message: str) -> None:
    with pytest.raises(BadInput, match=message):
        across(10, links, switches)


def test_forward_streams_need_only_their_own_routes() -> None:
    places = {"source": ["a", "b"], "sink": ["c", "b"]}
    job = across(10, [link("a", "c")], placement=places, partitioning={"sink": "forward"})
    assert simulated(job, horizon_s=10).metrics.records_out > 50


def test_a_factor_of_nothing_is_refused() -> None:
    with pytest.raises(ValueError, match="factors > 0"):
        world_of(across(10, [link("a", "c")])).links["a->c"].degrade(bandwidth_factor=0)
