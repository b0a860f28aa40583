"""Where streams meet: the workload of overlapping segments against fluids that are served in the order of arrival."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.twin.worlds import HOST, chain, deployment, sink, source
from twin.deployment import Deployment
from twin.engine.streams.confluence import Confluence, Lane, round_of
from twin.scenario import RunSettings, Scenario
from twin.simulation import simulate

Piece = tuple[float, float, float]
"""From when to when tuples come, and their work."""


def workload_at(pieces: list[Piece], at_s: float) -> float:
    """What is unfinished then of all that came before, by definition: the most work in (s, t] beyond t - s."""
    times = sorted({0.0, at_s, *(t for low, high, _ in pieces for t in (low, high) if t <= at_s)})

    def came(until_s: float, burst: bool) -> float:
        total = 0.0
        for low, high, work in pieces:
            if low == high:
                total += work if (low < until_s or (burst and low == until_s)) else 0.0
            else:
                total += work * min(1.0, max(0.0, (until_s - low) / (high - low)))
        return total

    net = came(at_s, True) - at_s
    return max(0.0, max(net - (came(t, False) - t) for t in times))


@st.composite
def streams(draw: st.DrawFn) -> list[Piece]:
    """Contiguous segments of two or three streams, some of them bursts, in the order of their ends."""
    pieces = []
    for _ in range(draw(st.integers(2, 3))):
        now_s = 0.0
        for _ in range(draw(st.integers(3, 12))):
            span_s = draw(st.floats(0.05, 2.0))
            work_s = span_s * draw(st.floats(0.0, 1.2))
            burst = draw(st.booleans())
            pieces.append((now_s + span_s if burst else now_s, now_s + span_s, work_s))
            now_s += span_s
    return sorted(pieces, key=lambda piece: piece[1])


@settings(max_examples=200, deadline=None)
@given(streams())
def test_the_workload_is_that_of_fluids_in_the_order_of_arrival(pieces: list[Piece]) -> None:
    confluence = Confluence()
    confluence.add(0.0, 6.0, 0.0, 0.0)  # so long a segment came lately: all that follows is known in time
    shifted = [(low + 6.0, high + 6.0, work) for low, high, work in pieces]
    for count, (low, high, work) in enumerate(shifted, 1):
        confluence.add(low, high, work, 0.0)
        at_s, behind_s = confluence.known
        assert behind_s == pytest.approx(workload_at(shifted[:count], at_s), abs=1e-9)


def test_work_that_comes_while_the_task_cannot_work_waits_for_it() -> None:
    confluence = Confluence()
    confluence.add(0.0, 1.0, 0.5, 0.5)
    confluence.unable(3.0)
    confluence.add(1.0, 2.0, 0.5, 0.5)
    assert confluence.clock_s == pytest.approx(1.5)  # at 2 s: free at 3 s, then its own half second


@pytest.mark.parametrize(("producers", "consumers"), [(2, 2), (2, 3), (4, 2), (3, 5), (80, 80), (6, 4), (1, 7)])
def test_a_round_is_a_whole_number_of_segments_of_each_producer(producers: int, consumers: int) -> None:
    """So work that is spread over a round comes evenly, whatever the phases of the producers are."""
    dealt = producers * math.ceil(consumers / producers)
    least = 1 if producers == 1 else dealt // math.gcd(dealt, consumers)
    assert round_of(producers, consumers) % least == 0 or round_of(producers, consumers) >= least


def test_a_lane_with_one_producer_spreads_nothing() -> None:
    lane = Lane(1)
    assert [lane.width_s(k, k + 1.0) for k in range(5)] == [1.0] * 5


def test_bursts_that_wait_to_be_flushed_come_when_their_producers_flush() -> None:
    lane = Lane(4)
    lane.batch, lane.flush_s = 100, 0.1
    assert lane.burst_s(20, 0.001) == 0.1  # each producer flushes at a time of its own
    assert lane.burst_s(100, 0.001) == 0.001  # a full batch waits for nobody
    assert Lane(1).burst_s(20, 0.001) == 0.001


# whole runs against theory -------------------------------------------------------------------------------------------


def union(rates: tuple[float, ...], load: float) -> Deployment:
    """Sources of those rates into one exponential server of that load."""
    names = [f"s{k}" for k in range(len(rates))]
    server = {"kind": "map", "name": "m", "service_time_s": load / sum(rates), "service_scv": 1}
    return deployment(
        [*(source(name) for name in names), server, sink()],
        [*((name, "m") for name in names), ("m", "sink")],
        dict(zip(names, rates, strict=True)),
    )


def mean_latency_s(job: Deployment, horizon_s: float, seeds: int) -> tuple[float, float]:
    """Of fast runs: mean over the seeds and its standard error."""
    means = []
    for seed in range(seeds):
        run = simulate(
            Scenario.of(
                job, RunSettings(horizon_s=horizon_s, warmup_s=horizon_s / 5, period_s=horizon_s / 10, seed=seed)
            )
        )
        assert run.metrics.processing_latency_s is not None
        means.append(run.metrics.processing_latency_s.mean)
    return float(np.mean(means)), float(np.std(means, ddof=1) / np.sqrt(seeds))


@pytest.mark.parametrize("load", [0.1, 0.6, 0.9])
@pytest.mark.parametrize("rates", [(875.0, 875.0), (1500.0, 250.0), (800.0, 500.0, 450.0)])
def test_poisson_streams_that_meet_wait_as_one(rates: tuple[float, ...], load: float) -> None:
    """Superposition: M/M/1, within the 7 % to which fast runs are held, and the noise."""
    mean_s, error_s = mean_latency_s(union(rates, load), 60.0, 4)
    expected_s = load / sum(rates) / (1 - load)
    assert abs(mean_s - expected_s) < 0.07 * expected_s + 2 * error_s


@pytest.mark.slow
@pytest.mark.parametrize("replicas", [(2, 2), (4, 4), (4, 2), (2, 3), (8, 16)])
def test_keys_that_come_at_random_wait_as_in_jacksons_network(replicas: tuple[int, int]) -> None:
    """Replicas that get random shares of Poisson streams are M/M/1 queues, stage after stage."""
    load, rate = 0.7, 4000.0
    middle = [
        {"kind": "map", "name": f"q{k}", "service_time_s": load * count / rate, "service_scv": 1}
        for k, count in enumerate(replicas)
    ]
    hosts = [{**HOST, "cpu_percent": 6400}]
    job = chain(middle, rate, hosts=hosts, placement={f"q{k}": {"h": count} for k, count in enumerate(replicas)})
    streams = tuple(
        each.model_copy(update={"partitioning": "hash"}) if each.consumer.startswith("q") else each
        for each in job.query.streams
    )
    job = job.model_copy(update={"query": job.query.model_copy(update={"streams": streams})})
    mean_s, error_s = mean_latency_s(job, 60.0, 4)
    expected_s = sum(load * count / rate / (1 - load) for count in replicas)
    assert abs(mean_s - expected_s) < 0.07 * expected_s + 2 * error_s
