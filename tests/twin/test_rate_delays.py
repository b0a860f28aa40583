"""Rate model's delay of results, and its checkpoints: beside exact runs of small jobs that keep up."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.twin.worlds import chain, deployment, sink, source
from twin.checkpoints import Checkpoints
from twin.deployment import Deployment
from twin.metrics import DELAY
from twin.profiles import FLINK
from twin.rates.channels import MeasuredSpan
from twin.rates.latency import longest
from twin.rates.load import LOGISTIC, come_by
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


@pytest.mark.parametrize(("lag_s", "spread_s"), [(2.0, 0.0), (2.0, 0.5), (12.0, 3.0), (14.0, 0.0)])
@pytest.mark.parametrize("start_s", [0.0, 4.0])
def test_results_come_by_logistic_lags(lag_s: float, spread_s: float, start_s: float) -> None:
    """The share of the steady output that comes in a run of 10 s is that of drawn lags, within four standard errors;
    without spread, it is what is left of the run."""
    rng, measured = np.random.default_rng(1), MeasuredSpan(start_s, 10.0)
    lags_s = rng.logistic(lag_s, LOGISTIC * spread_s, 100_000)
    each = (np.maximum(10.0 - lags_s, 0.0) - np.maximum(start_s - lags_s, 0.0)) / measured.length_s
    said = float(come_by(np.array([lag_s]), np.array([spread_s]), measured)[0])
    assert abs(said - each.mean()) < 4 * each.std() / np.sqrt(len(each)) + 1e-6


@pytest.mark.parametrize(("rho", "several"), [(0.3, 1), (0.3, 4), (0.8, 8), (1.0, 16)])
def test_the_longest_of_several_waits(rho: float, several: int) -> None:
    """Waits that are 0 or exponential: the mean of the longest is within four standard errors of drawn ones."""
    rng = np.random.default_rng(several)
    drawn = np.where(rng.random((40_000, several)) < rho, rng.exponential(1.0 / rho, (40_000, several)), 0.0)
    most = drawn.max(axis=1)
    said = float(longest(np.array(rho), np.array(several)))
    assert abs(said - most.mean()) < 4 * most.std() / 200.0


def test_a_barrier_has_the_work_of_the_buffers_that_it_sends_on() -> None:
    """What waits in buffers for the flush comes just before a barrier: half a flush of records at each operator."""
    slow = [{"kind": "map", "name": name, "service_time_s": 0.01, "service_scv": 0.0} for name in ("one", "two")]
    engine = FLINK.model_dump(mode="json") | {"flush_s": 0.2, "chaining": False}
    spec, took_s = Checkpoints(interval_s=3.0), list[float]()
    job = Scenario.of(chain(slow, {"law": "poisson", "rate_per_s": 40.0}, engine=engine), RunSettings(horizon_s=100.0))
    job = job.model_copy(update={"checkpoints": spec})
    said_s = RateModel().predict(job, [job.plan])["checkpoint_duration_s"][0]
    for seed in range(SEEDS):
        rows = simulate(job.with_run(seed=seed)).event_rows
        took_s += [row["end_s"] - row["at_s"] for row in rows if row["kind"] == "checkpoint"]
    error_s = np.std(took_s, ddof=1) / np.sqrt(len(took_s))
    assert said_s > 0.08 and abs(said_s - np.mean(took_s)) < 0.15 * np.mean(took_s) + 4 * error_s


@pytest.mark.parametrize("mode", ["aligned", "unaligned"])
@pytest.mark.parametrize("cores", [8, 1])
def test_a_checkpoint_waits_for_the_slowest_of_many_subtasks(mode: str, cores: int) -> None:
    """Eight subtasks on each of three hosts, with work of a checkpoint of 20 ms each, on many cores or on one."""
    slow = {"kind": "map", "name": "slow", "service_time_s": 0.02}
    work = {"kind": "keyed-state", "name": "work", "service_time_s": 0.02, "keys": 1000, "key_groups": 96}
    alike = {"ram_mb": 8000, "bandwidth_mbps": 1000, "latency_ms": 1}
    hosts = [{"name": name, "cpu_percent": 100.0 * cores} | alike for name in ("h0", "h1", "h2", "h")]
    places = {name: ["h0", "h1", "h2"] * 8 for name in ("slow", "work")}
    job = chain([slow, work], {"law": "poisson", "rate_per_s": 40.0 * cores}, placement=places, hosts=hosts)
    spec = Checkpoints(interval_s=3.0, mode=mode, sync_ms=20.0)
    run = Scenario.of(job, RunSettings(horizon_s=100.0)).model_copy(update={"checkpoints": spec})
    said_s = RateModel().predict(run, [run.plan])["checkpoint_duration_s"][0]
    took_s = [row["end_s"] - row["at_s"] for row in simulate(run).event_rows if row["kind"] == "checkpoint"]
    error_s = np.std(took_s, ddof=1) / np.sqrt(len(took_s))
    assert abs(said_s - np.mean(took_s)) < 0.35 * np.mean(took_s) + 4 * error_s, (said_s, np.mean(took_s))
