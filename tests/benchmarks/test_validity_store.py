"""Where the validity report keeps finished runs: what survives, what is found again."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from benchmarks.validity import runs, store
from benchmarks.validity.runs import Job, rounded, run_all
from benchmarks.validity.store import Store
from tests.twin.worlds import queue
from twin.guards.conservation import ConservationError
from twin.scenario import RunSettings, Scenario


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
