"""The analytic model of runs in which channels are still filling: by law, and beside exact runs of tiny worlds."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from tests.twin.worlds import deployment, sink, source
from twin.deployment import Deployment
from twin.metrics import Estimates, Metrics
from twin.profiles import STORM
from twin.rates.model import RateModel
from twin.rates.queueing import grown_wait_s
from twin.scenario import RunSettings, Scenario
from twin.simulation import simulate

DEEP = STORM.model_copy(update={"channel_tuples": 1_000_000})
HALF_S, SERVICE_S = 20.0, 0.015
KEYED = {"kind": "aggregate", "name": "count", "service_time_s": 0, "group_by": "int", "groups": 5}
SECOND = {"policy": "time", "size_s": 1.0, "slide_s": 1.0}


def host(name: str, cores: float) -> dict[str, object]:
    return {"name": name, "cpu_percent": 100 * cores, "ram_mb": 64_000, "bandwidth_mbps": 10_000, "latency_ms": 0.01}


def lopsided(
    *behind: dict[str, object], engine: object = DEEP, rate_per_s: float = 100.0, law: str = "constant"
) -> Deployment:
    """Two replicas of a map get 50 tuples a second each, of 15 ms: on half a core 1.5 times too many, on one 0.75."""
    work = {"kind": "map", "name": "work", "selectivity": 1, "service_time_s": SERVICE_S, "service_scv": 0}
    operators = [source(), work, *behind, sink()]
    names = [str(each["name"]) for each in operators]
    return deployment(
        operators,
        list(pairwise(names)),
        {"source": {"law": law, "rate_per_s": rate_per_s}},
        hosts=[host("h", 8), host("slow", 0.5), host("fast", 1)],
        placement={"work": ["slow", "fast"]},
        engine=engine,
    )


def scenario(job: Deployment, horizon_s: float = 2 * HALF_S, warmup_s: float = 0.0) -> Scenario:
    settings = RunSettings(horizon_s=horizon_s, warmup_s=warmup_s, period_s=horizon_s / 20, noise=False)
    return Scenario.of(job, settings)


def said(job: Scenario) -> Estimates:
    return RateModel().predict(job, [job.plan])


def seen(job: Scenario) -> Metrics:
    return simulate(job).metrics


def test_each_replica_passes_what_it_can_and_its_own_queue_grows():
    """Of 50 a second the slow one serves 33.3; what it emits at t came at t / 1.5, so it is t / 3 old."""
    job = scenario(lopsided())
    found = said(job)
    served = np.array([50 / 1.5, 50.0])
    assert found["throughput_per_s"][0] == pytest.approx(served.sum(), rel=0.01)
    late_s = served[0] / served.sum() * HALF_S / 3
    assert found["processing_latency_s"][0] == pytest.approx(late_s, rel=0.06)  # and by chance, as gaps were random
    run = seen(job)
    assert run.throughput_per_s == pytest.approx(served.sum(), rel=0.01)
    assert run.processing_latency_s.mean == pytest.approx(late_s, rel=0.03)


def test_results_of_a_window_are_as_late_as_the_oldest_that_comes_to_it():
    """What the slow replica emits at t is t / 3 old and a gap more (it emits every 30 ms, one of five for a group).

    So a window that ends at T has waited from T - 1, and a gap: geometric, at a phase of 0, 10 or 20 ms.
    """
    job = scenario(lopsided({**KEYED, "window": SECOND}))
    slow_s, ends_s = 2 * SERVICE_S, np.arange(1.0, 2 * HALF_S)
    phase_s = np.mean([0.0, 0.01, 0.02])
    first_s = phase_s + slow_s * (KEYED["groups"] - 1)
    late_s = float(np.mean((ends_s - 1.0 + first_s) / 3 + 0.02 + 1.0 - first_s))
    gap_s = slow_s * np.sqrt(KEYED["groups"] * (KEYED["groups"] - 1))
    runs = [seen(job.with_run(seed=seed)) for seed in range(4)]
    error_s = 2 / 3 * gap_s / np.sqrt(sum(run.tuples_out for run in runs))
    assert abs(np.mean([run.processing_latency_s.mean for run in runs]) - late_s) < 4 * error_s
    assert said(job)["processing_latency_s"][0] == pytest.approx(late_s, rel=0.1)


def test_two_that_cannot_keep_up_one_behind_the_other():
    """The second is 1.25 times too slow for what the first lets through."""
    rate_per_s, first, second = 100.0, 1.5, 1.25
    services = [first / rate_per_s, second * first / rate_per_s]
    steps = [
        {"kind": "map", "name": f"map{k}", "selectivity": 1, "service_time_s": each, "service_scv": 0}
        for k, each in enumerate(services)
    ]
    job = scenario(
        deployment(
            [source(), *steps, sink()],
            [("source", "map0"), ("map0", "map1"), ("map1", "sink")],
            {"source": {"law": "constant", "rate_per_s": rate_per_s}},
            engine=DEEP,
        )
    )
    found = said(job)
    assert found["throughput_per_s"][0] == pytest.approx(rate_per_s / first / second, rel=0.01)
    assert found["processing_latency_s"][0] == pytest.approx(HALF_S * (1 - 1 / first / second), rel=0.03)
    run = seen(job)
    assert run.throughput_per_s == pytest.approx(found["throughput_per_s"][0], rel=0.02)
    assert run.processing_latency_s.mean == pytest.approx(found["processing_latency_s"][0], rel=0.03)


def test_channels_of_few_credits_fill_at_once():
    """Then the source is held back from the start, and nothing of this shows."""
    job = scenario(lopsided(engine=DEEP.model_copy(update={"channel_tuples": 10})))
    answer = RateModel().answer(job, [job.plan])
    for metric, costs in answer.costs.by_metric.items():
        assert costs[0] == pytest.approx(answer.lasting[metric][0], rel=0.02)
    assert answer.costs["throughput_per_s"][0] == pytest.approx(100 / 1.5, rel=0.01)


def test_nothing_grows_where_all_keep_up():
    job = scenario(lopsided(rate_per_s=60.0))
    answer = RateModel().answer(job, [job.plan])
    assert all((costs == answer.lasting[metric]).all() for metric, costs in answer.costs.by_metric.items())


@pytest.mark.parametrize("full_s", [8.0, 32.0])
def test_both_halves_of_a_run_count_by_their_results(full_s):
    """Channels that fill midway: an excess of 16.7 a second fills so many credits in that time."""
    room = round(50 * (1 - 1 / 1.5) * full_s)
    job = scenario(lopsided(engine=DEEP.model_copy(update={"channel_tuples": room})))
    found, run = said(job), seen(job)
    early = full_s / (2 * HALF_S)
    rate_per_s = early * (50 + 50 / 1.5) + (1 - early) * 100 / 1.5
    assert found["throughput_per_s"][0] == pytest.approx(rate_per_s, rel=0.02)
    assert run.throughput_per_s == pytest.approx(rate_per_s, rel=0.02)
    assert found["processing_latency_s"][0] == pytest.approx(run.processing_latency_s.mean, rel=0.12)


def test_keys_of_few_values_feed_as_many_replicas():
    """Values are dealt round robin: of eight replicas, those of three values are the first three, here on the slow
    host, and cannot keep up."""
    count = {**KEYED, "groups": 3, "window": SECOND, "service_time_s": 0.02, "service_scv": 0}
    job = deployment(
        [source(), count, sink()],
        [("source", "count"), ("count", "sink")],
        {"source": {"law": "constant", "rate_per_s": 90.0}},
        hosts=[host("h", 8), host("slow", 1.2)],
        placement={"count": ["slow"] * 3 + ["h"] * 5},
        engine=DEEP,
    )
    answer = RateModel().answer(scenario(job), [job.plan])
    assert answer.offered_pressure[0, 1] == pytest.approx(90 * 0.02 / 1.2, rel=0.01)
    found, run = answer.costs["processing_latency_s"][0], seen(scenario(job)).processing_latency_s
    assert run.mean == pytest.approx(found, rel=0.06)


@pytest.mark.parametrize("time_s", [10.0, 1000.0])
def test_a_reflected_brownian_motion(time_s):
    """Its mean at no drift, and far from none; and, in between, that of many walks."""
    variance = 0.3
    assert grown_wait_s(np.zeros(1), np.array([variance]), np.array([time_s]))[0] == pytest.approx(
        np.sqrt(2 * variance * time_s / np.pi), rel=1e-5
    )
    up, down = grown_wait_s(np.array([0.5, -0.5]), np.full(2, variance), np.full(2, 1e5))
    assert up == pytest.approx(5e4 + variance, rel=1e-6)
    assert down == pytest.approx(variance, rel=1e-3)
    rng, steps = np.random.default_rng(0), 1000
    walks = np.cumsum(rng.normal(0.1 * time_s / steps, np.sqrt(variance * time_s / steps), (1000, steps)), axis=1)
    expected = np.maximum(walks.max(axis=1), 0.0).mean()
    found = grown_wait_s(np.array([0.1]), np.array([variance]), np.array([time_s]))[0]
    assert found == pytest.approx(expected, rel=0.08)


def test_what_else_is_estimated_together_makes_no_difference():
    job = scenario(lopsided({**KEYED, "window": SECOND}))
    plans = [
        job.plan.model_copy(update={"placement": {**job.plan.placement, "work": places, "count": places}})
        for places in (("slow", "fast"), ("slow", "slow"), ("fast", "h"), ("slow", "h"))
    ]
    together = RateModel().predict(job, plans)
    for number, plan in enumerate(plans):
        alone = RateModel().predict(job, [plan])
        for metric, costs in alone.by_metric.items():
            assert together[metric][number] == pytest.approx(costs[0], rel=1e-9), metric


def test_what_a_card_cannot_send_grows_old():
    """Of 200 tuples of 2 kB a card of 2.5 Mbit/s sends 156.25: what leaves at t waited t (1 - 156.25 / 200)."""
    per_s, sent_per_s = 200.0, 2.5e6 / 8 / 2000
    job = scenario(
        deployment(
            [source(tuple_bytes=2000), {"kind": "map", "name": "map", "selectivity": 1, "service_time_s": 0}, sink()],
            [("source", "map"), ("map", "sink")],
            {"source": {"law": "constant", "rate_per_s": per_s}},
            hosts=[host("h", 4), {**host("edge", 1), "bandwidth_mbps": 2.5}],
            placement={"source": "edge"},
            engine=DEEP,
        )
    )
    found, run = said(job), seen(job)
    assert found["throughput_per_s"][0] == pytest.approx(sent_per_s, rel=0.01)
    assert run.throughput_per_s == pytest.approx(sent_per_s, rel=0.02)
    assert found["processing_latency_s"][0] == pytest.approx(HALF_S * (1 - sent_per_s / per_s), rel=0.03)
    assert run.processing_latency_s.mean == pytest.approx(found["processing_latency_s"][0], rel=0.05)
