"""Sockets: fetching by distance, clocks, bandwidth limits, too many tasks."""

from __future__ import annotations

from typing import Any

import pytest

from tests.twin.worlds import HOST, chain, simulated
from twin.cluster import Cluster, hops_a, hops_b, server_a, server_b
from twin.deployment import Deployment
from twin.errors import BadInput
from twin.profiles import STORM
from twin.rates.model import RateModel
from twin.run import Run
from twin.spec import parse

FREE = STORM.model_dump(mode="json") | {"name": "free", "batch_records": 100, "flush_s": 1.0, "memory_factor": 0.0}


def work(name: str = "work", **more: Any) -> dict[str, Any]:
    """Operator of one record out for one in; by default with constant times."""
    return {"kind": "map", "name": name, "service_scv": 0} | more


def on_server(cluster: Cluster, middle: dict[str, Any], rate: float, record_bytes: float, **more: Any) -> Deployment:
    hosts = [cluster.hosts[0].model_dump(mode="json") | more.pop("host", {})]
    law = {"law": "constant", "rate_per_s": rate}
    return chain([middle], law, record_bytes, hosts=hosts, engine=FREE, **more)


def require_throughput(job: Deployment, per_s: float, rel: float = 0.02, horizon_s: float = 5.0) -> Run:
    """Checks the throughput of a run, and exactly by the rate model; returns the run."""
    assert RateModel().answer(job, [job.plan]).in_per_s[0, -1] == pytest.approx(per_s, rel=1e-3)
    run = simulated(job, horizon_s=horizon_s, period_s=1, warmup_s=2)
    assert run.metrics.throughput_per_s == pytest.approx(per_s, rel=rel)
    return run


# distance -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("operator", "local_ns", "lines", "estimated_ns"),
    [
        ("splitter", 1612.8, 3.2, {1: 1991.1, 3: 1994.9, 4: 2923.7, 7: 3196.4}),
        ("counter", 612.3, 0.5, {1: 665.2, 3: 665.9, 4: 837.9, 7: 888.4}),
    ],
)
def test_time_per_record_by_distance_follows_the_published_estimates(
    operator: str, local_ns: float, lines: float, estimated_ns: dict[int, float]
) -> None:
    """A busy operator's throughput is 1 / (Te + Tf), as estimated in BriskStream's Table 3."""
    for socket, published_ns in {0: local_ns, **estimated_ns}.items():
        middle = work(operator, service_time_s=local_ns * 1e-9)
        here = {"source": "server/0", operator: f"server/{socket}", "sink": f"server/{socket}"}
        job = on_server(server_a(), middle, 2e6, lines * 64, placement=here)
        horizon_s = 0.004
        run = simulated(job, horizon_s=horizon_s, period_s=horizon_s / 4, warmup_s=horizon_s / 4)
        time_ns = 1e9 / next(each for each in run.operators if each.operator == operator).rate_in_per_s
        assert time_ns == pytest.approx(published_ns, rel=0.06)


def test_hops_of_server_a_are_symmetric_and_two_within_a_tray() -> None:
    assert all(hops_a(i, j) == hops_a(j, i) for i in range(8) for j in range(8))
    assert [hops_a(0, j) for j in range(8)] == [0, 1, 2, 1, 3, 3, 4, 4]
    assert hops_a(1, 3) == 2 and hops_a(4, 6) == 2


def test_hops_of_server_b_are_of_pairs_trays_and_the_whole() -> None:
    """Server B's hops follow its authors' matrix: 185 ns for 8 ordered pairs, 294 to 299 for 16, 346 for 32."""
    assert [hops_b(0, j) for j in range(8)] == [0, 1, 2, 2, 3, 3, 3, 3]
    every = [hops_b(i, j) for i in range(8) for j in range(8)]
    assert [every.count(hops) for hops in (1, 2, 3)] == [8, 16, 32]
    host = server_b().hosts[0]
    idle_ns = [host.socket_latency_s(0, j) * 1e9 + 50 for j in (1, 2, 3, 4)]
    assert idle_ns == pytest.approx([185.2, 294.9, 294.9, 349.6])


def test_servers_have_the_published_totals() -> None:
    first, second = server_a().hosts[0], server_b().hosts[0]
    assert sum(each.cores for each in first.sockets) == 144 and sum(each.cores for each in second.sockets) == 64
    assert first.core_speed(0) == pytest.approx(1)
    assert second.core_speed(0) == pytest.approx(2.27 / 1.2)


# clocks -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("parallelism", [1, 4, 6])
def test_a_fast_socket_serves_by_its_clock(parallelism: int) -> None:
    """Cores serve by their clocks: of 4 at 3 and 4 at 1 GHz, worth 8 reference cores, each is worth 1.5 or 0.5."""
    host = HOST | {"cpu_percent": 800, "sockets": [{"cores": 4, "clock_ghz": 3}, {"cores": 4, "clock_ghz": 1}]}
    for socket, speed in enumerate((1.5, 0.5)):
        here = dict.fromkeys(("source", "sink"), "h") | {"work": {f"h/{socket}": parallelism}}
        job = chain([work(service_time_s=0.01)], 4000, hosts=[host], placement=here)
        require_throughput(job, 100 * speed * min(parallelism, 4), rel=0.03, horizon_s=10.0)


# bandwidth ----------------------------------------------------------------------------------------------------------

NARROW = HOST | {
    "cpu_percent": 1600,
    "sockets": [{"cores": 8, "bandwidth_gbps": 0.01}, {"cores": 8}],
    "numa": {"latency_ns": [[0, 100], [100, 0]], "bandwidth_gbps": [[1, 0.004], [0.004, 1]]},
}


@pytest.mark.parametrize("rate", [40_000, 15_000, 9000])
def test_local_bandwidth_bounds_the_throughput(rate: float) -> None:
    """Local bandwidth bounds throughput: 10 MB/s and 1,000 bytes a record are 10,000 records a second."""
    middle = work(service_time_s=5e-5, service_scv=0.5, memory_bytes=1000)
    job = chain([middle], rate, hosts=[NARROW], placement={"source": "h/0", "work": {"h/0": 3}, "sink": "h/0"})
    run = require_throughput(job, min(rate, 10_000))
    rates = [row["numRecordsIn"] for row in run.operator_rows if row["kind"] == "sink" and row["start_s"] >= 2]
    assert max(rates) - min(rates) < 0.06 * min(rate, 10_000), "it settles"


@pytest.mark.parametrize("rate", [12_000, 5000])
def test_the_channel_between_sockets_bounds_the_throughput(rate: float) -> None:
    """The channel between sockets bounds throughput: 4 MB/s and 500 fetched bytes a record are 8,000 a second."""
    middle = work(service_time_s=5e-5)
    here = {"source": "h/0", "work": {"h/1": 4}, "sink": "h/1"}
    require_throughput(chain([middle], rate, 500, hosts=[NARROW], placement=here), min(rate, 8000))


@pytest.mark.parametrize("channel", [False, True])
@pytest.mark.parametrize(("cores", "parallelism"), [(1, 1), (1, 40), (4, 24), (4, 40), (8, 3), (8, 40)])
@pytest.mark.parametrize("service_s", [2e-4, 5e-3])
def test_bandwidth_is_reached_and_kept_by_any_number_of_subtasks(
    cores: int, parallelism: int, service_s: float, channel: bool
) -> None:
    """Bandwidth is reached, and not exceeded, however many subtasks share the cores: of 1,000 bytes a record, half of
    what the cores would move."""
    per_s = 0.5 * min(cores, parallelism) / service_s
    gbps = 1000 * per_s / 1e9
    narrow = {"sockets": [{"cores": cores, "bandwidth_gbps": gbps}, {"cores": cores}]}
    if channel:
        narrow = {
            "sockets": [{"cores": cores}] * 2,
            "numa": {"latency_ns": [[0, 0], [0, 0]], "bandwidth_gbps": [[1e3, gbps], [gbps, 1e3]]},
        }
    middle = work(service_time_s=service_s) | ({} if channel else {"memory_bytes": 1000})
    here = {"source": "h/1", "work": {"h/0": parallelism}, "sink": "h/1"}
    host = HOST | {"cpu_percent": 200 * cores} | narrow
    job = chain([middle], 3 * per_s, 1000, hosts=[host], placement=here)
    warmup_s = 40 * max(0.05, 4 * parallelism / per_s)  # as many changes of the price
    run = simulated(job, horizon_s=1.5 * warmup_s, period_s=warmup_s / 2, warmup_s=warmup_s)
    assert RateModel().answer(job, [job.plan]).in_per_s[0, -1] == pytest.approx(per_s, rel=1e-3)
    assert run.metrics.throughput_per_s == pytest.approx(per_s, rel=0.015)


def test_two_limits_on_one_task_hold_both() -> None:
    middle = work(service_time_s=5e-5, memory_bytes=1500)
    here = {"source": "h/1", "work": {"h/0": 4}, "sink": "h/0"}
    run = simulated(chain([middle], 20_000, 600, hosts=[NARROW], placement=here), horizon_s=10, period_s=1, warmup_s=5)
    assert run.metrics.throughput_per_s == pytest.approx(4e6 / 600, rel=0.02)


# over-subscription --------------------------------------------------------------------------------------------------


def test_more_runnable_tasks_than_cores_cost_switches() -> None:
    """More tasks than cores cost switches: with 4 a core and 10 % each beyond the first, 1.3 times the work."""
    host = HOST | {"cpu_percent": 400, "sockets": [{"cores": 2}, {"cores": 2}]}
    for parallelism, factor in ((8, 1.3), (2, 1.0)):
        here = {"source": "h/1", "work": {"h/0": parallelism}, "sink": "h/1"}
        job = chain(
            [work(service_time_s=0.01)],
            4000,
            hosts=[host],
            placement=here,
            engine=STORM.model_dump(mode="json") | {"name": "switching", "context_switch": 0.1},
        )
        run = simulated(job, horizon_s=8, period_s=1, warmup_s=3)
        assert run.metrics.throughput_per_s == pytest.approx(200 / factor, rel=0.03)


# bad sockets --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"sockets": [{"cores": 8, "clock_ghz": 2}, {"cores": 8}]}, "clock_ghz for all sockets or for none"),
        ({"sockets": [{"cores": 8, "bandwidth_gbps": 0}, {"cores": 8}]}, "greater than"),
        ({"numa": {"latency_ns": [[0, 1], [1, 0]], "bandwidth_gbps": [[1, 0], [1, 1]]}}, r"bandwidth_gbps\[0\]\[1\]"),
        ({"numa": {"latency_ns": [[0, 1], [1, 0]], "bandwidth_gbps": [[1]]}}, "must be 2 x 2"),
        ({"numa": {"latency_ns": [[0, -1], [1, 0]]}}, r"latency_ns\[0\]\[1\] must be >= 0"),
    ],
)
def test_bad_sockets_are_named(change: dict[str, Any], message: str) -> None:
    with pytest.raises(BadInput, match=message):
        parse(Cluster, {"hosts": [NARROW | change]})


def test_batches_need_a_time_out() -> None:
    with pytest.raises(BadInput, match="need flush_s"):
        chain([], 10, engine=FREE | {"flush_s": None})


# named servers ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("server", [server_a, server_b])
def test_fewer_sockets_are_the_first_ones(server: Any) -> None:
    whole = server().hosts[0]
    for count in (1, 2, 4, 8):
        part = server(count).hosts[0]
        assert part.socket_count == count
        assert [part.socket_capacity(i) for i in range(count)] == pytest.approx([whole.socket_capacity(0)] * count)
        for i in range(count):
            for j in range(count):
                assert part.socket_latency_s(i, j) == whole.socket_latency_s(i, j)
                assert part.numa.bandwidth_gbps[i][j] == whole.numa.bandwidth_gbps[i][j]
    for count in (0, 9):
        with pytest.raises(BadInput, match=f"from 1 to 8, got {count}"):
            server(count)


def test_a_named_cluster_is_its_hosts_wherever_it_is_written_in_full() -> None:
    document = chain([], 10).model_dump(mode="json")
    document["plan"] = {"placement": dict.fromkeys(("source", "sink"), "server/7")}
    named = parse(Deployment, document | {"cluster": "server-b"})
    assert named.cluster == server_b()
    assert named.model_dump(mode="json")["cluster"]["hosts"][0]["name"] == "server"
    assert parse(Deployment, named.model_dump(mode="json")) == named
    with pytest.raises(BadInput, match="cluster: unknown cluster 'server-bb'; did you mean 'server-b'"):
        parse(Deployment, document | {"cluster": "server-bb"})
