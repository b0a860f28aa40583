"""Simulator against closed-form queueing laws. Tolerances are standard errors, not percentages."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.validity import oracles
from tests.twin.worlds import HOST, chain, dealt, joined, latencies_s, queue, simulated
from twin.deployment import Deployment
from twin.metrics import by_operator
from twin.profiles import STORM
from twin.rates.model import RateModel
from twin.spec import parse


def waits_s(load: float, scv: float, seeds: int, records: int, rate_per_s: float = 1000.0) -> np.ndarray:
    """Mean wait of independent runs, in seconds; the warm-up is a tenth of the run. [seeds]"""
    horizon_s = records / rate_per_s
    times = {"horizon_s": horizon_s, "warmup_s": horizon_s / 10, "period_s": horizon_s / 10}
    return latencies_s(queue(rate_per_s, load, scv), seeds, **times) - load / rate_per_s


def pollaczek_khinchine_s(load: float, scv: float, rate_per_s: float = 1000.0) -> float:
    """Mean wait in M/G/1."""
    return load / rate_per_s * load * (1 + scv) / 2 / (1 - load)


@pytest.mark.parametrize("scv", [0.0, 1.0, 4.0])
@pytest.mark.parametrize("load", [0.5, 0.8])
def test_wait_is_that_of_m_g_1(load: float, scv: float) -> None:
    means = waits_s(load, scv, seeds=12, records=4_000)
    error = means.std(ddof=1) / np.sqrt(len(means))
    assert abs(means.mean() - pollaczek_khinchine_s(load, scv)) < 4 * error


def test_tandem_of_exponential_queues_is_jacksons() -> None:
    """The sojourns of two M/M/1 in a row add up, as departures are Poisson. Markers wait as records do, unserved."""
    loads = (0.5, 0.8)
    middle = [
        {"kind": "filter", "name": f"q{k}", "selectivity": 1, "service_time_s": load / 1000, "service_scv": 1}
        for k, load in enumerate(loads)
    ]
    seeds, horizon_s = 20, 5
    means = []
    for seed in range(seeds):
        run = simulated(
            chain(middle, 1000), horizon_s=horizon_s, warmup_s=horizon_s / 10, period_s=horizon_s / 10, seed=seed
        )
        ages = by_operator(run.markers)
        assert ages["sink"] == pytest.approx(ages["q1"], abs=1e-9), "nothing takes time between them"
        means.append((run.metrics.processing_latency_s.mean, ages["q0"], ages["q1"]))
    sojourns = [load / 1000 / (1 - load) for load in loads]
    waits = [load * sojourn for load, sojourn in zip(loads, sojourns, strict=True)]
    expected = np.array([sum(sojourns), waits[0], sum(waits)])
    error = np.std(means, ddof=1, axis=0) / np.sqrt(seeds)
    assert (np.abs(np.mean(means, axis=0) - expected) < 4 * error).all()


def test_saturated_throughput_is_the_bottlenecks_rate() -> None:
    """Of 2,000/s an operator that can do 1,000/s passes half; the other half piles up in the broker."""
    middle = [{"kind": "filter", "name": "slow", "selectivity": 1, "service_time_s": 1e-3, "service_scv": 1}]
    run = simulated(chain(middle, 2000), horizon_s=20, period_s=5, warmup_s=5)
    assert run.metrics.throughput_per_s == pytest.approx(1000, rel=0.03)
    assert run.metrics.backpressure_per_s == pytest.approx(1000, rel=0.06)
    assert run.metrics.backpressured
    source = run.operators[0]
    assert source.backpressured > 0.9  # a source that costs nothing waits for its consumer
    # channels of 1,024 records before the slow operator, at 1,000/s
    assert run.metrics.processing_latency_s.p50 == pytest.approx(1.024, rel=0.12)
    assert run.metrics.e2e_latency_s.mean > 3 * run.metrics.processing_latency_s.mean


def test_littles_law() -> None:
    """The mean number in the queue (by sampled queue length) is the rate times the mean wait."""
    run = simulated(queue(1000, 0.9, 1.0), horizon_s=60, period_s=0.06, seed=5)
    lengths = [row["queueLength"] for row in run.operator_rows if row["operator"] == "queue"]
    wait_s = run.metrics.processing_latency_s.mean - 0.9e-3
    assert np.mean(lengths) == pytest.approx(1000 * wait_s, rel=0.1)


# several tasks, several streams --------------------------------------------------------------------------------------


def sojourns_s(job: Deployment, horizon_s: float, seeds: int) -> tuple[float, float]:
    """Mean processing latency over the seeds, and its standard error."""
    means = latencies_s(job, seeds, horizon_s=horizon_s, warmup_s=horizon_s / 5, period_s=horizon_s / 10)
    return float(np.mean(means)), float(np.std(means, ddof=1) / np.sqrt(seeds))


@pytest.mark.parametrize("rates", [(300.0, 300.0), (500.0, 100.0), (250.0, 200.0, 150.0)])
def test_poisson_streams_that_meet_wait_as_one(rates: tuple[float, ...]) -> None:
    """Poisson streams that meet wait as one M/M/1 (superposition)."""
    load, names = 0.7, [f"s{k}" for k in range(len(rates))]
    server = {"kind": "map", "name": "m", "service_time_s": load / sum(rates), "service_scv": 1}
    found_s, error_s = sojourns_s(joined(server, dict(zip(names, rates, strict=True))), 15.0, 12)
    assert abs(found_s - load / sum(rates) / (1 - load)) < 4 * error_s


@pytest.mark.parametrize("subtasks", [2, 3])
def test_evenly_spaced_records_wait_alike_whoever_reads_them(subtasks: int) -> None:
    """Evenly spaced records are D/M/1, however many subtasks read; so they are to the rate model."""
    law = {"law": "constant", "rate_per_s": 1000}
    jobs = [queue(1000, 0.9, 1.0, placement={"source": {"h": count}}) for count in (1, subtasks)]
    jobs = [parse(Deployment, each.model_dump() | {"workload": {"arrivals": {"source": law}}}) for each in jobs]
    one, several = (latencies_s(each, 2, horizon_s=5.0, warmup_s=1.0, period_s=1.0) for each in jobs)
    assert several == pytest.approx(one, rel=1e-6)
    said_s = [RateModel(1e5).answer(each, [each.plan]).line_s[0, 1] for each in jobs]
    assert said_s[0] == pytest.approx(said_s[1])


@pytest.mark.parametrize("parallelism", [(2, 2), (4, 3), (3, 6)])
def test_keys_that_come_at_random_wait_as_in_jacksons_network(parallelism: tuple[int, int]) -> None:
    """Subtasks that get random shares of Poisson streams are M/M/1 queues, stage after stage."""
    load, rate = 0.7, 1000.0
    middle = [
        {"kind": "map", "name": f"q{k}", "service_time_s": load * count / rate, "service_scv": 1}
        for k, count in enumerate(parallelism)
    ]
    hosts = [{**HOST, "cpu_percent": 6400}]
    job = chain(middle, rate, hosts=hosts, placement={f"q{k}": {"h": count} for k, count in enumerate(parallelism)})
    found_s, error_s = sojourns_s(dealt(job, q0="hash", q1="hash"), 10.0, 12)
    assert abs(found_s - sum(load * count / rate / (1 - load) for count in parallelism)) < 4 * error_s


@pytest.mark.parametrize("load", [0.6, 0.9])
def test_who_asks_for_nothing_is_in_nobodys_way(load: float) -> None:
    """M/M/4 on four cores stays so with a source and a sink that cost nothing beside it."""
    servers, rate = 4, 500.0
    service_s = servers * load / rate
    server = {"kind": "filter", "name": "queue", "selectivity": 1, "service_time_s": service_s, "service_scv": 1}
    hosts = [{**HOST, "cpu_percent": 100 * servers}]
    job = chain([server], rate, hosts=hosts, placement={"queue": {"h": servers}})
    found_s, error_s = sojourns_s(dealt(job, queue="shared"), 15.0, 12)
    assert abs(found_s - oracles.wait_m_m_c(servers, load, service_s) - service_s) < 4 * error_s


@pytest.mark.parametrize(("made", "load", "scv"), [(10, 0.3, 1.0), (4, 0.6, 1.0), (20, 0.6, 0.0)])
def test_what_comes_together_waits_for_each_other(made: int, load: float, scv: float) -> None:
    """In M^[b]/G/1 a group waits as one customer, and in it each record for its turn (Kleinrock, vol. 1, 4.6)."""
    service_s = 2e-3
    middle = [
        {"kind": "map", "name": "split", "selectivity": made, "service_time_s": 0},
        {"kind": "map", "name": "queue", "service_time_s": service_s, "service_scv": scv},
    ]
    found_s, error_s = sojourns_s(chain(middle, load / made / service_s), 40.0, 12)
    expected_s = service_s * (1 + (load * (1 + scv) + made - 1) / 2 / (1 - load))
    assert abs(found_s - expected_s) < 4 * error_s


@pytest.mark.parametrize("loads", [(0.6, 0.3), (0.2, 0.7)])
def test_unequal_tasks_on_a_core_are_as_busy_as_a_markov_chain_says(loads: tuple[float, float]) -> None:
    """Two operators in a row with exponential services, alone on one core, share its time as in a Markov chain."""
    rate = 200.0
    middle = [
        {"kind": "map", "name": f"q{k}", "service_time_s": load / rate, "service_scv": 1}
        for k, load in enumerate(loads)
    ]
    ideal = {**HOST, "latency_ms": 0, "bandwidth_mbps": 1e9}
    hosts = [ideal, {**ideal, "name": "small", "cpu_percent": 100}]
    engine = STORM.model_copy(update={"serialise_ns_per_byte": 0.0, "deserialise_ns_per_byte": 0.0})
    job = chain(middle, rate, hosts=hosts, placement={"q0": "small", "q1": "small"}, engine=engine.model_dump())
    found = []
    for seed in range(12):
        run = simulated(job, horizon_s=30, warmup_s=6, period_s=3, seed=seed)
        found.append([each.busy for each in run.operators if each.operator in ("q0", "q1")])
    expected = oracles.shared_core(rate, (rate / loads[0], rate / loads[1]))[1:]
    error = np.std(found, axis=0, ddof=1) / np.sqrt(len(found))
    assert (np.abs(np.mean(found, axis=0) - expected) < 4 * error).all()


def test_an_evaluation_may_end_after_the_run() -> None:
    """Work is booked as it begins, and may lie beyond the end: work <= capacity * time, checked inside, holds."""
    window = {"policy": "time", "size_s": 2, "slide_s": 1}
    count = {"kind": "aggregate", "name": "a", "window": window, "group_by": "int", "groups": 100_000}
    engine = STORM.model_copy(update={"name": "evaluated slowly", "result_us": 1e5})
    for cpu_percent in (100, 400):
        hosts = [{**HOST, "cpu_percent": cpu_percent}]
        job = chain([count], {"law": "constant", "rate_per_s": 1000}, hosts=hosts, engine=engine.model_dump())
        run = simulated(job, horizon_s=1.4, period_s=0.1)
        assert run.host_rows[-1]["cpuUtilisation"] > 0.2
