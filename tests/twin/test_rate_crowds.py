"""One task that needs much beside others that need little: what processor sharing leaves to it, and how it waits."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest

from tests.twin.test_rate_batches import FREE
from twin.cluster import Cluster, Host
from twin.deployment import Deployment
from twin.metrics import Metrics
from twin.plan import ExecutionPlan
from twin.profiles import STORM
from twin.query import Filter, Map, Query, Sink, Source, Stream
from twin.rates.model import RateModel
from twin.rates.queueing import Others, cores_beside
from twin.scenario import RunSettings, Scenario
from twin.simulation import simulate
from twin.spec import parse
from twin.workload import Poisson, Workload

HOST = {"ram_mb": 16_000, "bandwidth_mbps": 10_000, "latency_ms": 1}


def beside(demand: float, tasks: float, chance: float = 1.0, rest_s: float = 1.0) -> Others:
    return Others(*(np.array([each]) for each in (demand, tasks, chance, rest_s)))


def cores_left(cores: float, others: Others, always: float = 1.0) -> float:
    return float(cores_beside(np.array([cores]), np.array([always]), others).cores[0])


@pytest.mark.parametrize("chance", [0.0, 0.3, 1.0])
@pytest.mark.parametrize(("demand", "tasks"), [(0.1, 3.0), (0.5, 10.5), (0.8, 100.0)])
def test_of_one_core_it_gets_what_the_others_leave(demand, tasks, chance):
    assert cores_left(1.0, beside(demand, tasks, chance)) == pytest.approx(1.0 - demand, rel=0.01)


def test_alone_and_with_cores_for_all_it_has_its_own():
    assert cores_left(4.0, beside(0.0, 0.0)) == cores_left(4.0, beside(2.5, 3.0)) == pytest.approx(1.0)
    assert cores_left(3.0, beside(0.0, 0.0), always=4.0) == pytest.approx(0.75)


def test_on_one_core_it_varies_as_the_work_of_the_others_comes():
    """Poisson's: demand times twice the mean rest of a service, a second."""
    found = cores_beside(np.ones(1), np.ones(1), beside(0.4, 200.0, chance=0.0, rest_s=0.01))
    assert found.varied_s[0] == pytest.approx(0.4 * 2.0 * 0.01, rel=0.01)


def test_cores_are_lost_as_by_brute_force():
    """Of four cores beside 16 queues of 0.17, tuples dealt by chance: a chain of arrivals and departures, drawn."""
    draw, queues, busy, gained, time = Random(0), [0] * 16, set[int](), 0.0, 0.0
    for _ in range(60_000):
        speed = min(1.0, 4.0 / (1.0 + len(busy)))
        rate = 16 * 0.17 + len(busy) * speed
        gained, time = gained + speed / rate, time + 1.0 / rate
        if draw.random() < 16 * 0.17 / rate:
            number = draw.randrange(16)
            queues[number] += 1
        else:
            number = draw.choice(sorted(busy))
            queues[number] -= 1
        (busy.add if queues[number] else busy.discard)(number)
    assert cores_left(4.0, beside(16 * 0.17, 16.0)) == pytest.approx(gained / time, rel=0.02)


def heavy_and_light(load: float, light_s: float = 0.02, cores: int = 2) -> Deployment:
    """One map that needs so much of a core beside 20 replicas that need 0.05 each."""
    operators = (
        Source(name="in", **FREE),
        Map(name="heavy", service_time_s=0.004, service_scv=1.0),
        Sink(name="out", **FREE),
        Source(name="other", **FREE),
        Map(name="light", service_time_s=light_s, service_scv=1.0),
        Filter(name="few", selectivity=1e-4, **FREE),
        Sink(name="end", **FREE),
    )
    ends = [("in", "heavy"), ("heavy", "out"), ("other", "light"), ("light", "few"), ("few", "end")]
    placement = {each.name: ("far",) for each in operators} | {"heavy": ("h",), "light": ("h",) * 20}
    rates = {"in": load / 0.004, "other": 1.0 / light_s}
    hosts = [
        Host(name=name, cpu_percent=100 * each, ram_mb=64_000, bandwidth_mbps=1e4, latency_ms=0.01)
        for name, each in (("h", cores), ("far", 64))
    ]
    return Deployment(
        query=Query(operators=operators, streams=tuple(Stream(producer=one, consumer=two) for one, two in ends)),
        cluster=Cluster(hosts=tuple(hosts)),
        plan=ExecutionPlan(placement=placement),
        workload=Workload(arrivals={name: Poisson(rate_per_s=rate) for name, rate in rates.items()}),
        engine=STORM,
    )


@pytest.mark.parametrize(("load", "metric"), [(0.8, "throughput_per_s"), (0.55, "processing_latency_s")])
def test_what_needs_nearly_a_core_does_not_get_it_on_a_host_that_is_not_full(load, metric):
    """Demands of 90 and 78 % of two cores: one tenth is not worked off, and waits are three times as long as alone."""
    job = heavy_and_light(load)
    scenario = Scenario.of(job, RunSettings(horizon_s=50.0, warmup_s=5.0))
    said = RateModel().predict(scenario, [job.plan])[metric][0]
    runs = np.array([measured(simulate(scenario.with_run(seed=seed)).metrics)[metric] for seed in range(12)])
    seen, error = runs.mean(), runs.std(ddof=1) / np.sqrt(len(runs))
    roomy = RateModel().predict(Scenario.of(heavy_and_light(load, cores=16), scenario.run), [job.plan])[metric][0]
    assert said == pytest.approx(seen, rel=0.05 if metric == "throughput_per_s" else 0.25)
    assert abs(roomy - seen) > 4 * error, "runs tell it from what it would have with cores for all"
    assert abs(said - seen) < abs(roomy - seen) / 2


def measured(metrics: Metrics) -> dict[str, float]:
    assert metrics.processing_latency_s
    return {
        "throughput_per_s": metrics.throughput_per_s,
        "processing_latency_s": metrics.processing_latency_s.mean,
    }


def uneven(order: tuple[int, ...], rate_per_s: float, cores: int = 2) -> Scenario:
    """Twelve partitions on eight subtasks, and a map behind each by a forward stream. order: subtasks on each host."""
    names = [f"h{number}" for number, count in enumerate(order) for _ in range(count)]
    data = {
        "name": "uneven",
        "query": {
            "operators": [
                {"name": "in", "kind": "kafka-source", "partitions": 12, "service_time_s": 4e-3},
                {"name": "work", "kind": "map", "service_time_s": 6e-3},
                {"name": "out", "kind": "sink", "service_time_s": 0},
            ],
            "streams": [
                {"producer": "in", "consumer": "work", "partitioning": "forward"},
                {"producer": "work", "consumer": "out"},
            ],
        },
        "cluster": {"hosts": [dict(HOST, name=f"h{number}", cpu_percent=100 * cores) for number in range(4)]},
        "plan": {"placement": {"in": names, "work": names, "out": "h3"}, "fused": [["in", "work"]]},
        "workload": {"arrivals": {"in": {"law": "poisson", "rate_per_s": rate_per_s}}},
        "run": {"horizon_s": 250, "warmup_s": 10, "period_s": 10},
    }
    return parse(Scenario, data)


@pytest.mark.parametrize("order", [(3, 3, 2), (2, 3, 3), (4, 4, 0)])
def test_hosts_do_what_the_subtasks_on_them_take(order):
    """The first four of the eight subtasks read two partitions each, the others one."""
    job = uneven(order, 300)
    cpu = dict(zip(("h0", "h1", "h2", "h3"), RateModel().answer(job, [job.plan]).cpu[0], strict=True))
    for host in simulate(job).hosts:
        assert host.cpu == pytest.approx(cpu[host.host], rel=0.03, abs=0.001)


@pytest.mark.parametrize(("order", "bears"), [((3, 3, 2), 400), ((4, 4, 0), 300)])
def test_a_host_where_many_subtasks_take_more_is_full_first(order, bears):
    """Of two cores, with 10 ms a record, of half the records, or of two thirds."""
    job = uneven(order, bears)
    answer = RateModel().answer(job, [job.plan])
    assert answer.offered_pressure.max() == pytest.approx(1.0, rel=0.02) == answer.cpu.max()
    for share, keeps_up in ((0.97, True), (1.05, False)):
        tried = uneven(order, share * bears)
        predicted = RateModel().lasting().answer(tried, [tried.plan]).costs.by_metric["backpressured"][0] < 0.5
        assert predicted == keeps_up == (not simulate(tried).metrics.backpressured)


def test_counts_are_plans_whose_subtasks_are_in_the_order_of_hosts():
    job = uneven((3, 3, 2), 300)
    counts = np.array([[[3, 3, 2, 0], [3, 3, 2, 0], [0, 0, 0, 1]]])
    by_counts, by_plan = RateModel().answer_counts(job, counts), RateModel().answer(job, [job.plan])
    assert by_counts.cpu.tolist() == by_plan.cpu.tolist() and by_counts.speed.tolist() == by_plan.speed.tolist()
