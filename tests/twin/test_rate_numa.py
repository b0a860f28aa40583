"""Rate model on hosts with sockets: distances, clocks, limits of memory, and comparison with runs."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from tests.optimizers import numa_jobs
from tests.twin.test_numa import FREE, NARROW, on_server, work
from tests.twin.worlds import HOST, chain, deployment, sink, source
from twin.cluster import Cluster, server_a, server_b
from twin.deployment import Deployment
from twin.plan import ExecutionPlan
from twin.profiles import BRISK
from twin.rates.model import RateAnswer, RateModel
from twin.rates.numa_rates import NumaJob, sustained
from twin.scenario import RunSettings, Scenario
from twin.simulation import simulate

HORIZON_S = 8.0
SOCKETS = 8
WORD_COUNT = (
    source("spout", service_time_s=0.5e-6, record_bytes=80),
    work("parser", service_time_s=0.4e-6, record_bytes=80),
    work("splitter", service_time_s=1.6128e-6, record_bytes=32, selectivity=10),
    work("counter", service_time_s=0.6123e-6, record_bytes=32),
    sink(service_time_s=0.1e-6),
)
LOADS = np.array([1.0, 1.0, 3.0, 11.0, 2.0])
"""Relative loads of word count's operators: subtasks are drawn in about these proportions."""


def answer(job: Deployment, counts: np.ndarray | None = None, horizon_s: float = HORIZON_S) -> RateAnswer:
    """Answer for the job's own plan, or for plans as counts."""
    model = RateModel(horizon_s)
    return model.answer(job, [job.plan]) if counts is None else model.answer_counts(job, counts)


def results_per_s(found: RateAnswer) -> float:
    return float(found.in_per_s[0, -1])


def word_count(cluster: Cluster, rate_per_s: float = 5e7, **more: Any) -> Deployment:
    names = [each["name"] for each in WORD_COUNT]
    hosts = [cluster.hosts[0].model_dump(mode="json")]
    place = dict.fromkeys(names, hosts[0]["name"])
    law = {"law": "constant", "rate_per_s": rate_per_s}
    return deployment(
        list(WORD_COUNT), list(pairwise(names)), {"spout": law}, hosts, place, **{"engine": "brisk"} | more
    )


def spread(rng: np.random.Generator, cores: int) -> np.ndarray:
    """Random plan for word count: no more subtasks than cores, on one to all sockets. [operators, sockets]"""
    total = rng.uniform(30, 0.8 * SOCKETS * cores)
    parallelism = np.maximum(1, np.round(LOADS / LOADS.sum() * total * rng.uniform(0.6, 1.4, len(LOADS)))).astype(int)
    counts, free = np.zeros((len(LOADS), SOCKETS), int), np.full(SOCKETS, cores)
    for row, count in enumerate(parallelism):
        preferred = rng.permutation(SOCKETS)[: rng.integers(1, SOCKETS + 1)]
        for _ in range(count):
            room = preferred[free[preferred] > 0]
            socket = rng.choice(room if len(room) else np.flatnonzero(free))
            counts[row, socket] += 1
            free[socket] -= 1
    return counts


def as_plan(job: Deployment, counts: np.ndarray) -> ExecutionPlan:
    host = job.cluster.hosts[0].name
    rows = zip(job.query.topological, counts.tolist(), strict=True)
    return ExecutionPlan(
        placement={each.name: {f"{host}/{j}": n for j, n in enumerate(row) if n} for each, row in rows}  # type: ignore[dict-item]
    )


# distance -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("server", [server_a, server_b])
def test_one_busy_operator_takes_its_service_and_the_fetch_between_any_two_sockets(server: Any) -> None:
    """A busy operator takes 1 / (Te + Tf) (BriskStream, section 3.1); 100 records of 205 bytes are 321 lines."""
    cluster = server()
    host = cluster.hosts[0]
    here = dict.fromkeys(("source", "work", "sink"), host.name)
    job = on_server(cluster, work(service_time_s=1.6e-6), 1e7, 205, placement=here)
    pairs = [(i, j) for i in range(SOCKETS) for j in range(SOCKETS)]
    counts = np.zeros((len(pairs), 3, SOCKETS))
    for row, (i, j) in enumerate(pairs):
        counts[row, 0, i] = counts[row, 1:, j] = 1
    found = answer(job, counts)
    times_s = [1.6e-6 / host.core_speed(j) + 3.21e-9 * host.numa.latency_ns[i][j] for i, j in pairs]
    assert found.in_per_s[:, -1] == pytest.approx(1 / np.array(times_s), rel=1e-6)
    assert found.service_s[:, 1] * 1e9 == pytest.approx(np.array(times_s) * host.core_speed(0) * 1e9, rel=1e-6)


def test_the_way_back_may_take_longer_and_local_memory_is_no_way() -> None:
    """In a measured matrix [i][j] is memory i read by socket j, so ways differ by direction; the diagonal is local."""
    took_s = {}
    for start, end in (("server", "server/1"), ("server/1", "server"), ("server", "server")):
        places = {"source": start, "work": end, "sink": end}
        measured = {"numa": {"latency_ns": [[9e5, 1e6], [3e6, 9e5]]}}
        job = on_server(server_a(2), work(service_time_s=1e-3), 5000, 64, placement=places, host=measured)
        scenario = Scenario.of(job, RunSettings(horizon_s=20, period_s=1, warmup_s=2))
        run_per_s = simulate(scenario).metrics.throughput_per_s
        rates_per_s = RateModel().predict(scenario, [scenario.plan])["throughput_per_s"][0]
        assert run_per_s == pytest.approx(rates_per_s, rel=0.03)
        took_s[start, end] = 1 / rates_per_s
    assert list(took_s.values()) == pytest.approx([2e-3, 4e-3, 1e-3], rel=0.02)


def test_the_farthest_subtask_bounds_all_as_records_are_dealt_evenly() -> None:
    """The farthest of four subtasks bounds all: it takes as many records as the others, which wait for it."""
    here = {"source": "server", "work": {"server": 3, "server/7": 1}, "sink": "server"}
    found = answer(on_server(server_a(), work(service_time_s=1.6e-6), 1e7, 80, placement=here))
    far_s = 1.6e-6 + 80 / 64 * 479e-9
    assert results_per_s(found) == pytest.approx(4 / far_s, rel=1e-6)
    assert found.busy_cores[0, 1] == pytest.approx((3 * 1.6e-6 / far_s + 1) / 4, rel=1e-6), "the near ones are idle"


def test_a_record_of_an_idle_job_takes_its_service_and_the_mean_fetch() -> None:
    job = word_count(server_b(), rate_per_s=10)
    counts = np.zeros((1, 5, SOCKETS))
    counts[0, :3, 0] = 1
    counts[0, 3] = (2, 1, 0, 0, 0, 0, 0, 1)
    counts[0, 4, 0] = 1
    numa, speed = server_b().hosts[0].numa, 2.27 / 1.2
    there_s = (numa.latency_ns[0][1] + numa.latency_ns[0][7]) / 4 * 0.5e-9
    back_s = (numa.latency_ns[1][0] + numa.latency_ns[7][0]) / 4 * 0.5e-9
    found = answer(job, counts)
    own_s = np.array([0.5, 0.4, 1.6128, 0.6123, 0.1]) * 1e-6 / speed
    assert found.queue_s[0] * 1e9 == pytest.approx((own_s + np.array([0, 0, 0, there_s, back_s])) * 1e9, rel=1e-3)


def test_sockets_that_are_alike_can_change_places() -> None:
    """Equal sockets can change places: pairs, their ends and trays of Server B, and halves of Server A's trays."""
    rng = np.random.default_rng(4)
    for server, order in (
        (server_b, [2, 3, 0, 1, 4, 5, 7, 6]),
        (server_b, [4, 5, 6, 7, 0, 1, 2, 3]),
        (server_a, [4, 5, 6, 7, 0, 1, 2, 3]),
        (server_a, [1, 0, 3, 2, 5, 4, 7, 6]),
    ):
        cluster = server()
        numa = cluster.hosts[0].numa
        latency = np.array(numa.latency_ns)
        assert (latency[np.ix_(order, order)] == latency).all()
        counts = np.stack([spread(rng, 8) for _ in range(10)])
        here, there = (answer(word_count(cluster), each) for each in (counts, counts[:, :, order]))
        for field in ("in_per_s", "pressure", "age_s", "busy_cores", "service_s"):
            assert getattr(there, field) == pytest.approx(getattr(here, field), rel=1e-6), field


def test_sockets_without_distances_and_limits_are_one_machine_each() -> None:
    """Zero distances, limits out of reach and clocks of a reference core change no rate."""
    plain = HOST | {"sockets": [{"cores": 4}] * 4}
    numa = {"latency_ns": np.zeros((4, 4)).tolist(), "bandwidth_gbps": np.full((4, 4), 1e5).tolist()}
    told = plain | {"sockets": [{"cores": 4, "clock_ghz": 2, "bandwidth_gbps": 1e5}] * 4, "numa": numa}
    counts = np.random.default_rng(1).integers(0, 4, (20, 3, 4))
    counts[:, :, 0] += counts.sum(axis=2) == 0
    jobs = [chain([work(service_time_s=1e-3)], 9000, hosts=[each], engine="brisk") for each in (plain, told)]
    first, second = (answer(job, counts) for job in jobs)
    for field in ("offered_pressure", "in_per_s", "pressure", "busy_cores", "speed", "cpu"):
        assert getattr(second, field) == pytest.approx(getattr(first, field), rel=1e-6, abs=1e-6), field


# bandwidth ----------------------------------------------------------------------------------------------------------


def compare(job: Deployment) -> None:
    """Checks rates and work of every operator, and what is blocked, against a run."""
    found = answer(job)
    run = simulate(Scenario.of(job, RunSettings(horizon_s=HORIZON_S, period_s=1, warmup_s=4)))
    totals = {each.operator: each for each in run.operators}
    seen = [totals[name] for name in found.operators]
    assert found.in_per_s[0] == pytest.approx([each.rate_in_per_s for each in seen], rel=0.02)
    assert found.busy_cores[0] == pytest.approx([each.busy for each in seen], abs=0.02)
    blocked = [
        any(found.blocked[0, found.operators.index(c)] for c in (each.consumer for each in job.query.outputs(n)))
        for n in totals
    ]
    assert [totals[name].backpressured > 0.5 for name in totals] == blocked


@pytest.mark.parametrize("modest", [1000, 8000])
def test_who_shares_a_limit_is_slowed_only_if_it_has_no_time_left(modest: float) -> None:
    """Of two operators that wait for memory, one with time left is busier but goes on, until it wants too much."""
    job = deployment(
        [
            source("a"),
            source("b"),
            work("first", service_time_s=5e-5, memory_bytes=1000),
            work("second", service_time_s=5e-5, memory_bytes=1000),
            sink("c"),
            sink("d"),
        ],
        [("a", "first"), ("b", "second"), ("first", "c"), ("second", "d")],
        {name: {"law": "constant", "rate_per_s": rate} for name, rate in (("a", 15_000), ("b", modest))},
        hosts=[NARROW],
        placement={"first": {"h/0": 3}},
        engine=FREE,
    )
    compare(job)


def test_of_a_chain_that_shares_a_limit_the_busiest_is_the_bottleneck() -> None:
    middle = [
        work("first", service_time_s=5e-5, memory_bytes=600),
        work("second", service_time_s=8e-5, memory_bytes=400),
    ]
    here = {"source": "h/1", "first": {"h/0": 3}, "second": {"h/0": 3}, "sink": "h/1"}
    compare(chain(middle, 20_000, hosts=[NARROW], placement=here, engine=FREE | {"channel_records": 500}))


@pytest.mark.parametrize("scarce", [1.0, 1e-3, 1e-5])
def test_of_one_source_it_ingests_the_sustained_load(scarce: float) -> None:
    """Two models agree for one source, whose load all others follow. scarce: factor on all bandwidths."""
    host = server_b().hosts[0].model_dump(mode="json")
    for each in host["sockets"]:
        each["bandwidth_gbps"] *= scarce
    host["numa"]["bandwidth_gbps"] = (np.array(host["numa"]["bandwidth_gbps"]) * scarce).tolist()
    middle = [work("left", selectivity=3), work("right", memory_bytes=300), work("both", selectivity=0.5)]
    ends = [("in", "left"), ("in", "right"), ("left", "both"), ("right", "both"), ("both", "out"), ("left", "out")]
    operators = [source("in", service_time_s=1e-6, record_bytes=90), *middle, sink("out", service_time_s=1e-7)]
    here = dict.fromkeys((each["name"] for each in operators), host["name"])
    job = deployment(operators, ends, {"in": 3e6}, [host], here, "brisk")
    rng = np.random.default_rng(8)
    counts = rng.integers(1, 9, (200, 5, SOCKETS)) * (rng.random((200, 5, SOCKETS)) < rng.uniform(0.1, 1, (200, 1, 1)))
    counts[:, :, 0] += counts.sum(axis=2) == 0
    expected = np.minimum(sustained(NumaJob(job), counts).load_n, 1)
    assert (expected < 1).mean() > 0.2
    found = answer(job, counts).ingested[:, 0]
    same = np.isclose(found, expected, rtol=1e-5)
    # where tasks outnumber cores, some of these are idle while few tasks are busy: only the rate model sees that
    outnumbered = (counts.sum(axis=1) > NumaJob(job).cores_l).any(axis=1)
    assert same[~outnumbered].all()
    assert (found <= expected * (1 + 1e-5)).all()
    assert same.mean() > 0.95


# a word count -------------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize(("server", "cores", "plans"), [(server_a, 18, 1), (server_b, 8, 2)])
def test_a_word_count_spread_at_random_runs_as_told(server: Any, cores: int, plans: int) -> None:
    rng, job = np.random.default_rng(0), word_count(server())
    for _ in range(plans):
        placed = job.with_plan(as_plan(job, spread(rng, cores)))
        settings = RunSettings(horizon_s=0.12, period_s=0.03, warmup_s=0.06)
        run = simulate(Scenario.of(placed, settings))
        assert results_per_s(answer(placed)) == pytest.approx(run.metrics.throughput_per_s, rel=0.06)


def test_distances_count_by_the_lines_of_a_batch() -> None:
    """Distances count by lines: one record at a time fills half a line; a hundred share them."""
    counts = np.zeros((1, 5, SOCKETS))
    counts[0, :, 0], counts[0, 3] = (9, 9, 9, 0, 9), (0, 0, 0, 0, 0, 0, 0, 9)
    alone = BRISK.model_dump(mode="json") | {"name": "alone", "batch_records": 1}
    times_ns = [1e9 * answer(word_count(server_a(), engine=each), counts).service_s[0, 3] for each in ("brisk", alone)]
    assert times_ns == pytest.approx([612.3 + 479 / 2, 612.3 + 479])


@pytest.mark.parametrize("sink_on", ["h", "h/1"])
def test_an_overloaded_job_that_waits_for_memory_runs_as_told(sink_on: str) -> None:
    """Memory limits a job from its first moment on, however much its cores could do until channels are full."""
    limits = {"socket": {"bandwidth_gbps": 0.05}}
    near = [[0.0, 100.0], [100.0, 0.0]]
    job = numa_jobs.deployment([1.0, 0.5, 1.0], [(0, 1), (1, 2)], [1, 1], near, gains=[1, 0.5, 1], limits=limits)
    placed = job.with_plan(ExecutionPlan(placement={"op0": ("h",), "op1": ("h",), "op2": (sink_on,)}))
    run = simulate(Scenario.of(placed, RunSettings(horizon_s=1.0, period_s=0.25, warmup_s=0.25)))
    told = RateModel(1.0, warmup_s=0.25).predict(Scenario.of(placed), [placed.plan])["throughput_per_s"][0]
    assert told == pytest.approx(run.metrics.throughput_per_s, rel=0.01)
