"""Partitions: their readers, and restarts that deal them anew and lose and double no record."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.twin import event_jobs
from tests.twin.changing import HOSTS, column
from tests.twin.checkpointed import steady
from tests.twin.machine.runs import same_however
from tests.twin.test_restarts import REDEPLOY_S, engine, restarted, run
from tests.twin.worlds import deployment, sink, world_of
from twin.deployment import Deployment
from twin.errors import BadInput
from twin.events import Failure, RateChange, Scale
from twin.rates.model import RateModel
from twin.rates.numa_rates import NumaJob
from twin.run import Run
from twin.scenario import RunSettings, Scenario
from twin.simulation import simulate
from twin.spec import parse

POISSON = {"law": "poisson", "rate_per_s": 1500.0}


def topic(law: Any, subtasks: int, partitions: int | None = 12, service_s: float = 1e-3) -> Deployment:
    """Job of a topic with an instant map and a sink; a subtask reads 1,000 records a second at most."""
    kind = {"kind": "source"} if partitions is None else {"kind": "kafka-source", "partitions": partitions}
    source = kind | {"name": "topic", "service_time_s": service_s, "service_scv": 0}
    operators = [source, {"kind": "map", "name": "m", "service_time_s": 0}, sink()]
    places = {"topic": ["h0"] * subtasks, "m": "h1", "sink": "h2"}
    return deployment(operators, [("topic", "m"), ("m", "sink")], {"topic": law}, HOSTS, places)


def to(subtasks: int, at_s: float = 8.5) -> Scale:
    return Scale(at_s=at_s, operator="topic", placement=("h0",) * subtasks)


def read(result: Run, from_s: float) -> list[float]:
    """Records that each subtask reads from a time on."""
    rows = [row for row in result.subtask_rows if row["operator"] == "topic" and row["start_s"] >= from_s]
    return [
        sum(row["arrived"] for row in rows if row["subtask"] == subtask)
        for subtask in sorted({row["subtask"] for row in rows})
    ]


@pytest.mark.parametrize(
    ("before", "after", "partitions"), [(2, 4, 12), (4, 3, 12), (5, 3, 7), (2, 3, None), (2, 8, 6)]
)
@pytest.mark.parametrize("law", [steady(1500.0), POISSON])
def test_each_subtask_reads_its_partitions_and_nothing_is_lost(
    before: int, after: int, partitions: int | None, law: Any
) -> None:
    result = run(topic(law, before, partitions), to(after))
    (row,) = restarted(result)
    assert (row["before"], row["after"]) == (before, after)
    assert row["paused_s"] == pytest.approx(REDEPLOY_S, abs=0.02)
    arrived = sum(column(result, "topic", "arrived"))
    assert arrived == pytest.approx(1500 * 30, abs=before + after if law is not POISSON else 4 * (1500 * 30) ** 0.5)
    waits = column(result, "topic", "backlog")[-1]
    assert result.metrics.records_out == pytest.approx(arrived - waits, abs=40)  # the last are under way
    assert result.duplicates == 0
    shares = np.bincount(np.arange(partitions or after) % after, minlength=after)
    expected = 1500 * 15 * shares / shares.sum()
    assert np.abs(read(result, 15.0) - expected).max() <= (2 if law is not POISSON else 4 * expected.max() ** 0.5)


def test_what_waits_goes_along_with_its_partition() -> None:
    """Backlogs go along with partitions. One subtask reads 1,000 of 1,500 a second, so it lags by 4,000 at the restart
    at 8 s, and by 8,500 when that ends: three subtasks win back 3,000 - 1,500 a second."""
    result = run(topic(steady(1500.0), 1), to(3, 8.0))
    (row,) = restarted(result)
    backlog = column(result, "topic", "backlog")
    assert backlog[7] == pytest.approx(4000, rel=0.01) and backlog[10] == pytest.approx(8500, rel=0.01)
    caught_up_s = row["end_s"] + (4000 + 1500 * row["paused_s"]) / 1500
    assert max(k + 1 for k, waits in enumerate(backlog) if waits > 10) == int(caught_up_s)


def test_a_rate_that_changed_goes_on() -> None:
    result = run(topic(steady(700.0), 1), RateChange(at_s=3.0, source="topic", factor=2.0), to(3), to(2, 20.5))
    assert column(result, "topic", "arrived")[4:] == pytest.approx([1400] * 26, abs=3)
    later = RateChange(at_s=14.0, source="topic", factor=0.5)
    assert column(run(topic(steady(700.0), 1), to(3), later), "topic", "arrived")[14:] == pytest.approx(
        [350] * 16, abs=3
    )


@pytest.mark.parametrize("events", [[to(3)], [RateChange(at_s=3.33, source="topic", factor=1.7), to(3), to(2, 15.7)]])
def test_evenly_spaced_records_stay_so_whoever_reads_them(events: list[Any]) -> None:
    """Evenly spaced records stay so: a faster map never finds one waiting, and each takes 1, 5, 3 and 5 ms."""
    data = topic(steady(100.0), 2).model_dump()
    data["query"]["operators"][1]["service_time_s"] = 3e-3
    result = run(parse(Deployment, data), *events)
    rows = [row for row in result.operator_rows if row["operator"] == "sink"]
    latencies_s = [row["processingLatencySum_s"] / max(row["latencyCount"], 1) for row in rows]
    assert latencies_s[:8] + latencies_s[26:] == pytest.approx([14e-3] * 12, rel=0.01)


def test_recorded_records_come_once_each(tmp_path: Path) -> None:
    times_s = np.sort(np.random.default_rng(3).uniform(0.0, 28.0, 5000))
    path = tmp_path / "recorded.csv"
    path.write_text("\n".join(["time_s", *(f"{each:.6f}" for each in times_s)]))
    result = run(topic({"law": "replay", "path": str(path), "start_s": 0.0, "loop": False}, 2, 6), to(3), to(2, 20.2))
    assert sum(column(result, "topic", "arrived")) == result.metrics.records_out == 5000


def test_a_failure_afterwards_reads_again_what_each_had_read() -> None:
    result = run(topic(steady(600.0), 1), to(3), Failure(at_s=20.0, host="h0", recover_after_s=1.0))
    assert result.metrics.records_out - result.duplicates == pytest.approx(600 * 30, abs=20)
    assert result.duplicates > 0


@pytest.mark.parametrize("law", [steady(1500.0), POISSON])
def test_a_run_is_the_same_however_code_runs(law: Any) -> None:
    data = dict(topic(law, 2, 7)) | {"engine": engine("restart")}
    scenario = Scenario.of(parse(Deployment, data), RunSettings(horizon_s=30, period_s=1), [to(4), to(3, 18.0)])
    same_however(scenario)


@pytest.mark.parametrize("how", ["live", "reactive"])
def test_only_a_savepoint_deals_partitions_anew(how: str) -> None:
    with pytest.raises(BadInput, match="only a restart with a savepoint deals anew"):
        run(topic(POISSON, 2), to(4), how=how)


def test_who_brings_event_times_is_scaled_by_a_restart() -> None:
    """Each window is checked after the run, as always."""
    scale = {"kind": "scale", "operator": "source", "placement": ["ends", "ends"], "at_s": 3.0}
    run = simulate(event_jobs.job(events=[scale], engine=engine("restart")))
    assert len({row["subtask"] for row in run.subtask_rows if row["operator"] == "source"}) == 2


def reading(partitions: int, parallelism: int, law: Any, **more: Any) -> Deployment:
    topic = {"kind": "kafka-source", "name": "source", "partitions": partitions, "service_time_s": 0} | more
    return deployment([topic, sink()], [("source", "sink")], {"source": law}, placement={"source": {"h": parallelism}})


def settings(horizon_s: float = 20.0) -> RunSettings:
    return RunSettings(horizon_s=horizon_s, warmup_s=horizon_s / 4, period_s=horizon_s / 8)


def ran(job: Deployment) -> Run:
    return simulate(Scenario.of(job, settings()))


@pytest.mark.parametrize(("partitions", "parallelism"), [(6, 4), (6, 3), (2, 5), (1, 1)])
def test_subtasks_read_whole_partitions(partitions: int, parallelism: int) -> None:
    """Of even arrivals, what each subtask takes is its number of partitions, to a record."""
    job = reading(partitions, parallelism, {"law": "constant", "rate_per_s": 10 * partitions})
    world = world_of(job, settings())
    world.advance(20.0)
    each = [len(range(k, partitions, parallelism)) for k in range(parallelism)]
    taken = [task.records_in for task in world.tasks["source"]]
    assert all(abs(got - 200 * count) <= 1 for got, count in zip(taken, each, strict=True))


def test_what_the_busiest_cannot_read_lags_and_the_others_do_not() -> None:
    """Of three partitions of 100/s, the subtask that reads two lags at 150/s, and the other does not."""
    found = ran(reading(3, 2, 300, service_time_s=1 / 150, service_scv=0))
    assert found.metrics.throughput_per_s == pytest.approx(250, rel=0.05)
    assert found.metrics.backpressured
    uneven, lag = found.warnings
    assert "2 subtasks read 3 partitions, so some read 2 and others 1" in uneven
    assert "partition of subtask 0 are unread" in lag


def test_subtasks_beyond_the_partitions_add_nothing() -> None:
    """Four subtasks more than two partitions add nothing to the rate."""
    law, service_s = 300, 1 / 100
    found = ran(reading(2, 6, law, service_time_s=service_s, service_scv=0))
    assert found.metrics.throughput_per_s == pytest.approx(200, rel=0.02)
    assert "4 of 6 subtasks read none of its 2 partitions" in found.warnings[0]
    for partitions, parallelism in ((2, 6), (2, 2)):
        scenario = Scenario.of(reading(partitions, parallelism, law, service_time_s=service_s), settings())
        assert RateModel().predict(scenario, [scenario.plan])["throughput_per_s"][0] == pytest.approx(200, rel=0.01)


def test_what_cannot_be_dealt_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "times.csv"
    path.write_text("time_s\n" + "\n".join(str(k / 10) for k in range(100)))
    law = {"law": "replay", "path": str(path)}
    ran(reading(6, 3, law))
    with pytest.raises(BadInput, match="use a number of subtasks that divides 6"):
        ran(reading(6, 4, law))
    with pytest.raises(BadInput, match="'source' has partitions"):
        NumaJob(reading(6, 3, 10))
