"""Rate model's delay of results, and its checkpoints: beside exact runs of small jobs that keep up."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.twin.worlds import chain, deployment, sink, source
from twin.checkpoints import Checkpoints
from twin.deployment import Deployment
from twin.metrics import DELAY
from twin.rates.model import RateModel
from twin.scenario import RunSettings, Scenario
from twin.simulation import simulate

RATE = {"law": "poisson", "rate_per_s": 200.0}
SEEDS = 6


def window(name: str = "window", **more: Any) -> dict[str, Any]:
    """Aggregate of windows of a second, of four groups."""
    size = {"policy": "time", "size_s": 1.0, **more}
    return {"kind": "aggregate", "name": name, "window": size, "groups": 4, "group_by": "int", "service_time_s": 0.0005}


MAP = {"kind": "map", "name": "map", "service_time_s": 0.002}
SESSION = {"kind": "session", "name": "session", "gap_s": 0.3, "keys": 400, "key_groups": 4, "service_time_s": 0.0002}
LATE = {"slack_s": 0.4, "disorder_s": 0.2}
COUNT = {**window(), "window": {"policy": "count", "size_records": 20}, "groups": 1, "group_by": None}
JOBS: dict[str, Deployment] = {
    "no window": chain([MAP], RATE),
    "a window of processing time": chain([MAP, window()], RATE),
    "windows in a row": chain([window(), MAP, window("again")], RATE),
    "records counted": chain([COUNT, MAP], RATE),
    "a session": chain([SESSION, MAP], RATE),
    "event time": deployment(
        [source("s", **LATE), window(time="event"), sink("k")], [("s", "window"), ("window", "k")], {"s": RATE}
    ),
    "event time, twice": deployment(
        [source("s", **LATE), window(time="event"), window("again", time="event"), sink("k")],
        [("s", "window"), ("window", "again"), ("again", "k")],
        {"s": RATE},
    ),
}


@pytest.mark.parametrize("name", JOBS)
def test_delays_are_those_of_runs(name: str) -> None:
    """The mean delay is within a fifth, and four standard errors over seeds, of what exact runs show."""
    settings = RunSettings(horizon_s=60.0, warmup_s=10.0, period_s=5.0)
    job = Scenario.of(JOBS[name], settings)
    said_s = RateModel().predict(job, [job.plan])[DELAY][0]
    runs_s = [simulate(job.with_run(seed=seed)).metrics.value(DELAY) for seed in range(SEEDS)]
    error_s = np.std(runs_s, ddof=1) / np.sqrt(SEEDS)
    assert abs(said_s - np.mean(runs_s)) < 0.2 * np.mean(runs_s) + 4 * error_s + 1e-6


@pytest.mark.parametrize("name", ["no window", "a window of processing time", "event time"])
def test_no_delay_is_longer_than_the_latency_and_none_is_without_windows(name: str) -> None:
    job = Scenario.of(JOBS[name], RunSettings(horizon_s=60.0))
    found = RateModel().predict(job, [job.plan])
    delay_s, latency_s = found[DELAY][0], found["processing_latency_s"][0]
    assert delay_s == pytest.approx(latency_s) if name == "no window" else delay_s < latency_s


def test_a_barrier_finds_work_of_a_burst_only_while_there_is_some() -> None:
    """Results of a window of many groups come at once; records wait for each other, barriers at any time hardly do."""
    many = {**window(), "groups": 2000, "window": {"policy": "time", "size_s": 4.0}}
    slow = {"kind": "map", "name": "after", "service_time_s": 0.001}
    spec = Checkpoints(interval_s=1.7, storage_mbps=1000.0)
    job = Scenario.of(chain([many, slow], {"law": "poisson", "rate_per_s": 300.0}), RunSettings(horizon_s=120.0))
    job = job.model_copy(update={"checkpoints": spec})
    said_s = RateModel().predict(job, [job.plan])["checkpoint_duration_s"][0]
    took_s = [row["end_s"] - row["at_s"] for row in simulate(job).event_rows if row["kind"] == "checkpoint"]
    error_s = np.std(took_s, ddof=1) / np.sqrt(len(took_s))
    assert abs(said_s - np.mean(took_s)) < 0.3 * np.mean(took_s) + 4 * error_s
