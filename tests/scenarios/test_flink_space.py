"""The space `flink`: its jobs are valid and reproducible, cover all that composes, and keep the laws of a run."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from functools import cache
from typing import Any

import numpy as np
import pytest

from scenarios.spaces import flink
from scenarios.spaces.any_query import DRAWN_KINDS, LEAST_S, MOST_GAIN, OfRun, any_query
from scenarios.spaces.flink import MOST_OPERATORS, MOST_SOURCES, RECORDS, UTILISATION, utilisation
from scenarios.spaces.registry import drawn
from twin.arrivals.laws import Bursty
from twin.deployment import steady_rates
from twin.guards.cautions import updated
from twin.kinds.registry import BY_KIND
from twin.query import Windowed
from twin.randomness import random_stream
from twin.rates.model import RateModel
from twin.run import Run
from twin.scenario import Scenario
from twin.simulation import simulate

JOBS, RUNS = 80, 30
"""Jobs that are drawn, and those of them that are run."""


@cache
def jobs() -> list[Scenario]:
    return [drawn("flink", 3, index) for index in range(JOBS)]


@cache
def run(index: int) -> Run:
    return simulate(jobs()[index])


def test_every_job_passes_the_checks_of_a_file() -> None:
    for job in jobs():
        assert Scenario.model_validate_json(job.model_dump_json()) == job


def test_jobs_are_those_that_flink_takes() -> None:
    """No operator takes changes of rows for new ones, as most versions of Flink SQL refuse that."""
    assert not [words for job in jobs() for words in updated(job.query)]


def test_another_process_draws_the_same_jobs() -> None:
    """Nothing depends on the process, or on the order of a set, which differs between processes."""
    code = "import json\nfrom scenarios.spaces.registry import drawn\n"
    code += "print(json.dumps([drawn('flink', 3, index).model_dump_json() for index in range(2)]))"
    found = subprocess.run(
        [sys.executable, "-c", code], env={**os.environ, "PYTHONHASHSEED": "7"}, capture_output=True, check=True
    )
    assert json.loads(found.stdout) == [job.model_dump_json() for job in jobs()[:2]]


def test_all_kinds_are_drawn() -> None:
    assert set(DRAWN_KINDS) == set(BY_KIND)
    kinds = Counter(each.kind for job in jobs() for each in job.query.operators)
    assert set(kinds) == set(DRAWN_KINDS)
    assert min(kinds.values()) > 5


def test_partial_results_are_pieces_of_the_windows_that_they_make() -> None:
    """What merges has, right before it, an operator that hands over pieces as long as its first window's slide."""
    merging = [(job.query, each) for job in jobs() for each in job.query.operators if each.merges]
    assert len(merging) > 5
    for query, each in merging:
        (stream,) = query.inputs(each.name)
        assert query.operator(stream.producer).piece_s == each.event_windows[0].every_us / 1e6


def test_what_happens_in_a_run_is_a_share_of_its_length() -> None:
    """Flushes, pauses, intervals of watermarks and debloating would fill short runs otherwise."""
    for job in (each for each in jobs() if each.engine.name == "drawn-flink"):
        engine, length_s = job.engine, job.run.horizon_s
        debloat = engine.network_memory.buffer_debloat if engine.network_memory else None
        times_s = [engine.flush_s, engine.watermark_interval_s, engine.noise.gc_pause_s, debloat and debloat.target_s]
        assert all(each_s <= 0.11 * length_s for each_s in times_s if each_s)


def test_jobs_are_of_all_sizes() -> None:
    sources = Counter(len(job.query.sources) for job in jobs())
    assert set(sources) <= set(range(1, MOST_SOURCES + 1)) and max(sources) >= 10 and sources[1] > JOBS / 10
    operators = [len(job.query.operators) for job in jobs()]
    assert max(operators) <= MOST_OPERATORS and max(operators) > 25 and min(operators) <= 4


def test_what_composes_is_there_in_all_its_forms() -> None:
    """Each form is in several jobs: of time, windows, checkpoints, state, engines, arrivals, keys and clusters."""
    found: Counter[str] = Counter()
    for job in jobs():
        windows = [each.window for each in job.query.operators if isinstance(each, Windowed)]
        forms = {f"{each.policy} window, {'tumbling' if each.tumbling else 'sliding'}" for each in windows}
        forms |= {"event time"} if any(each.needs_event_time for each in job.query.operators) else {"no event time"}
        forms |= {f"arrivals {law.law}" for law in job.workload.arrivals.values()}
        forms |= {f"drift {skew.drift_every_s is not None}" for skew in job.workload.keys.values()}
        forms |= {f"partitioning {each.partitioning}" for each in job.query.streams}
        forms |= {f"chaining {job.engine.chaining}", f"stored {job.engine.stores}", f"links {bool(job.cluster.links)}"}
        forms |= {f"pauses {job.engine.noise.gc_interval_s is not None}", f"hosts {min(3, len(job.cluster.hosts))}"}
        forms |= {f"calls lost {not each.calls.sure}" for each in job.query.operators if each.calls is not None}
        if (spec := job.checkpoints) is None:
            forms |= {"no checkpoints"}
        else:
            forms |= {spec.mode, spec.state, spec.sinks, f"storage {spec.storage is not None}"}
        found.update(forms)
    ways = {"tumbling", "sliding"}
    wanted = {f"{policy} window, {way}" for policy in ("time", "count") for way in ways}
    wanted |= {"event time", "no event time", "no checkpoints", "aligned", "unaligned", "full", "incremental"}
    wanted |= {"at-least-once", "exactly-once", "partitioning forward", "partitioning rescale"}
    wanted |= {f"arrivals {law}" for law in ("constant", "poisson", "diurnal", "spikes", "bursty")}
    wanted |= {f"hosts {count}" for count in (1, 2, 3)}
    for each in ("drift", "chaining", "stored", "links", "pauses", "calls lost", "storage"):
        wanted |= {f"{each} {yes}" for yes in (True, False)}
    assert {form for form in wanted if found[form] < 4} == set()


def test_the_dearest_resource_has_the_utilisation_that_was_drawn() -> None:
    used = np.array([utilisation(job) for job in jobs()])
    low, high = UTILISATION
    assert np.mean((used > 0.9 * low) & (used < 1.1 * high)) > 0.95
    middle = (low + high) / 2
    assert 0.3 < np.mean(used < middle) < 0.7
    assert 0.15 < np.mean(used > 1.0) < 0.5


def test_runs_take_about_as_many_records_as_drawn() -> None:
    some = jobs()[:40]
    answers = [RateModel().answer(job, [job.plan]) for job in some]
    lengths_s = np.array([job.run.horizon_s for job in some])
    records = lengths_s * [float(answer.offered_in_per_s.sum()) for answer in answers]
    assert np.mean((records > RECORDS[0] / 3) & (records < 3 * RECORDS[1])) > 0.95


@pytest.mark.parametrize("index", range(RUNS))
def test_runs_keep_the_laws(index: int) -> None:
    """Each run checks itself by the laws of conservation, and its windows over event time by brute force."""
    assert run(index).metrics.records_in > 0
    spec = jobs()[index].checkpoints
    rows = [row for row in run(index).event_rows if row["kind"] == "checkpoint"]
    assert (
        not rows if spec is None else all(row["detail"]["status"] != "failed" or "why" in row["detail"] for row in rows)
    )


def test_most_runs_have_results_and_do_not_crash() -> None:
    assert np.mean([run(index).metrics.success for index in range(RUNS)]) > 0.8


def test_no_operator_of_a_query_sends_more_than_the_most() -> None:
    """By the law of flows, at the rates that it is drawn for."""
    for seed in range(12):
        rng = random_stream(seed, "query")
        query = any_query(rng, {"a": 0.7, "b": 0.3}, 15, 5000.0).query(3600.0, 0.0)
        rates = steady_rates(query, {"a": 0.7 * 5000 / 3600, "b": 0.3 * 5000 / 3600})
        assert max(each.out_per_s for each in rates.values()) <= MOST_GAIN * 5000 / 3600 * (1 + 1e-9)


def test_what_cannot_be_drawn_is_drawn_again() -> None:
    """Drawing may itself refuse what it tries, as the specs within it do."""
    bare, tries = flink._drawn(random_stream(3, "flink"), 3), 0

    def draw() -> dict[str, Any]:
        nonlocal tries
        tries += 1
        if tries < 3:
            raise ValueError("cannot be drawn")
        return {"work": 2.0}

    assert flink._accepted(bare, 10.0, draw).work == 2.0 and tries == 3

    def never() -> dict[str, Any]:
        raise ValueError("cannot be drawn")

    assert flink._accepted(bare, 10.0, never) == bare


def test_windows_slide_by_whole_parts() -> None:
    """Else windows over event time would have panes of microseconds."""
    for share, times, length_s in ((0.0123, 3, 7.7), (1e-9, 4, 1.0), (0.3333, 2, 100.0)):
        whole, part = OfRun(share, times).seconds(length_s), OfRun(share).seconds(length_s)
        assert whole == pytest.approx(times * part) and part >= LEAST_S
    assert OfRun(-0.01).seconds(10.0) == pytest.approx(-0.1)
    windows = [each for job in jobs() for operator in job.query.operators for each in operator.event_windows]
    assert windows and all(each.length_us % each.every_us == 0 for each in windows)


def test_longer_runs_have_the_same_job() -> None:
    """Times of windows are shares of the run, and so are bursts: a job with another length is the same to scale."""
    for index in range(6):
        short, long = (drawn("flink", 3, index, horizon_s) for horizon_s in (10.0, 20.0))
        assert (short.run.horizon_s, long.run.horizon_s) == (10.0, 20.0)
        kinds = [[each.kind for each in job.query.operators] for job in (short, long)]
        assert kinds[0] == kinds[1]
        for name, law in short.workload.arrivals.items():
            if isinstance(law, Bursty):
                other = long.workload.arrivals[name]
                assert isinstance(other, Bursty)
                assert [2 * each.mean_s for each in law.states] == pytest.approx([each.mean_s for each in other.states])
