"""Which runs are followed tuple by tuple."""

from __future__ import annotations

import pytest

from tests.twin.test_rate_batches import job
from tests.twin.worlds import chain, deployment, sink, source
from twin.deployment import Deployment
from twin.guards.fidelity import settled
from twin.profiles import STORM
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


def crowd(share: float, **settings: object) -> Scenario:
    """24 tasks on a core, of which they take that share; an exact run is five times the work of a fast one."""
    chain = (
        Source(name="in", service_time_s=1e-5),
        Map(name="work", service_time_s=share / 1_000.0 - 2e-5),
        Sink(name="out", service_time_s=1e-5),
    )
    deployment = job(*chain, rate_per_s=1_000.0, replicas=8, engine=STORM, cores=1.0)
    return Scenario.of(deployment, SETTINGS.model_copy(update={"horizon_s": 60.0})).with_run(**settings)


@pytest.mark.parametrize(("share", "fidelity"), [(0.5, "fast"), (0.7, "fast"), (0.95, "exact")])
def test_where_tasks_crowd_on_a_nearly_full_processor_more_is_spent(share, fidelity):
    assert settled(crowd(share)).run.fidelity == fidelity


def test_a_fast_run_there_and_an_exact_one_on_the_brink_say_how_uncertain_they_are():
    fast, exact = (simulate(crowd(0.985, fidelity=each, horizon_s=20.0)) for each in ("fast", "exact"))
    assert "set fidelity: exact" in " ".join(fast.warnings)
    assert "from one seed to another" in " ".join(exact.warnings)
    assert not simulate(crowd(0.9, fidelity="exact", horizon_s=20.0)).warnings


@pytest.mark.parametrize(("share", "fidelity"), [(0.5, "fast"), (0.95, "exact")])
def test_what_runs_as_one_is_judged_by_all_of_its_work(share, fidelity):
    apart = crowd(share)
    fused = apart.with_plan(apart.plan.model_copy(update={"fused": (("work", "out"),)}))
    assert settled(fused).run.fidelity == fidelity


def fidelities_that_tell(words: str, job: Deployment, **settings: float) -> list[str]:
    """In which a job that keeps up is run with a warning of these words."""
    found = []
    for fidelity in ("exact", "fast"):
        run = simulate(Scenario.of(job, RunSettings(**settings)).with_run(fidelity=fidelity))
        assert not run.metrics.backpressured
        found += [fidelity] if any(words in line for line in run.warnings) else []
    return found


@pytest.mark.parametrize(("groups", "held_up"), [(100, False), (1000, True)])
def test_sources_that_fall_behind_in_bursts_are_told_of(groups: int, held_up: bool) -> None:
    """A window of more results than the channels hold blocks its task, and that the source, which catches up."""
    window = {"policy": "time", "size_s": 1, "slide_s": 1}
    count = {"kind": "aggregate", "name": "count", "group_by": "int", "groups": groups, "window": window}
    slow = {"kind": "map", "name": "slow", "service_time_s": 1e-3}
    engine = STORM.model_copy(update={"channel_tuples": 64}).model_dump(mode="json")
    job = chain([count, slow], 500.0, engine=engine)
    told = fidelities_that_tell("source: it keeps up, but is blocked", job, horizon_s=20, warmup_s=4, period_s=4)
    assert told == (["fast"] if held_up else [])


@pytest.mark.parametrize(("selectivity", "blocked"), [(0.02, False), (0.05, True)])
def test_joins_that_their_results_block_are_told_of(selectivity: float, blocked: bool) -> None:
    """200 tuples a side have 800 or 2,000 matches, and a channel holds 1,024: the sources' tuples wait in theirs."""
    window = {"policy": "time", "size_s": 5, "slide_s": 5}
    join = {"kind": "join", "name": "j", "window": window, "selectivity": selectivity}
    slow = {"kind": "map", "name": "slow", "service_time_s": 1e-3}
    streams = [("s", "j"), ("t", "j"), ("j", "slow"), ("slow", "sink")]
    job = deployment([source("s"), source("t"), join, slow, sink()], streams, {"s": 40, "t": 40})
    told = fidelities_that_tell("j: its own results block it", job, horizon_s=40, warmup_s=5, period_s=5)
    assert told == (["fast"] if blocked else [])
