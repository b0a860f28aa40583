"""Tests of the validity report: oracles, jobs, statistics; results that are kept, and numbers that are pinned."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchmarks.validity import oracles, runs
from benchmarks.validity.__main__ import INVARIANTS, PLAIN, THEORY
from benchmarks.validity.invariants import WAYS, judged, measure, pinned, scenarios
from benchmarks.validity.runs import results_of, rounded
from benchmarks.validity.theory import LIMIT_SE, SEEDS, checks, limit_se
from tests.twin.worlds import queue
from twin.guards.conservation import ConservationError
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
    assert all(0.4 < each < 1 - idle for each in oracles.shared_core(1.0, (2.5, 2.5))[1:])
    # the first of two operators on a core needs half of it at least; with no work in the second, all
    assert oracles.shared_core(1.0, (2.0, 1e6))[0] == pytest.approx(1.0, rel=1e-3)


def test_limits_of_estimated_standard_errors_raise_no_more_false_alarms_than_known_ones() -> None:
    """Normal means raise as few false alarms with estimated errors as with known ones, here at a limit of two."""
    seeds = SEEDS
    drawn = np.random.default_rng(1).normal(size=(40_000, seeds))
    off = np.abs(drawn.mean(axis=1)) / (drawn.std(axis=1, ddof=1) / np.sqrt(seeds))
    assert np.mean(off > limit_se(seeds, 2.0)) == pytest.approx(0.0455, rel=0.05)
    assert LIMIT_SE < limit_se(seeds) < limit_se(3)
    assert limit_se(100_000) == pytest.approx(LIMIT_SE, rel=1e-3)


def test_the_page_says_what_would_be_written_today() -> None:
    page = (Path(__file__).parents[2] / "docs" / "validity.md").read_text(encoding="utf-8")
    assert all(text in page for text in (THEORY, PLAIN, INVARIANTS))


def test_every_check_can_be_run_and_each_way_differs() -> None:
    laws = checks()
    assert len({(each.law, each.case) for each in laws}) == len(laws)
    assert all(each.expected > 0 for each in laws)
    assert all(each.runs(1, 1.0) for each in laws)
    assert len(set(WAYS)) == len(WAYS)


def test_compiled_code_is_held_to_plain_python_on_jobs_of_every_kind_and_on_random_ones() -> None:
    sorts = [sort for sort, _, _ in judged("small")]
    assert sorts.count("small, of every kind") == len(scenarios()) and sorts.count("random ones") == 5


def runs_of(*seeds: int) -> list[Scenario]:
    return [Scenario.of(queue(100, 0.5, 1.0), RunSettings(horizon_s=5, period_s=1, seed=seed)) for seed in seeds]


def test_runs_are_kept_until_the_source_changes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    simulated: list[int] = []

    def counted(scenario: Scenario) -> Any:
        simulated.append(scenario.run.seed)
        return simulate(scenario)

    monkeypatch.setattr(runs, "simulate", counted)
    first = results_of(runs_of(0, 1, 0), tmp_path)
    assert simulated == [0, 1] and first[0] == first[2] != first[1]
    assert results_of(runs_of(1, 2), tmp_path)[0] == first[1]
    assert simulated == [0, 1, 2]
    monkeypatch.setattr(runs, "source_digest", lambda: "another")
    assert results_of(runs_of(1), tmp_path) == first[1:2]
    assert simulated == [0, 1, 2, 1]


def test_a_run_that_breaks_a_law_is_named_and_those_before_are_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(scenario: Scenario) -> Any:
        if scenario.run.seed == 1:
            raise ConservationError("made = sent at here: 1 != 2")
        return simulate(scenario)

    monkeypatch.setattr(runs, "simulate", broken)
    with pytest.raises(RuntimeError, match=r"\(seed 1\): ConservationError: made = sent"):
        results_of(runs_of(0, 1, 2), tmp_path)
    assert len(list(tmp_path.rglob("*.json"))) == 1


def test_results_have_nine_digits() -> None:
    assert rounded({"a": {"c": 1 / 3, "d": None}, "b": 2e9 / 3}) == {
        "a": {"c": 0.333333333, "d": None},
        "b": 666666667.0,
    }


def test_runs_give_the_numbers_that_are_pinned() -> None:
    other = [name for name, each in scenarios().items() if measure(each)["digest"] != pinned()[name]["digest"]]
    assert not other, (
        f"runs of {', '.join(other)} give other numbers than before. If no change was meant, this is a defect. If it "
        "was: python -m benchmarks.validity --pin"
    )
