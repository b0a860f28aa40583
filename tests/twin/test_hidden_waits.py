"""What segments hide of waiting: of few tuples, dealt whole by chance or in turn, beside tasks that ask for nothing."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.validity import oracles
from tests.twin.worlds import HOST, chain, queue
from twin.deployment import Deployment
from twin.engine.compute.waiting import walk_wait
from twin.engine.dealing.in_turn import Deal, even_turns
from twin.engine.segment import Segment
from twin.scenario import RunSettings, Scenario
from twin.simulation import simulate

RATE_PER_S = 1000.0


def sojourns_s(job: Deployment, horizon_s: float, seeds: int, segments: int | None = None) -> tuple[float, float]:
    """Mean of fast runs, and its standard error."""
    means = []
    for seed in range(seeds):
        settings = RunSettings(
            horizon_s=horizon_s,
            warmup_s=horizon_s / 10,
            period_s=horizon_s / 10,
            fidelity="fast",
            segments=segments,
            seed=seed,
        )
        latency = simulate(Scenario.of(job, settings)).metrics.processing_latency_s
        assert latency is not None
        means.append(latency.mean)
    return float(np.mean(means)), float(np.std(means, ddof=1) / np.sqrt(seeds))


@pytest.mark.parametrize("few", [3, 8])
@pytest.mark.parametrize(("load", "scv"), [(0.6, 0.0), (0.5, 1.0), (0.6, 4.0)])
def test_segments_of_few_tuples_wait_as_tuples_do(few: int, load: float, scv: float) -> None:
    """M/G/1: were steps of few tuples taken for Gaussian ones, sojourns would be 10 to 20 % too short."""
    segments = 3000
    found, error = sojourns_s(queue(RATE_PER_S, load, scv), segments * few / RATE_PER_S, 3, segments)
    service_s = load / RATE_PER_S
    expected = oracles.wait_m_g_1(load, service_s, scv) + service_s
    assert abs(found - expected) < 0.05 * expected + 2 * error


@pytest.mark.parametrize("skew", [-1.2, 0.0, 1.2])
@pytest.mark.parametrize("drift", [0.2, 0.7])
def test_a_skewed_walk_waits_as_by_brute_force(skew: float, drift: float) -> None:
    rng = np.random.default_rng(1)
    steps = rng.standard_normal(400_000)
    if skew:
        shape = 4.0 / skew**2
        steps = np.sign(skew) * (rng.standard_gamma(shape, 400_000) - shape) / np.sqrt(shape)
    walk = np.cumsum(steps - drift)
    waits = walk - np.minimum.accumulate(np.minimum(walk, 0.0))
    assert walk_wait(drift, skew) == pytest.approx(waits.mean(), rel=0.08)


@pytest.mark.parametrize(("replicas", "load"), [(16, 0.6), (16, 0.9)])
def test_chance_deals_to_many_replicas_make_m_m_1_queues(replicas: int, load: float) -> None:
    """Segments go to some of the replicas each, so how uneven chance is does not show in them, and has to be added."""
    service_s = replicas * load / RATE_PER_S
    server = {"kind": "map", "name": "queue", "service_time_s": service_s, "service_scv": 1}
    job = chain([server], RATE_PER_S, hosts=[{**HOST, "cpu_percent": 20_000}], placement={"queue": {"h": replicas}})
    streams = [each.model_copy(update={"partitioning": "hash"}) for each in job.query.streams[:1]]
    query = job.query.model_copy(update={"streams": (*streams, *job.query.streams[1:])})
    found, error = sojourns_s(job.model_copy(update={"query": query}), 240, 2)
    assert abs(found - service_s / (1 - load)) < 0.07 * service_s / (1 - load) + 2 * error


@given(st.integers(2, 200), st.integers(1, 60))
def test_turns_are_even_where_they_can_be(replicas: int, parts: int) -> None:
    parts = min(parts, replicas)
    found = even_turns(replicas, parts)
    assert parts / 2 <= found <= 2 * parts
    if replicas % found:
        assert found == parts
        assert not [each for each in range(parts, 2 * parts + 1) if replicas % each == 0]


def test_unequal_shares_are_dealt_finely() -> None:
    """Whole segments in turn would come after two segments now and after three then, and 20 % too much would wait."""
    segment = Segment(24, 0.0, 1.0, 0.0, 1.0, 0.0, 1.0)
    assert Deal([0.25] * 4).receivers(segment) == 1
    assert Deal([0.4, 0.3, 0.2, 0.1]).receivers(segment) == 4


@pytest.mark.parametrize("load", [0.6, 0.8, 0.95])
def test_who_asks_for_nothing_is_in_nobodys_way(load: float) -> None:
    """M/M/4 on four cores, where a source and a sink that cost nothing are the fifth and sixth task."""
    servers = 4
    service_s = servers * load / RATE_PER_S
    server = {"kind": "filter", "name": "queue", "selectivity": 1, "service_time_s": service_s, "service_scv": 1}
    hosts = [{**HOST, "cpu_percent": 100 * servers}]
    job = chain([server], RATE_PER_S, hosts=hosts, placement={"queue": {"h": servers}})
    streams = [each.model_copy(update={"partitioning": "shared"}) for each in job.query.streams[:1]]
    query = job.query.model_copy(update={"streams": (*streams, *job.query.streams[1:])})
    found, error = sojourns_s(job.model_copy(update={"query": query}), 120, 3)
    expected = oracles.wait_m_m_c(servers, load, service_s) + service_s
    assert abs(found - expected) < 0.03 * expected + 2 * error


@pytest.mark.parametrize("replicas", [2, 4])
def test_a_stage_that_costs_nothing_and_passes_all_on_changes_no_wait(replicas: int) -> None:
    """Streams of several replicas that were dealt in turn are as even behind it as they were before."""
    each_s = 0.85 * replicas / RATE_PER_S
    places = {"h": replicas}
    free = {"kind": "map", "name": "free", "service_time_s": 0.0}
    busy = {"kind": "map", "name": "busy", "service_time_s": each_s, "service_scv": 0.0}
    hosts = [HOST | {"name": name, "latency_ms": 0} for name in ("h", "ends")]
    found = []
    for middle in ([busy], [free, busy]):
        placed = {"source": places, "sink": "ends"} | {str(operator["name"]): places for operator in middle}
        job = chain(middle, RATE_PER_S, hosts=hosts, placement=placed)
        streams = [
            each.model_copy(update={"partitioning": "forward"}) if each.producer == "free" else each
            for each in job.query.streams
        ]
        query = job.query.model_copy(update={"streams": tuple(streams)})
        found.append(sojourns_s(job.model_copy(update={"query": query}), 60.0, 4))
    (direct_s, error_s), (behind_s, other_s) = found
    assert abs(behind_s - direct_s) < 0.05 * direct_s + 2 * (error_s + other_s)
