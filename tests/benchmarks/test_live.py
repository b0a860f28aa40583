"""The live loop's own arithmetic, without a Flink: ages over restarts, and what an event did to results."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from benchmarks.real.live.events import _course, _with_event, measured_course
from benchmarks.real.live.jobs import EVENT_S, SHAPES
from benchmarks.real.live.measuring import Measured, _ages
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


def test_counts_go_on_where_an_attempt_began_anew(tmp_path: Path) -> None:
    file = tmp_path / "ages.csv"
    file.write_text("1000,0,0,0\n2000,100,5000,4000\n6000,10,30000,1000\n7000,110,40000,2000\n")
    ages = _ages(file, start_s=1.0)
    assert ages[:, 0].tolist() == [0.0, 1.0, 5.0, 6.0]
    assert ages[:, 1].tolist() == [0.0, 100.0, 110.0, 210.0]
    assert ages[-1, 2:].tolist() == [45.0, 6.0]
    run = Measured("", 1.0, ImportedJob(a_job(), (), ()), {}, ages, (0.0, 1.5), 2, 1.0)
    assert run.latencies_s == (0.05, 0.04)


def test_an_outage_is_seen_in_what_comes_late() -> None:
    """Results every quarter of a second, none for 3 s, then 3 s old ones that are made up for within 4 s."""
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
    run = Measured("", 1.0, ImportedJob(a_job(), (), ()), {}, np.column_stack([times, sums]), (0.0, 1.0), 2, 1.0)
    assert measured_course(run) == pytest.approx(found, abs=0.3)


def test_an_event_is_one_of_the_twin() -> None:
    given = _with_event(a_job(), 3.0, rescaled=True, waits=False)
    assert [(event.kind, event.at_s) for event in given.events] == [("scale", EVENT_S)]
    assert (given.engine.rescaling.how, given.engine.rescaling.redeploy_s) == ("reactive", 3.0)
    assert _with_event(a_job(), 3.0, rescaled=False, waits=False).events[0].kind == "failure"


def test_half_of_the_points_of_each_shape_are_predicted() -> None:
    for shape in SHAPES:
        assert len(shape.fitted) == len(shape.predicted) >= 2
        assert not set(shape.fitted) & set(shape.predicted)
