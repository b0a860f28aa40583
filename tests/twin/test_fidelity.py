"""Which runs are followed tuple by tuple."""

from __future__ import annotations

import pytest

from tests.twin.test_rate_batches import job
from twin.guards.fidelity import settled
from twin.query import Map, Sink, Source
from twin.scenario import RunSettings, Scenario
from twin.simulation import simulate

CHAIN = (Source(name="in"), Map(name="work", service_time_s=1e-4), Sink(name="out"))
SETTINGS = RunSettings(horizon_s=20.0, period_s=1.0, seed=4)


def scenario(rate_per_s: float, **settings: object) -> Scenario:
    return Scenario.of(job(*CHAIN, rate_per_s=rate_per_s), SETTINGS).with_run(**settings)


@pytest.mark.parametrize(("rate_per_s", "fidelity"), [(50.0, "exact"), (50_000.0, "fast")])
def test_few_tuples_are_followed_one_by_one(rate_per_s, fidelity):
    found, named = simulate(scenario(rate_per_s)), simulate(scenario(rate_per_s, fidelity=fidelity))
    assert found.manifest["fidelity"] == fidelity
    assert found.operator_rows == named.operator_rows


@pytest.mark.parametrize("fidelity", ["exact", "fast"])
def test_what_is_asked_for_is_done(fidelity):
    asked = scenario(50.0, fidelity=fidelity)
    assert settled(asked) == asked


def test_segments_that_are_asked_for_are_made():
    assert settled(scenario(50.0, segments=500)).run.fidelity == "fast"
