"""Rate model's waits for batches, bursts, filling channels, and count windows: by law, or as exact runs."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

from tests.twin import worlds
from tests.twin.test_rate_model import host
from tests.twin.worlds import chain, deployment, simulated
from twin.cluster import Cluster
from twin.deployment import Deployment
from twin.metrics import Estimates, Metrics
from twin.plan import ExecutionPlan
from twin.profiles import FLINK, STORM, EngineProfile
from twin.query import Aggregate, Map, Query, Sink, Source, Stream, TimeWindow
from twin.rates.coefficients import PlacementCoefficients
from twin.rates.model import RateModel
from twin.rates.waiting import fill_wait_s
from twin.scenario import RunSettings, Scenario
from twin.simulation import simulate
from twin.spec import parse
from twin.workload import Poisson, Workload

FREE = {"service_time_s": 0.0}


def job(
    *operators: object, rate_per_s: float, parallelism: int = 1, engine: EngineProfile = FLINK, cores: float = 16.0
) -> Deployment:
    """Chain on one host, each operator with so many subtasks."""
    names = [operator.name for operator in operators]
    pairs = itertools.pairwise(names)
    return Deployment(
        query=Query(operators=operators, streams=tuple(Stream(producer=p, consumer=c) for p, c in pairs)),
        cluster=parse(Cluster, {"hosts": [host("h", cpu_percent=100.0 * cores)]}),
        plan=ExecutionPlan(placement=dict.fromkeys(names, ("h",) * parallelism)),
        workload=Workload(arrivals={names[0]: Poisson(rate_per_s=rate_per_s)}),
        engine=engine,
    )


def predict(deployment: Deployment, horizon_s: float = 240.0) -> Estimates:
    return RateModel(horizon_s).predict(deployment, [deployment.plan])


def exact(deployment: Deployment, horizon_s: float, warmup_s: float = 0.0, seed: int = 3) -> Metrics:
    return simulated(deployment, horizon_s=horizon_s, warmup_s=warmup_s, period_s=horizon_s / 20, seed=seed).metrics


@pytest.mark.parametrize("hops", [1, 2, 3])
def test_few_records_wait_half_a_flush_on_every_stream(hops):
    """Few records wait half a flush period on each stream on average, as flushes are independent of them."""
    maps = [Map(name=f"map{number}", **FREE) for number in range(hops - 1)]
    deployment = job(Source(name="in", **FREE), *maps, Sink(name="out", **FREE), rate_per_s=50.0)
    assert predict(deployment)["processing_latency_s"][0] == pytest.approx(hops * FLINK.flush_s / 2, rel=1e-3)


def test_full_batches_leave_before_the_flush():
    """Full batches leave before the flush: the k-th of b records waits (b - k) / r, so (b - 1) / (2 r) on average."""
    batch, rate_per_s = 50, 5_000.0
    engine = STORM.model_copy(update={"batch_records": batch, "flush_s": 0.1})
    found = fill_wait_s(np.array([rate_per_s]), batch, 0.1)[0]
    assert found == pytest.approx((batch - 1) / 2 / rate_per_s)
    deployment = job(Source(name="in", **FREE), Sink(name="out", **FREE), rate_per_s=rate_per_s, engine=engine)
    assert predict(deployment)["processing_latency_s"][0] == pytest.approx(found, rel=0.02)
    assert exact(deployment, 5.0).processing_latency_s.mean == pytest.approx(found, rel=0.05)


@pytest.mark.parametrize("rate_per_s", [370.0, 800.0, 1_300.0])
def test_what_is_left_of_a_batch_waits_for_the_flush(rate_per_s):
    """Even records between two flushes leave with the last of their batch, or at the next flush, as by hand."""
    batch, flush_s = 50, 0.1
    came_s = np.arange(round(rate_per_s * flush_s)) / rate_per_s
    lasts = np.arange(len(came_s)) // batch * batch + batch - 1
    left_s = np.where(lasts < len(came_s), came_s[np.minimum(lasts, len(came_s) - 1)], flush_s)
    assert fill_wait_s(np.array([rate_per_s]), batch, flush_s)[0] == pytest.approx(np.mean(left_s - came_s), rel=0.03)


@pytest.mark.slow
@pytest.mark.parametrize(("parallelism", "rate_per_s"), [(1, 300.0), (4, 300.0), (4, 3_000.0)])
def test_batches_and_turns_agree_with_exact_runs(parallelism, rate_per_s):
    deployment = job(
        Source(name="in"),
        Map(name="work", service_time_s=0.2 * parallelism / rate_per_s),
        Sink(name="out"),
        rate_per_s=rate_per_s,
        parallelism=parallelism,
    )
    runs = [
        exact(deployment, 12.0, 2.0, seed).processing_latency_s.mean for seed in range(8)
    ]  # flushes in other phases
    error = np.std(runs, ddof=1) / np.sqrt(len(runs))
    assert abs(predict(deployment)["processing_latency_s"][0] - np.mean(runs)) < 4 * error + 0.01 * np.mean(runs)


@pytest.mark.parametrize("parallelism", [1, 5])
def test_results_of_a_window_are_dealt_before_they_wait(parallelism):
    """Each subtask of a sink of 1 ms waits for half of its own part of 100 results at once."""
    engine = STORM.model_copy(update={"channel_records": 100_000})
    window = Aggregate(name="count", window=TimeWindow(size_s=1.0), group_by="int", groups=100, service_time_s=0.0)
    deployment = job(
        Source(name="in", **FREE),
        window,
        Sink(name="out", service_time_s=1e-3, service_scv=0.0),
        rate_per_s=1_000.0,
        parallelism=parallelism,
        engine=engine,
    )
    measured = exact(deployment, 20.0, 5.0).processing_latency_s.mean
    assert predict(deployment)["processing_latency_s"][0] == pytest.approx(measured, rel=0.05)


@pytest.mark.parametrize("horizon_s", [20.0, 80.0, 200.0])
def test_channels_fill_before_a_source_is_held_back(horizon_s):
    """50 records a second too many fill 2,000 credits in 40 s: until then nothing is held back, and waits grow."""
    engine = STORM.model_copy(update={"channel_records": 2_000})
    slow = Sink(name="out", service_time_s=1e-2, service_scv=0.0)
    deployment = job(Source(name="in", **FREE), slow, rate_per_s=150.0, engine=engine)
    found, measured = predict(deployment, horizon_s), exact(deployment, horizon_s)
    assert (found["backpressured"][0] > 0.5) == measured.backpressured == (horizon_s > 40.0)
    assert found["processing_latency_s"][0] == pytest.approx(measured.processing_latency_s.mean, rel=0.1)
    assert found["e2e_latency_s"][0] == pytest.approx(measured.e2e_latency_s.mean, rel=0.1)


def is_as_run(deployment: Deployment, horizon_s: float, rel: float) -> None:
    """Checks the prediction against a run from an empty start."""
    found, measured = predict(deployment, horizon_s), exact(deployment, horizon_s)
    assert (found["backpressured"][0] > 0.5) == measured.backpressured
    assert found["throughput_per_s"][0] == pytest.approx(measured.throughput_per_s, rel=rel)
    assert found["processing_latency_s"][0] == pytest.approx(measured.processing_latency_s.mean, rel=rel)
    assert found["e2e_latency_s"][0] == pytest.approx(measured.e2e_latency_s.mean, rel=rel)


def test_a_source_that_lacks_cores_is_held_back_at_once():
    """A source that shares one core with its consumers fills no channel: it ingests 2,000 of 2,600 a second at once."""
    one = {"service_time_s": 2e-4, "service_scv": 0.0}
    deployment = job(
        Source(name="in", **one),
        Map(name="map", service_time_s=1e-4),
        Sink(name="out", **one),
        rate_per_s=2_600.0,
        cores=1.0,
    )
    found, measured = predict(deployment, 20.0), exact(deployment, 20.0)
    assert found["backpressured"][0] > 0.5 and measured.backpressured
    assert found["throughput_per_s"][0] == pytest.approx(measured.throughput_per_s, rel=0.01)
    assert found["e2e_latency_s"][0] == pytest.approx(measured.e2e_latency_s.mean, rel=0.1)


@pytest.mark.parametrize("horizon_s", [10.0, 40.0])
def test_until_channels_are_full_a_bottleneck_gets_no_more_cores_than_others_leave(horizon_s):
    """Beside a map that needs 0.48 of the core, a sink gets 260 records a second until channels are full, then 333."""
    deployment = job(
        Source(name="in", **FREE),
        Map(name="map", service_time_s=1e-3, service_scv=0.0),
        Sink(name="out", service_time_s=2e-3, service_scv=0.0),
        rate_per_s=480.0,
        cores=1.0,
    )
    is_as_run(deployment, horizon_s, 0.1)


def test_of_two_sinks_the_one_that_keeps_up_gets_all_until_the_channels_of_the_other_are_full():
    """A fast sink gets all until a slow one's channels are full, so most results, and young ones, are its own."""
    slow, fast = Sink(name="slow", service_time_s=4e-3, service_scv=0.0), Sink(name="fast", **FREE)
    chained = job(Source(name="in", **FREE), slow, rate_per_s=500.0)
    deployment = chained.model_copy(
        update={
            "query": Query(
                operators=(*chained.query.operators, fast),
                streams=(*chained.query.streams, Stream(producer="in", consumer="fast")),
            ),
            "plan": ExecutionPlan(placement={"in": "h", "slow": "h", "fast": "h"}),
        }
    )
    is_as_run(deployment, 10.0, 0.05)


@pytest.mark.parametrize("warmup_s", [0.0, 30.0, 60.0])
def test_means_are_taken_after_the_warm_up(warmup_s):
    """Means are taken after the warm-up: channels fill in 40 s, and what leaves after 60 s has waited in full ones."""
    engine = STORM.model_copy(update={"channel_records": 2_000})
    slow = Sink(name="out", service_time_s=1e-2, service_scv=0.0)
    deployment = job(Source(name="in", **FREE), slow, rate_per_s=150.0, engine=engine)
    settings = RunSettings(horizon_s=120.0, warmup_s=warmup_s, period_s=5.0, seed=3)
    scenario = Scenario.of(deployment, settings)
    found, measured = RateModel().predict(scenario, [scenario.plan]), simulate(scenario).metrics
    for metric in ("processing_latency_s", "e2e_latency_s"):
        assert found[metric][0] == pytest.approx(getattr(measured, metric).mean, rel=0.05)
    assert found["throughput_per_s"][0] == pytest.approx(measured.throughput_per_s, rel=0.02)


RATE_PER_S = 200.0
RUN = RunSettings(horizon_s=30.0, warmup_s=6.0, period_s=3.0)


def count_window(size: int, slide: int) -> dict[str, Any]:
    return {"policy": "count", "size_records": size, "slide_records": slide}


def grouped(parallelism: int, groups: int, size: int = 40, slide: int = 40) -> Deployment:
    keyed = {"group_by": "int", "groups": groups} if groups > 1 else {}
    count = {"kind": "aggregate", "name": "count", "service_time_s": 0, "window": count_window(size, slide)} | keyed
    return chain([count], RATE_PER_S, placement={"count": ["h"] * parallelism})


def joined(parallelism: int, size: int = 40, slide: int = 20, **more: Any) -> Deployment:
    pairs = {"kind": "join", "name": "join", "service_time_s": 0, "window": count_window(size, slide)}
    rates = {"a": RATE_PER_S, "b": RATE_PER_S / 2}
    return worlds.joined(pairs | {"selectivity": 0.004} | more, rates, placement={"join": ["h"] * parallelism})


def beside(job: Deployment) -> tuple[float, float, float, float]:
    """Results a second and their latency, predicted and in an exact run."""
    scenario = Scenario.of(job, RUN)
    said, seen = RateModel().predict(scenario, [job.plan]), simulate(scenario).metrics
    latency_s = seen.processing_latency_s
    return said["throughput_per_s"][0], seen.throughput_per_s, said["processing_latency_s"][0], latency_s.mean


@pytest.mark.parametrize("job", [grouped(4, 1), grouped(3, 24, 60, 20), grouped(6, 4)])
def test_a_subtask_counts_what_comes_to_it(job):
    said_per_s, seen_per_s, said_s, seen_s = beside(job)
    assert said_per_s == pytest.approx(seen_per_s, rel=0.03)
    assert said_s == pytest.approx(seen_s, rel=0.03)


@pytest.mark.parametrize("partitioning", ["hash", "broadcast"])
def test_matches_of_each_subtask(partitioning):
    """On one of R subtasks a pair is R times as likely to match, if both records belong there, and windows reach as far
    back as the subtask's input fills them."""
    job = joined(4, 60)
    streams = [
        each.model_copy(update={"partitioning": partitioning} if each.producer == "b" else {})
        for each in job.query.streams
    ]
    query = job.query.model_copy(update={"streams": tuple(streams)})
    said_per_s, seen_per_s, said_s, seen_s = beside(job.model_copy(update={"query": query}))
    assert said_per_s == pytest.approx(seen_per_s, rel=0.08)
    assert said_s == pytest.approx(seen_s, rel=0.05)


def test_plans_with_several_subtasks_are_judged_each_by_its_own():
    """Plans get the same answer together and alone, by placement and by counts, also if throttled."""
    job = grouped(4, 24)
    plans = [grouped(parallelism, 24).plan for parallelism in (1, 2, 4)]
    for factor in (1.0, 1e4):
        rates = {"source": {"law": "poisson", "rate_per_s": RATE_PER_S * factor}}
        loud = deployment([*map(dict, _operators(job))], [("source", "count"), ("count", "sink")], rates)
        together = RateModel(60.0).answer(loud, plans)
        counts = np.array([[[1], [parallelism], [1]] for parallelism in (1, 2, 4)])
        counted = RateModel(60.0).answer_counts(loud, counts)
        for number, plan in enumerate(plans):
            alone = RateModel(60.0).answer(loud, [plan])
            for metric, costs in alone.costs.by_metric.items():
                assert together.costs[metric][number] == pytest.approx(costs[0], rel=1e-6)
                assert counted.costs[metric][number] == pytest.approx(costs[0], rel=1e-6)


def _operators(job: Deployment) -> list[dict[str, Any]]:
    return [each.model_dump(mode="json", exclude_defaults=True) | {"kind": each.kind} for each in job.query.operators]


def test_placement_coefficients_know_it():
    job = grouped(4, 24)
    found = PlacementCoefficients.of(job).operators
    answer = RateModel(60.0).answer(job, [job.plan])
    assert found.window_s[1] == pytest.approx(answer.window_s[0, 1], rel=1e-6)
