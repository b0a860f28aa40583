"""The analytic model of count windows that each replica has of its own, as exact runs of tiny worlds have them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.twin import worlds
from tests.twin.worlds import chain, deployment
from twin.deployment import Deployment
from twin.rates.coefficients import PlacementCoefficients
from twin.rates.model import RateModel
from twin.scenario import RunSettings, Scenario
from twin.simulation import simulate

RATE_PER_S = 200.0
RUN = RunSettings(horizon_s=30.0, warmup_s=6.0, period_s=3.0)


def count_window(size: int, slide: int) -> dict[str, Any]:
    return {"policy": "count", "size_tuples": size, "slide_tuples": slide}


def grouped(replicas: int, groups: int, size: int = 40, slide: int = 40) -> Deployment:
    keyed = {"group_by": "int", "groups": groups} if groups > 1 else {}
    count = {"kind": "aggregate", "name": "count", "service_time_s": 0, "window": count_window(size, slide)} | keyed
    return chain([count], RATE_PER_S, placement={"count": ["h"] * replicas})


def joined(replicas: int, size: int = 40, slide: int = 20, **more: Any) -> Deployment:
    pairs = {"kind": "join", "name": "join", "service_time_s": 0, "window": count_window(size, slide)}
    rates = {"a": RATE_PER_S, "b": RATE_PER_S / 2}
    return worlds.joined(pairs | {"selectivity": 0.004} | more, rates, placement={"join": ["h"] * replicas})


def beside(job: Deployment) -> tuple[float, float, float, float]:
    """Results a second and their latency: said, and seen in an exact run."""
    scenario = Scenario.of(job, RUN)
    said, seen = RateModel().predict(scenario, [job.plan]), simulate(scenario).metrics
    latency_s = seen.processing_latency_s
    return said["throughput_per_s"][0], seen.throughput_per_s, said["processing_latency_s"][0], latency_s.mean


@pytest.mark.parametrize("job", [grouped(4, 1), grouped(3, 24, 60, 20), grouped(6, 4)])
def test_a_replica_counts_what_comes_to_it(job):
    said_per_s, seen_per_s, said_s, seen_s = beside(job)
    assert said_per_s == pytest.approx(seen_per_s, rel=0.03)
    assert said_s == pytest.approx(seen_s, rel=0.03)


@pytest.mark.parametrize("partitioning", ["hash", "broadcast"])
def test_matches_of_each_replica(partitioning):
    """On one of R replicas a pair is R times as likely to match, if its replica is where both belong, and windows reach
    as far back as what comes there fills them."""
    job = joined(4, 60)
    streams = [
        each.model_copy(update={"partitioning": partitioning} if each.producer == "b" else {})
        for each in job.query.streams
    ]
    query = job.query.model_copy(update={"streams": tuple(streams)})
    said_per_s, seen_per_s, said_s, seen_s = beside(job.model_copy(update={"query": query}))
    assert said_per_s == pytest.approx(seen_per_s, rel=0.08)
    assert said_s == pytest.approx(seen_s, rel=0.05)


def test_plans_with_several_replicas_are_judged_each_by_its_own():
    """Together as alone, by placement and by counts; and what throttles them is too."""
    job = grouped(4, 24)
    plans = [grouped(replicas, 24).plan for replicas in (1, 2, 4)]
    for factor in (1.0, 1e4):
        rates = {"source": {"law": "poisson", "rate_per_s": RATE_PER_S * factor}}
        loud = deployment([*map(dict, _operators(job))], [("source", "count"), ("count", "sink")], rates)
        together = RateModel(60.0).answer(loud, plans)
        counts = np.array([[[1], [replicas], [1]] for replicas in (1, 2, 4)])
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
