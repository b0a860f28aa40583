"""What a run over event time says of itself: tuples that are in no window, time that stands still, chance."""

from __future__ import annotations

from typing import Any

import pytest

from tests.twin.event_jobs import compute, consolidate, ended, job, sink, source
from twin.scenario import Scenario
from twin.simulation import simulate

BOTH = [("source", "compute"), ("other", "compute"), ("compute", "merge"), ("merge", "sink")]


def test_late_tuples_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """As many as the computes left out; none where the slack covers the disorder."""
    operators = [source(disorder_s=0.8, slack_s=0.1), compute(), consolidate(), sink()]
    run, world = ended(job(operators), monkeypatch)
    late = len(world.audits["compute"].late)
    assert late and any(f"compute: {late:,} of " in each and "larger slack_s" in each for each in run.warnings)
    operators[0] = source(disorder_s=0.8, slack_s=0.8)
    assert not any("slack_s" in each for each in simulate(job(operators)).warnings)


def two_sources(other: dict[str, Any], **run: Any) -> Scenario:
    operators = [source(), source("other"), compute(), consolidate(windows=[{"length_s": 2}]), sink()]
    given = job(operators, BOTH, horizon_s=20.0, period_s=2.0, **run)
    return Scenario.model_validate(
        given.model_dump() | {"workload": {"arrivals": given_laws(given) | {"other": other}}}
    )


def given_laws(given: Scenario) -> dict[str, Any]:
    return {name: law.model_dump() for name, law in given.workload.arrivals.items()}


def test_a_source_that_falls_silent_holds_all_windows() -> None:
    """Nothing comes out any more, and the run says why."""
    silent = {"law": "steps", "steps": [{"at_s": 0, "rate_per_s": 20}, {"at_s": 7, "rate_per_s": 0}]}
    run = simulate(two_sources(silent))
    results = [row["latencyCount"] for row in run.operator_rows if row["operator"] == "sink"]
    assert sum(results[:5]) > 0 and not sum(results[5:])
    assert any("no tuple came from 'other' since 8 s" in each for each in run.warnings)
    going_on = simulate(two_sources({"law": "poisson", "rate_per_s": 20}))
    assert not any("event time stops" in each for each in going_on.warnings)


def test_standard_errors_are_of_the_sinks_alone() -> None:
    """Every window has each of the twelve keys: as many results every two seconds, whatever comes."""
    run = simulate(two_sources({"law": "poisson", "rate_per_s": 60}))
    assert run.standard_errors.throughput_per_s == 0.0
    assert run.standard_errors.e2e_latency_s is not None and run.standard_errors.e2e_latency_s < 0.1
