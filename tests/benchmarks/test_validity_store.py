"""Where the validity report keeps finished runs: what survives, what is found again, what a change of a law repeats."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from benchmarks.validity import laws, published, runs, store
from benchmarks.validity.check import FULL_LENGTH
from benchmarks.validity.laws import LAWS, laws_of
from benchmarks.validity.runs import Job, rounded, run_all
from benchmarks.validity.selection import chosen, exact_jobs
from benchmarks.validity.store import Store
from benchmarks.validity.theory import checks
from tests.twin.worlds import deployment, queue, sink, source
from twin.deployment import Deployment
from twin.guards.conservation import ConservationError
from twin.scenario import RunSettings, Scenario


def job(seed: int = 0, fidelity: str = "fast", family: str = "", **more: Any) -> Job:
    settings = RunSettings(horizon_s=5, period_s=1, seed=seed, fidelity=fidelity, **more)
    return Job("test", queue(100, 0.5, 1.0), settings, family=family)


def joined(**more: Any) -> Deployment:
    window = {"policy": "time", "size_s": 1}
    join = {"kind": "join", "name": "join", "window": window, "selectivity": 0.01} | more
    streams = [("a", "join"), ("b", "join"), ("join", "sink")]
    return deployment([source("a"), source("b"), join, sink()], streams, {"a": 10, "b": 20})


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
    with pytest.raises(RuntimeError, match=r"1 runs failed.*\ntest \(fast, seed 1\): ConservationError: made = sent"):
        run_all([job(0), job(1), job(2)], cache, workers=1)
    assert [cache.get(job(seed)) is not None for seed in range(3)] == [True, False, True]


def test_only_fast_runs_are_repeated_when_the_source_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    before = [store.key_of(job(fidelity=each)) for each in ("exact", "fast")]
    monkeypatch.setattr(store, "source_digest", lambda: "another")
    after = [store.key_of(job(fidelity=each)) for each in ("exact", "fast")]
    assert before[0] == after[0] and before[1] != after[1]
    assert len({store.key_of(job(seed, segments=n)) for seed in (0, 1) for n in (100, 200)}) == 4
    assert len({store.key_of(job(fidelity="exact", segments=n)) for n in (100, 200)}) == 1


def test_a_change_of_a_law_repeats_the_exact_runs_that_use_it(monkeypatch: pytest.MonkeyPatch) -> None:
    settings = RunSettings(fidelity="exact")
    given, charged = (Job("", joined(service_time_s=service_s), settings) for service_s in (1e-3, None))
    linear = job(fidelity="exact")
    before = [store.key_of(each) for each in (linear, given, charged)]
    for law, repeated in (("join costs", [charged]), ("joins", [given, charged]), ("queues", [linear, given, charged])):
        with monkeypatch.context() as changed:
            changed.setitem(laws.LAWS, law, LAWS[law]._replace(number=LAWS[law].number + 1))
            after = [store.key_of(each) for each in (linear, given, charged)]
        assert [a != b for a, b in zip(before, after, strict=True)] == [
            each in repeated for each in (linear, given, charged)
        ]


def test_every_law_is_used_somewhere_and_laws_are_told_apart() -> None:
    assert set(laws_of(queue(100, 0.5, 1.0))) == {"queues"}
    assert {"joins", "time windows", "join costs"} <= set(laws_of(joined())) - set(laws_of(queue(100, 0.5, 1.0)))
    jobs = [case.deployment for family in ("costream", "ordinary") for case in chosen(family, "dev", "small")]
    used = set().union(*(laws_of(each) for each in jobs))
    assert {"sharing", "network", "links", "batching", "memory", "dealing", "selectivity", "costs"} <= used <= set(LAWS)


def test_exact_runs_of_a_family_are_lines_of_a_sorted_file(tmp_path: Path) -> None:
    kept = Store(tmp_path / "cache", tmp_path / "exact")
    run_all([job(seed, "exact", "one") for seed in (2, 0)], kept, workers=1)
    other = Store(tmp_path / "cache", tmp_path / "exact")
    run_all([job(1, "exact", "one"), job(1, "exact"), job(1)], other, workers=1)
    kept.put(job(0, "exact", "one"), {"throughput_per_s": 7.0})  # knows nothing of what the other has put
    lines = (tmp_path / "exact" / "one.jsonl").read_text().splitlines()
    assert [json.loads(line)["label"] for line in lines] == ["test, seed 0", "test, seed 1", "test, seed 2"]
    assert json.loads(lines[0])["result"] == {"throughput_per_s": 7.0}
    assert len((tmp_path / "cache" / "runs.jsonl").read_text().splitlines()) == 2
    again = Store(tmp_path / "another cache", tmp_path / "exact")
    assert again.get(job(2, "exact", "one")) == kept.get(job(2, "exact", "one")) and again.get(job(1)) is None


@pytest.mark.slow
def test_labels_tell_the_exact_runs_of_a_family_apart() -> None:
    ordinary = exact_jobs("dev", chosen("ordinary", "dev", "full"))
    of_theory = [check.jobs("exact", 1, FULL_LENGTH)[0] for check in checks() if "exact" in check.fidelities]
    tables = [job for job in published.jobs().values() if job.settings.fidelity == "exact"]
    for jobs, family, count in ((ordinary, "ordinary-dev", 36), (tables, "published", 10), (of_theory, "theory", None)):
        assert {each.family for each in jobs} == {family}
        labels = {(each.label, each.settings.seed) for each in jobs}
        assert len(labels) == len({store.key_of(each) for each in jobs}) == (count or len(labels))


def test_results_have_nine_digits() -> None:
    assert rounded({"a": [1 / 3, None, "x", 7], "b": 2e9 / 3}) == {"a": [0.333333333, None, "x", 7], "b": 666666667.0}
