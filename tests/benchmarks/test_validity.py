"""The harness of the validity report: oracles, jobs, statistics; runs that are kept, and numbers that are pinned."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchmarks.validity import oracles, runs, store
from benchmarks.validity.invariants import WAYS
from benchmarks.validity.kernel import FIRST_SEED, difference, scenarios
from benchmarks.validity.ordinary import ordinary_jobs
from benchmarks.validity.ordinary_queries import KINDS
from benchmarks.validity.pinned_jobs import jobs
from benchmarks.validity.pins import complaint, measure, pinned
from benchmarks.validity.runs import Job, rounded, run_all
from benchmarks.validity.store import Store
from benchmarks.validity.theory import LIMIT_SE, SEEDS, checks, limit_se
from tests.twin.worlds import queue
from twin.guards.conservation import ConservationError
from twin.rates.model import RateModel
from twin.scenario import RunSettings, Scenario
from twin.simulation import simulate


@pytest.mark.slow
def test_oracles_agree_where_they_meet() -> None:
    assert oracles.wait_m_m_c(1, 0.8, 1.0) == pytest.approx(oracles.wait_m_g_1(0.8, 1.0, 1.0))
    jackson = 0.7e-3 / 0.3 + 0.6e-3 / 0.4
    rates = (1 / 0.7e-3, 1 / 0.6e-3)
    assert oracles.sojourn_blocking_tandem(1000, rates, places=60) == pytest.approx(jackson, rel=1e-3)
    assert oracles.throughput_blocking_tandem((1.0, 1.0), 4) == pytest.approx(6 / 7)
    loss, wait_s = oracles.loss_m_m_c_k(1, 400, 0.8, 1.0)
    assert loss == pytest.approx(0, abs=1e-9) and wait_s == pytest.approx(oracles.wait_m_g_1(0.8, 1.0, 1.0))
    assert oracles.loss_m_m_c_k(3, 3, 2.0, 1.0)[0] == pytest.approx((8 / 6) / (1 + 2 + 2 + 8 / 6))  # Erlang B
    assert oracles.wait_d_m_1(0.8, 1.0) < oracles.wait_m_g_1(0.8, 1.0, 1.0)
    assert oracles.wait_erlang_m_1(1, 0.8, 1.0) == pytest.approx(oracles.wait_m_g_1(0.8, 1.0, 1.0))
    assert oracles.wait_erlang_m_1(500, 0.8, 1.0) == pytest.approx(oracles.wait_d_m_1(0.8, 1.0), rel=5e-3)
    assert oracles.wait_erlang_g_1(4, 0.6, 1.0, 1.0) == pytest.approx(oracles.wait_erlang_m_1(4, 0.6, 1.0), rel=1e-5)
    assert oracles.wait_erlang_g_1(1, 0.6, 1.0, 0.25) == pytest.approx(oracles.wait_m_g_1(0.6, 1.0, 0.25), rel=1e-5)
    idle = 1 - 0.4 - 0.4  # of the core
    assert all(0.4 < each < 1 - idle for each in oracles.busy_shared_core(1.0, (2.5, 2.5)))
    # the first of two operators on a core needs half of it at least; with no work in the second, all
    assert oracles.sojourn_shared_core(1.0, (2.0, 1e6)) == pytest.approx(1.0, rel=1e-3)


def test_limits_of_estimated_standard_errors_raise_no_more_false_alarms_than_known_ones() -> None:
    """Means of normal seeds, judged by their own scatter; at a limit of two, where chance can be seen in a test."""
    seeds = SEEDS
    drawn = np.random.default_rng(1).normal(size=(40_000, seeds))
    off = np.abs(drawn.mean(axis=1)) / (drawn.std(axis=1, ddof=1) / np.sqrt(seeds))
    assert np.mean(off > limit_se(seeds, 2.0)) == pytest.approx(0.0455, rel=0.05)
    assert LIMIT_SE < limit_se(seeds) < limit_se(3)
    assert limit_se(100_000) == pytest.approx(LIMIT_SE, rel=1e-3)


def test_every_check_can_be_run_and_each_way_differs() -> None:
    laws = checks()
    assert len({(each.law, each.case) for each in laws}) == len(laws)
    assert all(each.expected > 0 for each in laws)
    assert all(each.jobs(1, 1.0)[0].cost > 0 for each in {each.law: each for each in laws}.values())
    assert len(set(WAYS)) == len(WAYS)


def test_the_kernel_is_held_to_the_engine_to_the_last_bit() -> None:
    _, name, scenario = next(scenarios("small"))
    run = simulate(scenario)
    assert name and difference(run, run) == ""
    row = run.operator_rows[2] | {"busyTimeMsPerSecond": run.operator_rows[2]["busyTimeMsPerSecond"] + 1e-9}
    other = replace(run, operator_rows=(*run.operator_rows[:2], row, *run.operator_rows[3:]))
    assert difference(run, other) == "operator_rows, row 2"
    assert difference(run, replace(run, event_rows=(row,))) == "event_rows, row of its own"


@pytest.mark.slow
def test_ordinary_jobs_are_of_all_sorts_and_loaded_as_drawn() -> None:
    cases = list(islice(ordinary_jobs(FIRST_SEED), 12))
    assert {case.kind for case in cases} == set(KINDS)
    assert {bool(case.deployment.cluster.links) for case in cases} == {True, False}
    answers = [RateModel(case.settings.horizon_s).answer(case.deployment, [case.deployment.plan]) for case in cases]
    used = np.array([answer.offered_pressure.max() for answer in answers])
    assert used.min() < 0.4 and used.max() > 1.0 and np.all((used > 0.05) & (used < 1.6))


def job(seed: int = 0) -> Job:
    return Job("test", queue(100, 0.5, 1.0), RunSettings(horizon_s=5, period_s=1, seed=seed))


def test_the_cache_survives_a_kill_in_the_middle_of_a_line(tmp_path: Path) -> None:
    cache = Store(tmp_path)
    first = run_all([job(0), job(1)], cache, workers=1)
    path = tmp_path / "runs.jsonl"
    path.write_text(path.read_text()[:-20])
    again = Store(tmp_path)
    assert again.get(job(0)) is not None and again.get(job(1)) is None
    second = run_all([job(0), job(1)], again, workers=1)
    assert [each["throughput_per_s"] for each in second] == [each["throughput_per_s"] for each in first]
    assert len([json.loads(line) for line in path.read_text().splitlines()]) == 2


def test_a_run_that_breaks_a_law_is_named_and_the_others_are_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = runs.simulate

    def broken(scenario: Scenario) -> Any:
        if scenario.run.seed == 1:
            raise ConservationError("made = sent at here: 1 != 2")
        return real(scenario)

    monkeypatch.setattr(runs, "simulate", broken)
    cache = Store(tmp_path)
    with pytest.raises(RuntimeError, match=r"1 runs failed.*\ntest \(seed 1\): ConservationError: made = sent"):
        run_all([job(0), job(1), job(2)], cache, workers=1)
    assert [cache.get(job(seed)) is not None for seed in range(3)] == [True, False, True]


def test_runs_are_repeated_when_the_source_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    before = [store.key_of(job(seed)) for seed in (0, 1)]
    monkeypatch.setattr(store, "source_digest", lambda: "another")
    assert len({*before, *(store.key_of(job(seed)) for seed in (0, 1))}) == 4


def test_results_have_nine_digits() -> None:
    assert rounded({"a": [1 / 3, None, "x", 7], "b": 2e9 / 3}) == {"a": [0.333333333, None, "x", 7], "b": 666666667.0}


def test_runs_give_the_numbers_that_are_pinned() -> None:
    now = {name: measure(job) for name, job in jobs().items()}
    wrong = complaint(now, pinned())
    assert not wrong, wrong


def test_a_change_is_told_with_its_remedy() -> None:
    now = dict(pinned())
    assert complaint(now, pinned()) == ""
    now["links"] = now["links"] | {"digest": "another"}
    assert "runs of links give" in complaint(now, pinned()) and "--pin" in complaint(now, pinned())
