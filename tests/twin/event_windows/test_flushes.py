"""Watermarks and network buffers: watermarks wait for flushes as records do, and the rate model knows for how long."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.twin.event_jobs import compute, consolidate, job, sink, source
from twin.metrics import DELAY
from twin.profiles import FLINK
from twin.rates.model import RateModel
from twin.scenario import Scenario
from twin.simulation import simulate

SEEDS = 8
KEYS = {"keys": 12, "key_groups": 4}
TABLE = {"kind": "temporal-join", "name": "join", "side": "rows", "time": "event", "service_time_s": 1e-4}
LATE = {"disorder_s": 0.5, "slack_s": 0.5}
CALLS = {"kind": "async", "name": "calls", "latency_s": 0.2, "latency_scv": 0.5, "capacity": 1000, "service_time_s": 0}


def flink(flush_s: float) -> dict[str, Any]:
    """Flink without chaining, so that each stream has buffers."""
    return FLINK.model_dump(mode="json") | {"flush_s": flush_s, "chaining": False, "watermark_interval_s": 0.02}


def delays_s(scenario: Scenario) -> np.ndarray:
    """Mean delay of results in runs with other seeds, as flushes have other phases."""
    return np.array([simulate(scenario.with_run(seed=seed)).metrics.value(DELAY) for seed in range(SEEDS)])


def test_a_watermark_waits_half_a_flush_on_each_stream_like_records() -> None:
    """Flink writes watermarks into the buffers of records, and only its barriers send these on. So results of windows
    come half a flush later for the watermark's way, and half a flush for their own."""
    operators = [source(), compute(windows=[{"length_s": 1}]), sink()]
    alone = {"compute": "h0", "sink": "ends", "source": "h1"}
    some, none = (
        delays_s(job(operators, engine=flink(flush_s), placement=alone, rate_per_s=200, horizon_s=20, warmup_s=2))
        for flush_s in (0.4, 1e-4)
    )
    more_s = some - none
    assert more_s.mean() == pytest.approx(0.4, abs=4 * more_s.std(ddof=1) / np.sqrt(SEEDS) + 0.01)


ALONE = {"source": "ends", "rows": "ends", "sink": "ends", "join": "h0"}
JOBS: dict[str, tuple[list[dict[str, Any]], list[tuple[str, str]] | None, dict[str, Any], dict[str, Any]]] = {
    "several subtasks flush": ([source(), compute(windows=[{"length_s": 1}]), sink()], None, {}, {}),
    "partial results": ([source(), compute(), consolidate(), sink()], None, {}, {}),
    "windows on the way of a table": (
        [source(), source("rows"), compute("late", windows=[{"length_s": 2}]), TABLE | {"side": "late"}, sink()],
        [("source", "join"), ("rows", "late"), ("late", "join"), ("join", "sink")],
        ALONE,
        {},
    ),
    "records out of order and a table": (
        [source(**LATE), source("rows"), TABLE, sink()],
        [("source", "join"), ("rows", "join"), ("join", "sink")],
        ALONE,
        {},
    ),
    "calls on the way": (
        [source(), CALLS, compute(windows=[{"length_s": 1}]), sink()],
        None,
        {"calls": "h2"},
        {},
    ),
    "a source that often has nothing": (
        [source(idle_s=0.3), compute(windows=[{"length_s": 1}]), sink()],
        None,
        {"source": {"ends": 4}},
        {"rate_per_s": 4.0, "horizon_s": 120.0},
    ),
    "aggregates of rows, then windows": (
        [
            source(disorder_s=0.2, slack_s=0.3),
            {"kind": "over-aggregate", "name": "over", "rows": 3, "time": "event", "service_time_s": 1e-4, **KEYS},
            compute(windows=[{"length_s": 1}]),
            sink(),
        ],
        None,
        {},
        {},
    ),
}


@pytest.mark.parametrize("name", JOBS)
def test_rates_know_when_watermarks_come(name: str) -> None:
    """The rate model's delay is within a sixth, and four standard errors over seeds, of that of exact runs."""
    operators, streams, placement, more = JOBS[name]
    run = {"rate_per_s": 100.0, "horizon_s": 20.0} | more
    made = job(operators, streams, placement=placement, engine=flink(0.1), warmup_s=2, **run)
    said_s = float(RateModel().predict(made, [made.plan])[DELAY][0])
    found_s = delays_s(made)
    error_s = found_s.std(ddof=1) / np.sqrt(SEEDS)
    assert abs(said_s - found_s.mean()) < found_s.mean() / 6 + 4 * error_s, (said_s, found_s.mean())
