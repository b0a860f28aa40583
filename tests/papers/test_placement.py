"""Placement experiments with analytic models in the place of learned ones: what is counted, kept and compared."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from papers import running
from papers.costream import placement, planners
from papers.interface import grid
from papers.registry import EXPERIMENTS
from papers.running import markdown, run
from papers.workspace import SMALL, Workspace
from scenarios.executing import Lines
from twin.rates.model import RateModel
from twin.scenario import RunSettings

TINY = replace(SMALL, queries=2, candidates=20, horizon_s=40.0)


@pytest.fixture
def workspace(tmp_path, monkeypatch):
    models = planners.Models(
        RateModel(horizon_s=10.0, name="paper"),
        RateModel(horizon_s=40.0, name="ours"),
        RateModel(horizon_s=20.0, name="flat"),
    )
    monkeypatch.setattr(planners, "learned", lambda *_: models)
    monkeypatch.setattr(planners, "key_of", lambda *_: {"stub": True})
    monkeypatch.setattr(planners, "PROVED", 2)
    monkeypatch.setattr(placement, "TYPES", {"linear": 1})
    monkeypatch.setattr(placement, "REFERENCES", 2)
    monkeypatch.setattr(placement, "JUDGED", 1)
    monkeypatch.setattr(placement, "RATES_PER_S", (800, 6400))
    monkeypatch.setattr(placement, "SELECTIVITIES", (0.3,))
    return Workspace(tmp_path, TINY, 3, Lines(lambda _: None))


def test_fig9_compares_every_planner_with_the_heuristic_and_with_the_best_known(workspace, monkeypatch):
    result = run(EXPERIMENTS["costream.fig9"], workspace)
    rows = result.tables["placement"].rows
    assert {row["type"] for row in rows} == {"linear", "all"}
    for row in rows:
        assert row["queries"] == 2
        if row["planner"] == planners.HEURISTIC:
            assert (row["speed_up"], row["speed_up_low"], row["speed_up_high"]) == (1.0, 1.0, 1.0)
        assert row["regret"] is None or row["regret"] >= 0
        if row["speed_up"] is not None and row["speed_up_low"] is not None and row["speed_up_high"] is not None:
            assert row["speed_up_low"] <= row["speed_up"] <= row["speed_up_high"]
    assert "21.3" in markdown(result.tables["placement"])
    result.figures["speed_up"]()
    monkeypatch.setattr(placement, "judge", lambda **_: pytest.fail("a judged query is kept"))
    again = run(EXPERIMENTS["costream.fig9"], workspace).tables["placement"].rows
    assert again == rows


def test_queries_are_of_their_type_and_none_repeats():
    for name, sources in placement.TYPES.items():
        found = [placement.query(name, index, 1, RunSettings()) for index in range(4)]
        assert all(len(each.query.sources) == sources for each in found)
        assert len({each.query.model_dump_json() for each in found}) == 4


def test_speed_ups_and_regrets_of_plans_without_results():
    good, none = {"lp_s": 2.0, "level": 0}, {"lp_s": None, "level": 2}
    assert placement.speed_up(good, {"lp_s": 0.5, "level": 0}) == 4.0
    assert (placement.speed_up(good, none), placement.speed_up(none, good), placement.speed_up(none, none)) == (
        0.0,
        np.inf,
        1.0,
    )
    assert placement.regret_of(good, {"lp_s": 1.0, "level": 0}) == 1.0
    assert placement.regret_of(good, {"lp_s": 1.0, "level": 1}) == np.inf
    assert (placement.regret_of(none, good), placement.regret_of(none, none)) == (np.inf, 0.0)


def test_fig10_measures_slow_down_and_overhead_in_one_simulated_run(workspace):
    result = run(EXPERIMENTS["costream.fig10"], workspace)
    rows = result.tables["jobs"].rows
    assert [(row["selectivity"], row["rate_per_s"]) for row in rows] == [(0.3, 800)]  # every other one of a small scale
    for row in rows:
        assert row["slow_down"] > 0
        assert row["migrations"] >= row["decisions"]
        assert row["slow_down"] == pytest.approx(row["start_s"] / row["ours_s"], rel=0.5)
    assert "166" in markdown(result.tables["summary"])
    result.figures["overhead"]()


def shifted(value: int, by: int, seed: int) -> int:
    """Sum of the arguments; outside of tests, so that another process finds it."""
    return value + by + seed


def test_cases_are_measured_once(workspace):
    cases = grid(value=range(3))
    assert running.kept(workspace, "shifts", shifted, cases, lambda: {"by": 10}) == [13, 14, 15]
    assert running.kept(workspace, "shifts", shifted, cases, lambda: pytest.fail("is kept")) == [13, 14, 15]


def test_overhead_is_where_two_competitive_periods_in_a_row_begin():
    monitored = np.array([9.0, 1.0, 9.0, np.nan, 1.04, 1.05, 2.0])
    assert placement.overhead_s(monitored, 1.0, 10.0) == 40.0
    assert placement.overhead_s(monitored[:4], 1.0, 10.0) is None
    assert placement.overhead_s(np.array([1.0, 1.0]), 1.0, 10.0) == 0.0
    assert placement.overhead_s(monitored, None, 10.0) is None
