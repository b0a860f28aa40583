"""The simulator against closed-form queueing laws. Tolerances are standard errors, not percentages, where exact."""

from __future__ import annotations

import numpy as np
import pytest

from tests.twin.worlds import HOST, chain, queue
from twin.engine.compute.waiting import departure_gap_scv, tuple_wait_s, walk_wait
from twin.markers import by_operator
from twin.scenario import RunSettings, Scenario
from twin.simulation import simulate


def waits_s(load: float, scv: float, fidelity: str, seeds: int, tuples: int, rate_per_s: float = 1000.0) -> np.ndarray:
    """Mean wait of independent runs [seeds], in seconds; the warm-up is a tenth of the run."""
    job = queue(rate_per_s, load, scv)
    horizon_s = tuples / rate_per_s
    means = []
    for seed in range(seeds):
        settings = RunSettings(
            horizon_s=horizon_s, warmup_s=horizon_s / 10, period_s=horizon_s / 10, fidelity=fidelity, seed=seed
        )
        latency = simulate(Scenario.of(job, settings)).metrics.processing_latency_s
        assert latency is not None
        means.append(latency.mean - load / rate_per_s)
    return np.array(means)


def pollaczek_khinchine_s(load: float, scv: float, rate_per_s: float = 1000.0) -> float:
    """Mean wait in M/G/1."""
    return load / rate_per_s * load * (1 + scv) / 2 / (1 - load)


@pytest.mark.parametrize("scv", [0.0, 1.0, 4.0])
@pytest.mark.parametrize("load", [0.5, 0.8])
def test_exact_wait_is_that_of_m_g_1(load: float, scv: float) -> None:
    means = waits_s(load, scv, "exact", seeds=12, tuples=4_000)
    error = means.std(ddof=1) / np.sqrt(len(means))
    assert abs(means.mean() - pollaczek_khinchine_s(load, scv)) < 4 * error


@pytest.mark.slow
@pytest.mark.parametrize("scv", [0.0, 0.25, 1.0])
@pytest.mark.parametrize("load", [0.5, 0.8, 0.95])
def test_fast_wait_is_within_7_percent_of_m_g_1(load: float, scv: float) -> None:
    """Segments of 80 tuples: without the hidden wait, the mean at load 0.5 would be nearly zero."""
    means = waits_s(load, scv, "fast", seeds=6, tuples=240_000)
    error = means.std(ddof=1) / np.sqrt(len(means))
    expected = pollaczek_khinchine_s(load, scv)
    assert abs(means.mean() - expected) < 0.07 * expected + 2 * error


@pytest.mark.parametrize("fidelity", ["exact", "fast"])
def test_tandem_of_exponential_queues_is_jacksons(fidelity: str) -> None:
    """Two M/M/1 in a row: the sojourns add up, because departures are Poisson. Markers wait as tuples do, unserved."""
    loads = (0.5, 0.8)
    middle = [
        {"kind": "filter", "name": f"q{k}", "selectivity": 1, "service_time_s": load / 1000, "service_scv": 1}
        for k, load in enumerate(loads)
    ]
    seeds, horizon_s = (20, 5) if fidelity == "exact" else (12, 60)
    means = []
    for seed in range(seeds):
        settings = RunSettings(
            horizon_s=horizon_s, warmup_s=horizon_s / 10, period_s=horizon_s / 10, fidelity=fidelity, seed=seed
        )
        run = simulate(Scenario.of(chain(middle, 1000), settings))
        assert run.metrics.processing_latency_s is not None
        ages = by_operator(run.markers)
        assert ages["sink"] == pytest.approx(ages["q1"], abs=1e-9), "nothing takes time between them"
        means.append((run.metrics.processing_latency_s.mean, ages["q0"], ages["q1"]))
    sojourns = [load / 1000 / (1 - load) for load in loads]
    waits = [load * sojourn for load, sojourn in zip(loads, sojourns, strict=True)]
    expected = np.array([sum(sojourns), waits[0], sum(waits)])
    error = np.std(means, ddof=1, axis=0) / np.sqrt(seeds)
    slack = 0.0 if fidelity == "exact" else 0.05 * expected
    assert (np.abs(np.mean(means, axis=0) - expected) < 4 * error + slack).all()


def test_two_tasks_on_one_core_share_it() -> None:
    """Processor sharing of a core between two equal queues in a row: twice the work on one core, load 0.8 in all."""
    middle = [
        {"kind": "filter", "name": f"q{k}", "selectivity": 1, "service_time_s": 4e-4, "service_scv": 1}
        for k in range(2)
    ]
    hosts = [HOST, {**HOST, "name": "small", "cpu_percent": 100, "latency_ms": 0, "bandwidth_mbps": 1e9}]
    job = chain(middle, 1000, hosts=hosts, placement={"q0": "small", "q1": "small"})
    run = simulate(Scenario.of(job, RunSettings(horizon_s=20, fidelity="exact", seed=3)))
    small = next(host for host in run.hosts if host.host == "small")
    assert small.cpu == pytest.approx(0.8, rel=0.03)
    assert run.metrics.processing_latency_s is not None
    alone_s = 2 * 4e-4 / (1 - 0.4)
    assert run.metrics.processing_latency_s.mean > 1.5 * alone_s


@pytest.mark.parametrize("fidelity", ["exact", "fast"])
def test_saturated_throughput_is_the_bottlenecks_rate(fidelity: str) -> None:
    """Offered 2,000/s to an operator that can do 1,000/s: half goes through, half piles up in the broker."""
    middle = [{"kind": "filter", "name": "slow", "selectivity": 1, "service_time_s": 1e-3, "service_scv": 1}]
    run = simulate(
        Scenario.of(chain(middle, 2000), RunSettings(horizon_s=20, period_s=5, warmup_s=5, fidelity=fidelity))
    )
    assert run.metrics.throughput_per_s == pytest.approx(1000, rel=0.03)
    assert run.metrics.backpressure_per_s == pytest.approx(1000, rel=0.06)
    assert run.metrics.backpressured
    source = run.operators[0]
    assert source.backpressured > 0.9  # a source that costs nothing waits for its consumer
    assert run.metrics.processing_latency_s is not None and run.metrics.e2e_latency_s is not None
    # channels of 1,024 tuples before the slow operator, at 1,000/s
    assert run.metrics.processing_latency_s.p50 == pytest.approx(1.024, rel=0.12)
    assert run.metrics.e2e_latency_s.mean > 3 * run.metrics.processing_latency_s.mean


def test_littles_law() -> None:
    """Mean number in the queue (by the sampled queue length) = rate x mean wait."""
    run = simulate(
        Scenario.of(queue(1000, 0.9, 1.0), RunSettings(horizon_s=60, period_s=0.02, fidelity="exact", seed=5))
    )
    lengths = [row["queueLength"] for row in run.operator_rows if row["operator"] == "queue"]
    assert run.metrics.processing_latency_s is not None
    wait_s = run.metrics.processing_latency_s.mean - 0.9e-3
    assert np.mean(lengths) == pytest.approx(1000 * wait_s, rel=0.1)


def test_remote_hop_costs_latency_and_transmission() -> None:
    """One tuple at a time over 1 Mbit/s and 50 ms: latency + size / bandwidth, nothing else."""
    far = {**HOST, "name": "far", "bandwidth_mbps": 1, "latency_ms": 50}
    job = chain([], {"law": "constant", "rate_per_s": 2}, hosts=[HOST, far], placement={"source": "far"})
    run = simulate(Scenario.of(job, RunSettings(horizon_s=20, fidelity="exact")))
    size = job.engine.bytes_of(job.query.columns_out["source"])
    expected_s = 0.05 + size * 8 / 1e6
    serialising_s = size * (job.engine.serialise_ns_per_byte + job.engine.deserialise_ns_per_byte) * 1e-9
    assert run.metrics.processing_latency_s is not None
    assert run.metrics.processing_latency_s.mean == pytest.approx(expected_s + serialising_s, rel=0.02)


def test_bandwidth_limits_throughput() -> None:
    narrow = {**HOST, "name": "narrow", "bandwidth_mbps": 1, "latency_ms": 1}
    job = chain([], 5000, hosts=[HOST, narrow], placement={"source": "narrow"})
    size = job.engine.bytes_of(job.query.columns_out["source"])
    for fidelity in ("exact", "fast"):
        run = simulate(Scenario.of(job, RunSettings(horizon_s=20, warmup_s=5, period_s=5, fidelity=fidelity)))
        assert run.metrics.throughput_per_s == pytest.approx(1e6 / 8 / size, rel=0.03)


def test_residual_parts() -> None:
    assert tuple_wait_s(0.8, 1.0, 1.0, 1.0) == pytest.approx(4.0)  # M/M/1
    assert tuple_wait_s(0.8, 1.0, 0.0, 1.0) == pytest.approx(2.0)  # M/D/1
    assert departure_gap_scv(0.7, 1.0, 1.0) == pytest.approx(1.0)  # Burke
    walk = np.random.default_rng(0).normal(-0.5, 1.0, 400_000)
    level, total = 0.0, 0.0
    for step in walk:
        level = max(0.0, level + step)
        total += level
    assert walk_wait(0.5) == pytest.approx(total / len(walk), rel=0.03)
    assert walk_wait(0.049) == pytest.approx(walk_wait(0.051), rel=0.05)  # where the table meets the asymptote
