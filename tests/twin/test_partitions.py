"""Partitions of a topic: what each replica reads, who is idle, and which of them lag."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.twin.worlds import deployment, sink
from twin.deployment import Deployment
from twin.errors import BadInput
from twin.partitions import counts
from twin.rates.model import RateModel
from twin.rates.numa_job import NumaJob
from twin.run import Run
from twin.scenario import RunSettings, Scenario
from twin.simulation import simulate
from twin.wiring.build import build
from twin.wiring.wiring import Wiring


def reading(partitions: int, replicas: int, law: Any, **more: Any) -> Deployment:
    topic = {"kind": "kafka-source", "name": "source", "partitions": partitions, "service_time_s": 0} | more
    return deployment([topic, sink()], [("source", "sink")], {"source": law}, placement={"source": {"h": replicas}})


def settings(horizon_s: float = 20.0) -> RunSettings:
    return RunSettings(horizon_s=horizon_s, warmup_s=horizon_s / 4, period_s=horizon_s / 8)


def ran(job: Deployment) -> Run:
    return simulate(Scenario.of(job, settings()))


@pytest.mark.parametrize(("partitions", "replicas"), [(6, 4), (6, 3), (2, 5), (1, 1)])
def test_replicas_read_whole_partitions(partitions: int, replicas: int) -> None:
    """Of even arrivals, what each replica takes is its number of partitions, to a tuple."""
    job = reading(partitions, replicas, {"law": "constant", "rate_per_s": 10 * partitions})
    world = build(Wiring(job, settings()))
    world.env.run(until=20.0)
    each = counts(partitions, replicas)
    taken = [task.tuples_in for task in world.tasks["source"]]
    assert sum(each) == partitions

    assert all(abs(got - 200 * count) <= 1 for got, count in zip(taken, each, strict=True))


def test_what_the_busiest_cannot_read_lags_and_the_others_do_not() -> None:
    """Three partitions of 100/s, and two replicas that manage 150/s: one reads 200/s of two of them."""
    found = ran(reading(3, 2, 300, service_time_s=1 / 150, service_scv=0))
    assert found.metrics.throughput_per_s == pytest.approx(250, rel=0.05)
    assert found.metrics.backpressured
    uneven, lag = found.warnings
    assert "2 replicas read 3 partitions, so some read 2 and others 1" in uneven
    assert "partition of replica 0 are unread" in lag


def test_replicas_beyond_the_partitions_add_nothing() -> None:
    """One partition a replica, and four replicas too many: the rate is that of two."""
    law, service_s = 300, 1 / 100
    found = ran(reading(2, 6, law, service_time_s=service_s, service_scv=0))
    assert found.metrics.throughput_per_s == pytest.approx(200, rel=0.02)
    assert "4 of 6 replicas read none of its 2 partitions" in found.warnings[0]
    for partitions, replicas in ((2, 6), (2, 2)):
        scenario = Scenario.of(reading(partitions, replicas, law, service_time_s=service_s), settings())
        assert RateModel().predict(scenario, [scenario.plan])["throughput_per_s"][0] == pytest.approx(200, rel=0.01)


def test_what_cannot_be_dealt_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "times.csv"
    path.write_text("time_s\n" + "\n".join(str(k / 10) for k in range(100)))
    law = {"law": "replay", "path": str(path)}
    ran(reading(6, 3, law))
    with pytest.raises(BadInput, match="use a number of replicas that divides 6"):
        ran(reading(6, 4, law))
    with pytest.raises(BadInput, match="'source' has partitions"):
        NumaJob(reading(6, 3, 10))
