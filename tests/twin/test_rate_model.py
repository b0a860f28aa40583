"""Rate model: theory where it is exact, invariants elsewhere."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.twin.checkpointed import hosts
from tests.twin.worlds import chain, deployment, sink, source
from twin.deployment import Deployment
from twin.plan import ExecutionPlan
from twin.profiles import STORM
from twin.rates.model import RateModel
from twin.rates.sockets import fair_level
from twin.scenario import RunSettings, Scenario
from twin.simulation import simulate

HORIZON_S = 240.0


def host(name: str, cpu_percent: float = 400.0, latency_ms: float = 0.0, ram_mb: float = 32_000.0) -> dict[str, Any]:
    size = {"cpu_percent": cpu_percent, "ram_mb": ram_mb}
    return {"name": name, "bandwidth_mbps": 10_000, "latency_ms": latency_ms} | size


def one_queue(rate_per_s: float, hosts: Sequence[dict[str, Any]] = (host("h"),), scv: float = 1.0) -> Deployment:
    """Job of a free source and sink, and one operator of 1 ms."""
    work = {"kind": "filter", "name": "queue", "selectivity": 1.0, "service_time_s": 1e-3, "service_scv": scv}
    places = dict.fromkeys(("source", "queue", "sink"), hosts[0]["name"])
    return chain([work], rate_per_s, hosts=list(hosts), placement=places)


def windowed(size_s: float, **more: Any) -> Deployment:
    """Job of a free window of all records, at 1,000 a second."""
    window = {"kind": "aggregate", "name": "g", "window": {"policy": "time", "size_s": size_s}, "service_time_s": 0}
    return chain([window], 1000.0, **more)


def predict(deployment: Deployment, *plans: ExecutionPlan):
    return RateModel(HORIZON_S).predict(deployment, plans or [deployment.plan])


@pytest.mark.parametrize("rho", [0.1, 0.5, 0.9])
@pytest.mark.parametrize("scv", [0.0, 1.0, 4.0])
def test_one_operator_is_an_mg1_queue(rho, scv):
    """One operator has Pollaczek and Khinchine's sojourn, S (1 + rho (1 + scv) / (2 (1 - rho)))."""
    estimates = predict(one_queue(rho * 1000, scv=scv))
    sojourn_s = 1e-3 * (1 + rho * (1 + scv) / 2 / (1 - rho))
    assert estimates["processing_latency_s"][0] == pytest.approx(sojourn_s, rel=1e-6)
    assert estimates["e2e_latency_s"][0] == pytest.approx(sojourn_s, rel=1e-6)
    assert estimates["throughput_per_s"][0] == pytest.approx(rho * 1000, rel=1e-3)


@pytest.mark.parametrize(("law", "scv"), [("poisson", 0.0), ("poisson", 1.0), ("constant", 0.0), ("constant", 1.0)])
@pytest.mark.parametrize(("rho", "servers"), [(0.8, 2), (0.9, 4)])
def test_subtasks_with_one_queue_are_a_gigc_queue(law, scv, rho, servers):
    """Allen and Cunneen's formula is close to brute force, in which the subtask that is free first serves."""
    rng, count = np.random.default_rng(0), 40_000
    gaps = rng.exponential(size=count) if law == "poisson" else np.ones(count)
    services = rng.exponential(size=count) if scv else np.ones(count)
    free, total = [0.0] * servers, 0.0
    for at, service in zip(np.cumsum(gaps / rho / servers), services, strict=True):
        free[0] = max(free[0], at) + service
        total += free[0] - at
        free.sort()
    work = {"kind": "map", "name": "queue", "service_time_s": 1e-3, "service_scv": scv}
    arrivals = {"law": law, "rate_per_s": rho * servers * 1e3}
    made = chain([work], arrivals, placement={"queue": {"h": servers}}, partitioning={"queue": "shared"})
    assert predict(made)["processing_latency_s"][0] == pytest.approx(1e-3 * total / count, rel=0.13)


@pytest.mark.parametrize("servers", [1, 2, 3])
def test_one_queue_on_slow_cores_takes_so_many_times_as_long(servers):
    """On two cores of half the speed, at half the rate, a queue takes twice as long."""

    def latency_s(speed: float) -> float:
        work = {"kind": "map", "name": "queue", "service_time_s": 1e-3}
        where = host("h", cpu_percent=200.0 * speed) | {"core_percent": 100.0 * speed}
        free = {"placement": {"source": "i", "queue": {"h": servers}, "sink": "i"}, "partitioning": {"queue": "shared"}}
        found = predict(chain([work], 700.0 * speed, hosts=[where, host("i")], **free))
        return float(found["processing_latency_s"][0])

    assert latency_s(0.5) == pytest.approx(2.0 * latency_s(1.0), rel=0.02)


@pytest.mark.parametrize(("scv", "parallelism"), [(1.0, 8), (3.0, 4)])
def test_more_subtasks_of_one_queue_than_cores_serve_as_many_as_there_are_cores(scv, parallelism):
    """Four or eight servers on two cores at 80 % wait as in runs, not as with a core each."""
    work = {"kind": "map", "name": "queue", "service_time_s": 1e-3, "service_scv": scv}
    hosts = [host("h"), host("two", 200.0)]
    made = chain(
        [work], 1600.0, hosts=hosts, placement={"queue": {"two": parallelism}}, partitioning={"queue": "shared"}
    )
    settings = RunSettings(horizon_s=60.0, warmup_s=5.0)
    runs = [simulate(Scenario.of(made, settings.model_copy(update={"seed": seed}))).metrics for seed in range(3)]
    measured = np.mean([run.value("processing_latency_s") for run in runs])
    assert predict(made)["processing_latency_s"][0] == pytest.approx(measured, rel=0.15)


@pytest.mark.parametrize("overload", [1.2, 3.0, 10.0])
def test_an_overloaded_operator_passes_its_capacity_and_the_broker_keeps_the_rest(overload):
    estimates = predict(one_queue(overload * 1000))
    assert estimates["throughput_per_s"][0] == pytest.approx(1000, rel=1e-3)
    assert estimates["backpressured"][0] > 0.9
    full_s = STORM.channel_records / 1000 / (1 - 1 / overload)  # until what comes out has waited in a full channel
    behind_s = (1 - 1 / overload) * (HORIZON_S - full_s) ** 2 / HORIZON_S / 2
    assert estimates["e2e_latency_s"][0] - estimates["processing_latency_s"][0] == pytest.approx(behind_s, rel=1e-3)


def test_a_task_uses_at_most_one_core_and_less_where_there_is_less():
    capacity = [predict(one_queue(5000, (host("h", percent),)))["throughput_per_s"][0] for percent in (50, 100, 800)]
    assert capacity == pytest.approx([500, 1000, 1000], rel=1e-3)


def test_a_remote_hop_adds_the_latency_of_the_sender():
    hosts = (host("near", latency_ms=40.0), host("far", latency_ms=7.0))
    job = one_queue(10, hosts)
    away = ExecutionPlan(placement={"source": "near", "queue": "near", "sink": "far"})
    back = ExecutionPlan(placement={"source": "far", "queue": "near", "sink": "near"})
    local, sent, fetched = predict(job, job.plan, away, back)["processing_latency_s"]
    assert sent - local == pytest.approx(0.040, abs=1e-4)  # plus (de)serialisation, microseconds
    assert fetched - local == pytest.approx(0.007, abs=1e-4)


def test_neighbours_on_a_full_host_are_slowed_fairly():
    """Water filling equals raising all tasks together and freezing those that have enough."""
    rng = np.random.default_rng(3)
    for _ in range(50):
        demand, capacity = rng.exponential(1.0, size=(1, 5)), rng.uniform(0.2, 3.0)
        if demand.sum() <= capacity:
            continue
        found = fair_level(demand.T, np.ones((5, 5, 1)), np.full((5, 1), capacity))[0, 0]
        assert np.minimum(demand, found).sum() == pytest.approx(capacity)


def test_the_oldest_record_of_a_tumbling_window_is_as_old_as_the_window():
    job = windowed(8.0)
    assert predict(job)["processing_latency_s"][0] == pytest.approx(8.0, rel=1e-3)
    assert predict(job)["throughput_per_s"][0] == pytest.approx(29 / HORIZON_S, rel=1e-3)  # the 30th ends with the run


def test_windows_that_do_not_fit_into_memory_crash_the_job():
    def success(ram_mb: float) -> float:
        return float(predict(windowed(16.0, hosts=[host("h", ram_mb=ram_mb)]))["success"][0])

    assert success(32_000) > 0.99
    assert success(305) == 0.0


def test_no_plans_no_estimates():
    assert len(RateModel().predict(one_queue(1), [])["success"]) == 0


MAP = {"kind": "map", "name": "m"}


@given(st.integers(1, 500), st.floats(20.0, 500.0), st.floats(0.2, 5.0))
def test_a_channel_passes_its_room_in_the_time_on_the_way(room: int, latency_ms: float, load: float) -> None:
    """A channel passes its room in the time on the way, the bandwidth-delay product, and none is there sooner."""
    most_per_s = room / (latency_ms * 1e-3)
    far = chain(
        [],
        load * most_per_s,
        hosts=hosts("a", "b", latency_ms=latency_ms, bandwidth_mbps=10**6),
        placement={"source": "a", "sink": "b"},
        engine=STORM.model_copy(update={"channel_records": room}).model_dump(mode="json"),
    )
    found = RateModel(1e6).answer(far, [far.plan])
    assert found.offered_pressure[0].max() == pytest.approx(load, rel=0.01)
    assert found.in_per_s[0, 1] == pytest.approx(min(load, 1.0) * most_per_s, rel=0.01)


def test_records_of_unlike_sizes_wait_for_one_card_as_pollaczek_and_khinchine_say() -> None:
    """All records that leave a host wait in one queue, lambda E[S^2] / (2 (1 - rho)), small and large ones alike."""
    rates_per_s, sizes = np.array([200.0, 100.0]), np.array([1500, 6000])
    sources = [source(name, record_bytes=int(size)) for name, size in zip(("one", "other"), sizes, strict=True)]
    far = deployment(
        [*sources, MAP, {**MAP, "name": "n"}, sink()],
        [("one", "m"), ("other", "n"), ("m", "sink"), ("n", "sink")],
        dict(zip(("one", "other"), rates_per_s, strict=True)),
        hosts=hosts("a", "b", latency_ms=3.0, bandwidth_mbps=10),
        placement={"one": "a", "other": "a", "m": "b", "n": "b", "sink": "b"},
    )
    found = RateModel(1e6).answer(far, [far.plan])
    send_s = sizes * 8e-7
    waited_s = rates_per_s @ send_s**2 / 2.0 / (1.0 - rates_per_s @ send_s)
    for name, each_s in zip("mn", send_s, strict=True):
        assert found.channel_s[0, found.operators.index(name)] == pytest.approx(3e-3 + each_s + waited_s, rel=1e-3)
