"""Calls to outside systems: Little's law, M/G/infinity in order, M/G/c, M/D/1, and that nothing is lost."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from optimizers.registry import OPTIMIZERS
from tests.twin import event_jobs
from tests.twin.changing import HOSTS
from tests.twin.worlds import HOST, chain, deployment, simulated, source
from twin.calls import CHAINS, TURNS, Calls
from twin.deployment import Deployment
from twin.errors import BadInput
from twin.events import AnyEvent, Failure, Migration, RateChange, Scale
from twin.job import compile
from twin.profiles import STORM
from twin.rates.arrays import JobArrays
from twin.rates.model import RateModel
from twin.rates.numa_rates import NumaJob
from twin.rates.queueing import mmc_wait_s
from twin.run import Run
from twin.scenario import RunSettings, Scenario
from twin.simulation import simulate

LATENCY_S = 0.05


def asking(arriving_per_s: float, parallelism: int = 1, **more: Any) -> Deployment:
    """Job source -> ask -> sink; only the answers take time by default."""
    ask = {"kind": "async", "name": "ask", "service_time_s": 0, "latency_s": LATENCY_S} | more
    return chain([ask], arriving_per_s, placement={"ask": {"h": parallelism}})


def writing(arriving_per_s: float, parallelism: int = 1, **more: Any) -> Deployment:
    """Job source -> an external sink."""
    sink = {"kind": "external-sink", "name": "sink", "service_time_s": 0} | more
    return deployment(
        [source(), sink], [("source", "sink")], {"source": arriving_per_s}, placement={"sink": {"h": parallelism}}
    )


def ran(job: Deployment, horizon_s: float, seed: int = 1, events: tuple[AnyEvent, ...] = ()) -> Run:
    return simulated(job, *events, horizon_s=horizon_s, warmup_s=horizon_s / 5, period_s=horizon_s / 20, seed=seed)


def sojourns_s(job: Deployment, horizon_s: float = 6.0, seeds: int = 5) -> tuple[float, float]:
    """Mean processing latency of independent runs, and its standard error."""
    latencies = [ran(job, horizon_s, seed).metrics.processing_latency_s for seed in range(seeds)]
    means = np.array([each.mean for each in latencies if each is not None])
    return float(means.mean()), float(means.std(ddof=1) / math.sqrt(len(means)))


def in_order_s(rate_per_s: float) -> float:
    """Mean of max(W, M) in M/M/infinity, by summing 1 - F(x) exp(-rate E[(W - x)+])."""
    x = np.linspace(0.0, 60.0 * LATENCY_S, 200_001)
    tail = np.exp(-x / LATENCY_S)
    return float(np.trapezoid(1.0 - (1.0 - tail) * np.exp(-rate_per_s * LATENCY_S * tail), x))


@pytest.mark.parametrize("scv", [0.0, 1.0, 4.0])
def test_without_a_bound_a_record_is_away_for_one_latency(scv: float) -> None:
    """Without a capacity a call takes the mean latency, whatever its law (M/G/infinity)."""
    mean_s, error_s = sojourns_s(asking(200, latency_scv=scv, capacity=10_000))
    assert abs(mean_s - LATENCY_S) < 4 * error_s + 1e-9


@pytest.mark.parametrize("rate_per_s", [0.01, 5.0, 400.0])
@pytest.mark.parametrize("scv", [0.0, 1.5])
def test_a_watermark_waits_for_the_calls_before_it(rate_per_s: float, scv: float) -> None:
    """The mean time until all calls under way are answered, of Poisson records: by drawn ones, and of calls that all
    take c, c - (1 - exp(-rate c)) / rate."""
    rng = np.random.default_rng(1)
    calls = Calls(LATENCY_S, latency_scv=scv)
    counts = rng.poisson(rate_per_s * 40 * LATENCY_S, 4000)
    left_s = [
        max(calls.drawn_s(rng, (count,)) - rng.random(count) * 40 * LATENCY_S, default=0.0) if count else 0.0
        for count in counts
    ]
    waits_s = np.maximum(left_s, 0.0)
    error_s = 4 * waits_s.std() / np.sqrt(len(waits_s))
    assert calls.cleared_s(rate_per_s) == pytest.approx(waits_s.mean(), abs=error_s + 0.01 * LATENCY_S)
    if scv == 0.0:
        exact_s = LATENCY_S + np.expm1(-rate_per_s * LATENCY_S) / rate_per_s
        assert calls.cleared_s(rate_per_s) == pytest.approx(exact_s, rel=0.01, abs=1e-9)


def test_in_order_a_record_waits_for_those_before_it() -> None:
    mean_s, error_s = sojourns_s(asking(200, capacity=10_000, ordered=True))
    assert abs(mean_s - in_order_s(200)) < 4 * error_s
    assert Calls(LATENCY_S, ordered=True).kept_s(200) == pytest.approx(in_order_s(200), rel=0.01)


@pytest.mark.parametrize(("places", "expected"), [(1, 1.0), (2, 3 / 2), (3, 27 / 14)])
def test_answers_in_order_free_their_places_late(places: int, expected: float) -> None:
    """Ordered exponential answers free places late, as in the Markov chain of which of the places are answered."""
    assert Calls(1.0, 1.0, places, ordered=True).subtask_per_s == pytest.approx(expected, rel=0.01)
    assert Calls(1.0, 1.0, places).subtask_per_s == places


@pytest.mark.parametrize("ordered", [False, True])
def test_places_over_the_time_they_are_kept_bound_the_rate(ordered: bool) -> None:
    """Capacity over latency bounds the rate, by Little's law, and backpressures the source."""
    job = asking(250, parallelism=2, capacity=3, ordered=ordered, latency_scv=0.5)
    bound_per_s = 2 * Calls(LATENCY_S, 0.5, 3, ordered).subtask_per_s
    assert bound_per_s < 130
    metrics = ran(job, 30.0).metrics
    assert metrics.throughput_per_s == pytest.approx(bound_per_s, rel=0.04)
    assert metrics.backpressured


def test_a_place_is_waited_for_as_in_m_m_c() -> None:
    mean_s, error_s = sojourns_s(asking(100, capacity=7), 10.0)
    assert abs(mean_s - LATENCY_S - mmc_wait_s(7, 100 * LATENCY_S / 7, LATENCY_S)) < 4 * error_s


def test_a_call_that_may_not_be_made_leaves_nothing_to_spare() -> None:
    """Ten places of 50 ms bear 200 calls a second: beyond it the operator is full, though it is hardly busy."""
    assert ran(asking(250.0, capacity=10), 10.0).full == ("ask",)
    assert ran(asking(150.0, capacity=10), 10.0).full == ()


def test_without_calls_to_wait_for_watermarks_are_in_nobodys_way() -> None:
    """So few watermarks that hardly any comes leave places over the time for which they are kept; many take of it."""
    rates = [
        replace(Calls(LATENCY_S, capacity=10), marks_per_s=each).subtask_per_s for each in (1e-6, 1.0, 10.0, 100.0)
    ]
    assert rates[0] == pytest.approx(10.0 / LATENCY_S, rel=4.0 / math.sqrt(0.8 * TURNS * CHAINS))
    assert rates == sorted(rates, reverse=True)
    alone = replace(Calls(LATENCY_S, 0.0, capacity=1), marks_per_s=5.0).subtask_per_s
    assert alone == pytest.approx(1.0 / LATENCY_S, rel=1e-3)  # a watermark then finds nothing to wait for


def test_watermarks_among_calls_bound_the_rate_as_in_runs() -> None:
    """Ten watermarks a second of four subtasks hold answers back: 240 a second leave in place of 400."""
    job = event_jobs.job(
        [
            event_jobs.source(disorder_s=1.0, slack_s=1.0),
            {"kind": "async", "name": "ask", "latency_s": LATENCY_S, "capacity": 10, "service_time_s": 0},
            {
                "kind": "aggregate",
                "name": "counts",
                "window": {"policy": "time", "time": "event", "size_s": 5},
            },
            event_jobs.sink(),
        ],
        engine="flink",
        rate_per_s=300.0,
        horizon_s=80.0,
        placement={"source": ["h0"] * 4, "ask": ["h0", "h1"], "counts": ["h0"]},
    )
    arrays = JobArrays(compile(job))
    calls = arrays.calling[arrays.names.index("ask")]
    assert 5.0 < calls.marks_per_s < 20.0
    made = simulate(job)
    out_per_s = next(each.rate_out_per_s for each in made.operators if each.operator == "ask")
    assert made.full == ("ask",)
    assert out_per_s == pytest.approx(2.0 * calls.subtask_per_s, rel=0.1)


def test_waiting_takes_no_cpu() -> None:
    """Waiting for twenty answers takes no CPU: the task works for its service times alone."""
    found = ran(asking(400, capacity=100, service_time_s=1e-4), 10.0)
    assert next(each.busy for each in found.operators if each.operator == "ask") == pytest.approx(0.04, rel=0.15)


@pytest.mark.parametrize("parallelism", [1, 3])
def test_all_subtasks_share_the_rate_of_a_system_outside(parallelism: int) -> None:
    """All subtasks share the outside system's rate: M/D/1 below it."""
    job = writing(40, parallelism, rate_per_s=50)
    mean_s, error_s = sojourns_s(job, 20.0)
    assert abs(mean_s - 0.8 / 0.2 / 2 / 50) < 4 * error_s
    above = ran(writing(60, parallelism, rate_per_s=50), 20.0).metrics
    assert above.throughput_per_s == pytest.approx(50, rel=0.01)


def looking_up(arriving_per_s: float, parallelism: int = 1, **more: Any) -> Deployment:
    """Job source -> lookup -> sink."""
    lookup = {"kind": "lookup-join", "name": "lookup", "service_time_s": 0, "latency_s": LATENCY_S} | more
    return chain([lookup], arriving_per_s, placement={"lookup": {"h": parallelism}})


def test_a_cache_multiplies_what_a_lookup_bears() -> None:
    """Three of four records hit the cache and the others take 50 ms, so four places bear 4 / 12.5 ms."""
    latency = ran(looking_up(80, hit_ratio=0.75, capacity=50), 30.0).metrics.processing_latency_s
    error_s = LATENCY_S * math.sqrt((2 / 4 - 1 / 16) / (80 * 24))
    assert abs(latency.mean - LATENCY_S / 4) < 4 * error_s
    assert latency.p50 < 0.1 * LATENCY_S < LATENCY_S < latency.p95
    above = ran(looking_up(500, hit_ratio=0.75, capacity=4), 20.0).metrics
    assert above.throughput_per_s == pytest.approx(320, rel=0.05)
    assert Calls(LATENCY_S, 1.0, 4, hit_ratio=0.75).subtask_per_s == pytest.approx(320)


@pytest.mark.parametrize("hosts", [{"h": 2}, {"h": 1, "g": 1}])
def test_what_is_held_up_by_calls_waits_in_full_channels_wherever_it_is(hosts: dict[str, int]) -> None:
    """Calls hold a job up wherever they are made: two subtasks of 8 places make 16 / 50 ms = 320 calls a second of 600,
    and two channels of 500 records are passed in 1,000 / 320 s."""
    engine = STORM.model_copy(update={"channel_records": 500}).model_dump(mode="json")
    ask = {"kind": "async", "name": "ask", "service_time_s": 0, "latency_s": LATENCY_S, "capacity": 8}
    ends = [HOST | {"name": name} for name in ("h", "g")]
    job = chain([ask], 600.0, hosts=ends, placement={"source": "h", "ask": hosts, "sink": "h"}, engine=engine)
    run = Scenario.of(job, RunSettings(horizon_s=120.0, warmup_s=60.0))
    found = RateModel().predict(run, [job.plan])
    assert found["throughput_per_s"][0] == pytest.approx(320.0, rel=1e-3)
    assert found["processing_latency_s"][0] == pytest.approx(1000 / 320 + LATENCY_S, rel=0.02)


JOBS = [
    looking_up(150, capacity=4, hit_ratio=0.7, hit_latency_s=0.001, selectivity=0.5),
    looking_up(100, capacity=30, hit_ratio=0.5, ordered=True, rate_per_s=100),
    asking(200, capacity=12),
    asking(100, capacity=20, ordered=True, service_time_s=1e-3),
    asking(400, parallelism=3, capacity=20, latency_scv=0.2, selectivity=0.4, service_time_s=1e-4),
    asking(300, capacity=10, latency_scv=0.0),
    asking(100, parallelism=2, rate_per_s=80, capacity=100),
    writing(180, 2, rate_per_s=200, latency_s=0.1, capacity=100),
]


@pytest.mark.slow
@pytest.mark.parametrize("job", JOBS)
def test_the_rate_model_agrees_with_runs(job: Deployment) -> None:
    exact = ran(job, 30.0).metrics
    scenario = Scenario.of(job, RunSettings(horizon_s=30.0, warmup_s=6.0))
    rates = RateModel().predict(scenario, [scenario.plan])
    error_per_s = math.sqrt(exact.throughput_per_s / 24.0)
    assert abs(rates["throughput_per_s"][0] - exact.throughput_per_s) < 4 * error_per_s
    assert rates["processing_latency_s"][0] == pytest.approx(sojourns_s(job, 30.0)[0], rel=0.15)
    assert exact.backpressured == bool(rates["backpressured"][0] > 0.5)


CHANGES: list[tuple[AnyEvent, ...]] = [
    (Failure(at_s=5, host="h1", recover_after_s=2), Failure(at_s=12, host="h1", recover_after_s=1)),
    (Scale(at_s=5, operator="ask", placement={"h1": 3}), Scale(at_s=10, operator="ask", placement={"h2": 1})),
    (Migration(at_s=5, operator="ask", subtask=0, to="h3"), Failure(at_s=9, host="h3", recover_after_s=1)),
]


@pytest.mark.parametrize("events", CHANGES)
def test_what_is_away_is_asked_again_and_nothing_is_lost(events: tuple[AnyEvent, ...]) -> None:
    """Calls are made again after changes, and nothing is lost: at the end of each run all has arrived."""
    operators = [
        source(),
        {"kind": "async", "name": "ask", "service_time_s": 1e-4, "latency_s": 0.2, "capacity": 30, "ordered": True},
        {"kind": "external-sink", "name": "sink", "service_time_s": 1e-4, "rate_per_s": 150, "latency_s": 0.05},
    ]
    job = deployment(
        operators,
        [("source", "ask"), ("ask", "sink")],
        {"source": {"law": "constant", "rate_per_s": 30}},
        HOSTS,
        {"source": "h0", "ask": ["h1", "h1"], "sink": "h2"},
    )
    found = ran(job, 30.0, events=(*events, RateChange(at_s=20, source="source", factor=1e-6)))
    count = {key: sum(row.get(key) or 0 for row in found.operator_rows) for key in ("arrived", "latencyCount")}
    assert count["latencyCount"] - found.duplicates == count["arrived"] > 590


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"kind": "external-sink"}, "has no limit; give rate_per_s, or capacity and latency_s"),
        ({"kind": "external-sink", "capacity": 3}, "limits nothing where latency_s is 0"),
    ],
)
def test_a_limit_that_limits_nothing_is_refused(changes: dict[str, Any], words: str) -> None:
    with pytest.raises(BadInput, match=words):
        deployment([source(), {"name": "sink"} | changes], [("source", "sink")], {"source": 1})


@given(st.floats(1e-308, 100.0), st.floats(0.0, 10.0), st.floats(0.0, 1.0), st.floats(0.0, 1.0))
@example(1e-300, 1.0, 0.0, 0.0)
def test_times_to_an_answer_scale(latency_s: float, scv: float, hit_ratio: float, hit: float) -> None:
    """The squared coefficient of variation is the same in all units of time, the smallest numbers included."""
    found = Calls(latency_s, scv, hit_ratio=hit_ratio, hit_s=hit * latency_s)
    seconds = Calls(1.0, scv, hit_ratio=hit_ratio, hit_s=hit)
    if found.mean_s > 1e-300:
        assert found.scv == pytest.approx(seconds.scv, rel=1e-6, abs=1e-6)
    assert math.isfinite(found.scv) and found.subtask_per_s > 0.0


def test_who_waits_is_a_task_by_itself() -> None:
    job = asking(10)
    plan = job.plan.model_copy(update={"fused": (("ask", "sink"),)})
    with pytest.raises(ValueError, match="'ask' is a task by itself"):
        Deployment.model_validate(job.model_copy(update={"plan": plan}).model_dump())


def test_sockets_are_not_weighed_for_it() -> None:
    assert "rlas" in OPTIMIZERS
    with pytest.raises(BadInput, match="wait for a system outside, as 'ask' does"):
        NumaJob(asking(10))
