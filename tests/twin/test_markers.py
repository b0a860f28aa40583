"""Latency markers wait as records do, but skip windows and services."""

from __future__ import annotations

import math
from typing import Any

import pytest

from tests.twin.worlds import chain, deployment, simulated, sink, source
from twin.metrics import MarkerAge, by_operator, by_source, marker_ages
from twin.rates.model import RateModel, markers_of
from twin.scenario import RunSettings, Scenario
from twin.simulation import simulate


def work(name: str, load: float, **more: Any) -> dict[str, Any]:
    return {"kind": "filter", "name": name, "selectivity": 1, "service_time_s": load / 1000, "service_scv": 1} | more


def ages(job: Any, horizon_s: float = 40, seed: int = 1) -> dict[str, float]:
    return by_operator(
        simulated(job, horizon_s=horizon_s, warmup_s=horizon_s / 4, period_s=horizon_s / 4, seed=seed).markers
    )


def test_a_window_does_not_hold_markers_up() -> None:
    """A window does not delay markers, though results are half a second old: they wait for two services."""
    window = {
        "kind": "aggregate",
        "name": "window",
        "window": {"policy": "time", "size_s": 1.0},
        "service_time_s": 4e-4,
    }
    found = ages(chain([work("before", 0.5), window | {"service_scv": 1}], 1000), 20)
    expected_s = 0.5 * 1e-3 + 0.4 * 4e-4 / 0.6
    assert found["window"] == pytest.approx(expected_s, rel=0.2)
    assert found["sink"] == pytest.approx(found["window"], abs=1e-6)


def test_the_rate_model_says_what_a_saturated_run_does() -> None:
    """Full channels before the bottleneck delay markers as they do records, by runs and by the rate model."""
    settings = RunSettings(horizon_s=30, warmup_s=15, period_s=5)
    scenario = Scenario.of(chain([work("easy", 0.5), work("hard", 1.3)], 1000), settings)
    said = by_operator(markers_of(RateModel().answer(scenario, [scenario.plan]), scenario.query))
    run = by_operator(simulate(scenario).markers)
    assert run == pytest.approx(said, rel=0.02)
    assert run["hard"] == pytest.approx(2 * run["easy"], rel=0.02), "two channels of as many credits"


def test_where_ways_meet_there_are_markers_of_each() -> None:
    """Where ways meet, the mean of both ways of one source is apart from that of a second source."""
    operators = [source("a"), source("b"), work("slow", 0.9), work("quick", 0.3), work("meet", 0.0), sink()]
    streams = [("a", "slow"), ("a", "quick"), ("slow", "meet"), ("quick", "meet"), ("b", "meet"), ("meet", "sink")]
    rates = {"a": 1000, "b": 100}
    job = deployment(operators, streams, rates)
    took_s = {("a", "slow"): 3.0, ("a", "quick"): 1.0, ("slow", "meet"): 2.0, ("b", "meet"): math.nan}
    found = by_source(marker_ages(job.query, took_s))
    assert found["meet"] == {"a": 3.0, "b": None} and found["sink"] == {"a": 3.0, "b": None}
    assert by_operator(marker_ages(job.query, took_s))["sink"] == 3.0, "what is not known is no part of a mean"
    run = ages(job, 16)
    assert run["meet"] == pytest.approx((run["slow"] + run["quick"]) / 2 / 2, rel=0.05), "b's did not wait"


def test_a_source_has_none_and_no_record_is_no_age() -> None:
    assert marker_ages(chain([work("only", 0.1)], 10).query, {})[0] == MarkerAge("only", "source", 0.0)
    never = chain([work("all", 0.1, selectivity=0.0), work("none", 0.1)], 100)
    assert "none" not in ages(never, horizon_s=4) and ages(never, horizon_s=4)["all"] >= 0.0
