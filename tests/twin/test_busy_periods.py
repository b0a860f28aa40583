"""Utilisation of tasks and hosts by period where services are longer than periods, by hand."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from tests.twin.changing import column
from tests.twin.worlds import HOST, chain, simulated
from twin.events import AnyEvent, Failure
from twin.profiles import STORM
from twin.run import Run


def run(
    work: dict[str, Any], gap_s: float, cores: int, parallelism: int = 1, events: Sequence[AnyEvent] = (), **more: Any
) -> Run:
    """Run with a record every `gap_s`, in periods of a second."""
    arrivals = {"law": "constant", "rate_per_s": 1.0 / gap_s}
    host = HOST | {"cpu_percent": 100 * cores, "latency_ms": 0}
    what = chain([{"name": "work"} | work], arrivals, hosts=[host], placement={"work": ["h"] * parallelism}, **more)
    return simulated(what, *events, horizon_s=40.0, period_s=1.0, warmup_s=0.0)


def used(result: Run) -> np.ndarray:
    """Utilisation of the host in each period."""
    return np.array([row["cpuUtilisation"] for row in result.host_rows])


def overlaps(starts_s: np.ndarray, each_s: float, periods: int = 40) -> np.ndarray:
    """Part of each period that lies within any of the spans."""
    edges = np.arange(periods)[:, None]
    return np.clip(np.minimum(starts_s + each_s, edges + 1) - np.maximum(starts_s, edges), 0.0, None).sum(axis=1)


def slow(service_s: float) -> dict[str, Any]:
    return {"kind": "map", "service_time_s": service_s, "service_scv": 0}


CORES = pytest.mark.parametrize("cores", [1, 8], ids=["shared", "of its own"])


@CORES
def test_a_host_is_used_when_services_are_done_not_when_they_begin(cores: int) -> None:
    result = run(slow(3.25), gap_s=5.0, cores=cores)
    assert used(result) == pytest.approx(overlaps(np.arange(5.0, 40.0, 5.0), 3.25) / cores)


def test_tasks_that_share_a_host_use_all_of_it_and_no_more() -> None:
    """Three tasks that have work all the time use two cores fully, and no more."""
    result = run(slow(3.25), gap_s=0.25, cores=2, parallelism=3)
    assert used(result)[2:] == pytest.approx(1.0)
    assert used(result).max() <= 1.0 + 1e-9


@CORES
def test_a_host_is_used_when_windows_are_evaluated(cores: int) -> None:
    """A host is used while windows are evaluated: each 10 s, for 2.5 s."""
    window = {"kind": "aggregate", "window": {"policy": "time", "size_s": 10.0}}
    engine = STORM.model_copy(update={"result_us": 2.5e6}).model_dump(mode="json")
    result = run(window, gap_s=2.0, cores=cores, engine=engine)
    assert used(result) == pytest.approx(overlaps(np.array([10.0, 20.0, 30.0]), 2.5) / cores, abs=0.005)  # and records


def busy(result: Run) -> np.ndarray:
    """Busy share of the operator's subtasks in each period."""
    return np.array(column(result, "work", "busyTimeMsPerSecond")) / 1000.0


@CORES
def test_a_task_is_busy_in_the_periods_in_which_it_works(cores: int) -> None:
    result = run(slow(2.25), gap_s=5.0, cores=cores)
    assert busy(result) == pytest.approx(overlaps(np.arange(5.0, 40.0, 5.0), 2.25))


@CORES
def test_a_task_that_fails_was_busy_until_then(cores: int) -> None:
    """A task was busy until its failure, half a second after a service began; there is no other afterwards."""
    result = run(slow(2.25), gap_s=5.0, cores=cores, events=[Failure(host="h", at_s=5.5)])
    assert busy(result) == pytest.approx([0.0] * 5 + [0.5] + [0.0] * 34)
