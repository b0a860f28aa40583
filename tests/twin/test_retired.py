"""Scenarios of versions that could also simulate coarsely: they run, and name once what can be left out."""

from __future__ import annotations

import warnings
from typing import Any

import pytest

from scenarios.files.scenario_file import set_values
from tests.twin.worlds import queue
from twin.retired import Retired
from twin.scenario import RunSettings, Scenario
from twin.spec import parse


@pytest.mark.parametrize("retired", [{"fidelity": "fast"}, {"fidelity": "auto", "segments": 2000}])
def test_settings_that_are_gone_are_passed_over_and_told(retired: dict[str, Any]) -> None:
    with pytest.warns(Retired, match="can be left out: every run is exact"):
        found = parse(RunSettings, {"horizon_s": 60.0, **retired})
    assert found == RunSettings(horizon_s=60.0)


def test_assignments_of_them_change_nothing() -> None:
    scenario = Scenario.of(queue(100, 0.5, 1))
    with pytest.warns(Retired):
        assert set_values(scenario, ["run.fidelity=exact", "run.segments=500"]) == scenario


def test_nothing_else_is_told() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        parse(RunSettings, {"horizon_s": 60.0})
