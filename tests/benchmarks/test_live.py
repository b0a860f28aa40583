"""Benchmarks of real engines: ages over restarts, effects of events on results, markers that wait for a flush."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from benchmarks.real import pdsp
from benchmarks.real.live.judging import _bears, _course, measured_course, with_event
from benchmarks.real.live.measuring import EVENT_S, FIRST, SETS, Measured, _ages
from benchmarks.real.local.flink import RESTART_S
from benchmarks.real.pdsp import HOP_MS, said_of, scenario
from streamtwin.connect.importers.flink_scenario import ImportedJob
from tests.scenarios.calibration.engines import job
from twin.scenario import Scenario


def a_job() -> Scenario:
    operators = [
        {"name": "s", "kind": "source"},
        {"name": "work", "kind": "map", "service_time_s": 0.001},
        {"name": "k", "kind": "sink"},
    ]
    return job(operators, [("s", "work"), ("work", "k")], {"s": 500.0}, {"s": "h", "work": "h", "k": "h"})


def run_of(ages: np.ndarray, aged_s: np.ndarray) -> Measured:
    return Measured("", 1.0, ImportedJob(a_job(), (), ()), ages, (0.0, 1.0), 2, 1.0, aged_s)


def test_counts_go_on_where_an_attempt_began_anew(tmp_path: Path) -> None:
    file = tmp_path / "ages.csv"
    file.write_text("1000,0,0,0,\n2000,3,60,50, 10 15 25\n6000,2,30000,1000, 400 600\n7000,4,40000,2000, 400 600\n")
    ages, aged_s = _ages(file, start_s=1.0, window_s=(0.0, 1.5))
    assert ages[:, 0].tolist() == [0.0, 1.0, 5.0, 6.0]
    assert ages[:, 1].tolist() == [0.0, 3.0, 5.0, 7.0]
    assert ages[-1, 2:].tolist() == [40.06, 2.05]
    run = run_of(ages, aged_s)
    assert run.latency_s == pytest.approx(0.05 / 3), "each age is of a result that is counted"
    assert (run.quantile_s(0.5), run.quantile_s(1.0)) == (0.015, 0.025)


def test_an_outage_is_seen_in_what_comes_late() -> None:
    """The course of results shows an outage: none for 3 s, then ones 3 s old, which are caught up within 4 s."""
    before = np.arange(0.25, EVENT_S + 0.1, 0.25)
    after = np.arange(EVENT_S + 3.0, EVENT_S + 20.0, 0.25)
    times = np.concatenate([before, after])
    late = np.clip(3.0 - 0.75 * (times - EVENT_S - 3.0), 0.2, 3.0)
    ages_s = np.where(times > EVENT_S, late, 0.2)
    counts = np.full(len(times), 100.0)
    found = _course(times, counts, counts * ages_s)
    assert found.silent_s == pytest.approx(3.0) and found.oldest_s == pytest.approx(3.0)
    assert found.made_up_s == pytest.approx(3.0 + 2.0 / 0.75, abs=0.3)
    sums = np.cumsum(np.column_stack([counts, counts * ages_s, counts * ages_s]), axis=0)
    assert found.after_per_s == pytest.approx(0.0), "they ended before"
    run = run_of(np.column_stack([times, sums]), np.ones(1))
    assert measured_course(run) == pytest.approx(found, abs=0.3)


def test_an_event_is_one_of_the_twin() -> None:
    (fails, _), (rescaled, _) = FIRST.events
    given = with_event(a_job(), rescaled, deployed_s=0.5, submitted_s=2.0)
    assert [(event.kind, event.at_s) for event in given.events] == [("scale", EVENT_S)]
    assert (given.engine.rescaling.how, given.engine.rescaling.redeploy_s) == ("reactive", 0.5)
    failure = with_event(a_job(), fails, deployed_s=0.5, submitted_s=2.0).events[0]
    assert (failure.kind, failure.recover_after_s) == ("failure", RESTART_S + 0.5)
    savepoint = with_event(a_job(), replace(rescaled, event="savepoint"), deployed_s=0.5, submitted_s=2.0)
    assert (savepoint.engine.rescaling.how, savepoint.engine.rescaling.redeploy_s) == ("restart", 2.0)


def test_points_beyond_those_calibrated_on_are_predicted() -> None:
    for jobs in SETS.values():
        names = [shape.folder(rate) for shape in jobs.shapes for rate in shape.rates]
        assert len(set(names)) == len(names)
        assert all(len(shape.fitted) == 2 and len(shape.predicted) >= 2 for shape in jobs.shapes)
        assert all(alike in jobs.shapes for _, alike in jobs.events)


def test_the_twin_bears_what_its_slowest_operator_does() -> None:
    assert _bears(a_job()) * 500 == pytest.approx(1000, rel=0.02), "1 ms a record"


ROW = {
    "application": "Sentiment Analysis",
    "variant": "",
    "parallelism": "10,2,2,1",
    "cores_per_node": "16",
    "clock_ghz": "2.8",
}


def test_markers_of_an_idle_job_wait_for_the_flush_at_every_hop() -> None:
    idle = said_of(scenario({**ROW, "offered_per_s": "10"}))[1]
    assert idle == pytest.approx(HOP_MS * (1 + 2 + 3 + 4), rel=0.01)  # two operators, writer, and the committer


def test_bursts_leave_markers_waiting_for_flushes_where_a_steady_stream_fills_buffers(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    job = scenario({**ROW, "offered_per_s": "100000"})
    in_bursts, idle = said_of(job)[1], HOP_MS * (1 + 2 + 3 + 4)
    monkeypatch.setattr(pdsp, "ALWAYS", 0.0)
    assert said_of(job)[1] < 0.9 * in_bursts < 0.9 * idle
