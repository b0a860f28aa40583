"""Scenarios of the library that are made of measured queries of Nexmark."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.real.nexmark.judging import calibrated
from benchmarks.real.nexmark.library import LIGHT, light_of, scenario_of
from scenarios.files.scenario_file import dump, parse_scenario
from tests.benchmarks.test_nexmark import POINTS, point
from twin.errors import BadInput


def test_a_scenario_of_the_library_is_the_imported_job_at_its_calibrated_costs(tmp_path: Path) -> None:
    for rate, saved in POINTS:
        point(tmp_path / f"{rate:.0f}", saved, rate)
    light = light_of(tmp_path)
    assert [each.rate_per_s for each in light] == [rate for rate, _ in POINTS[:LIGHT]]
    made, job = scenario_of("q11", light, "a machine"), light[0].job.scenario
    assert made.name == "nexmark-q11" and "on a machine with Flink" in made.description
    assert [(each.name, each.kind) for each in made.query.operators] == [
        (each.name, each.kind) for each in job.query.operators
    ]
    assert made.workload == job.workload and made.plan.fused == job.plan.fused
    for fitted in calibrated(light, light[0]).query.operators:
        own = made.query.operator(fitted.name)
        assert own.service_time_s == pytest.approx(fitted.service_time_s, rel=0.005), "rounded to three digits"
    assert parse_scenario(dump(made), "text") == made
    assert "grows without bound" not in made.description, "sessions end"


def test_a_query_that_is_not_measured_has_no_scenario(tmp_path: Path) -> None:
    rate, saved = POINTS[0]
    point(tmp_path / f"{rate:.0f}", saved, rate)
    with pytest.raises(BadInput, match=f"has 1 of the {LIGHT} loads"):
        light_of(tmp_path)
