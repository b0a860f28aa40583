"""Tests of ALBIC's experiments, cut down: the laws that their results must obey."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest

from optimizers.balancing.search import Search
from papers.albic import real_jobs, synthetic
from papers.albic.synthetic import SIZES, cluster, drifts, job
from papers.interface import grid
from papers.registry import EXPERIMENTS
from papers.running import run
from papers.workspace import PAPER, SMALL, Workspace
from scenarios.files.scenario_file import load
from tests.papers.conftest import reproduced, silent
from twin.errors import BadInput


@pytest.fixture
def workspace(tmp_path):
    return Workspace(tmp_path, SMALL, 1, silent())


@pytest.fixture
def short_rounds(monkeypatch):
    """Shortens rounds to two windows: the loads of five minutes lead to the same decisions as those of two."""
    monkeypatch.setattr(real_jobs, "load", lambda name: load(name).with_run(period_s=120.0, warmup_s=120.0))


@pytest.mark.parametrize("size", SIZES)
def test_clusters_are_as_the_paper_says(size):
    nodes, groups, _ = SIZES[size]
    found = cluster(nodes, groups, varies=40, budget=10, seed=0)
    load_h = found.load_h(found.home_g)
    assert np.bincount(found.home_g).tolist() == [groups // nodes] * nodes
    assert [(load_h > 75).sum(), (load_h < 45).sum()] == [nodes // 10] * 2
    assert found.mean == pytest.approx(60.0, abs=1.0)
    with pytest.raises(BadInput, match="varies from 0 to 80"):
        cluster(nodes, groups, varies=100, budget=1, seed=0)


@pytest.mark.parametrize("topology", ["pairs", "chain"])
@pytest.mark.parametrize("percent", [0, 50, 100])
def test_as_much_can_be_collocated_as_asked(topology, percent):
    traffic = job("fig2", topology, percent, seed=0).traffic
    outstanding = traffic.outstanding(1.5)
    assert 100 * traffic.rate_e[outstanding].sum() / traffic.total == pytest.approx(percent)
    assert np.bincount(traffic.sender_e[outstanding]).max(initial=0) <= 1
    assert traffic.total == pytest.approx(200 if topology == "pairs" else 360)


def test_drift_changes_a_fifth_of_the_nodes_by_two_percent():
    start = job("fig2", "pairs", 50, seed=0)
    after = next(iter(drifts(1, seed=0)))(start)
    ratio = after.load_h(after.home_g) / start.load_h(start.home_g)
    assert (ratio != 1.0).sum() == 4
    assert np.abs(ratio - 1.0).max() <= 0.02


def test_the_search_is_never_above_flux_nor_below_the_bound(workspace, tmp_path, monkeypatch):
    monkeypatch.setattr(synthetic, "Search", lambda: Search(looks=200))
    monkeypatch.setattr(synthetic, "MILP_SECONDS", 0.1)
    few = grid(size=("fig2",), migrations=(10, 20, 30, 40), varies=(40,))
    for row in reproduced("albic.fig2", workspace, tmp_path, distance=few).tables["distance"].rows:
        assert row["bound"] <= row["search"] <= min(row["flux"], row["best_fit"])
        assert row["search"] < row["before"]
    assert "nothing here is simulated" in EXPERIMENTS["albic.fig2"].about


def test_scale_in_ends_both_ways_and_is_evener_integrated(workspace, monkeypatch):
    monkeypatch.setattr(synthetic, "SEARCH", Search(looks=30, band=2.0))
    integrated, separate = (synthetic.scaled_in(workspace, 1, kind) for kind in synthetic.KINDS)
    assert separate["rounds"] == 10 <= integrated["rounds"]
    assert integrated["mean"] < separate["mean"]
    assert integrated["most"] < separate["most"] == pytest.approx(100.0)


def test_cola_collocates_more_at_once_and_migrates_almost_everything(workspace):
    albic, cola = (
        synthetic.collocated(workspace, "pairs", "fig2", 50, way, rounds=2)
        for way in ("ALBIC, pairs for 60 % of the budget", "COLA")
    )
    assert cola["after_1"] > albic["after_1"]
    assert cola["migrations"] > 100 > 20 >= albic["migrations"]


def test_real_job_1_gets_even_by_migrations_and_costs_more_by_two_choices(short_rounds):
    names = ("none", "Flux", "search (ours)", "two choices")
    ways = {way: real_jobs.course_1(real_jobs.WAYS_1[way], 1, rounds=2) for way in names}
    assert ways["none"]["planned"][1:] == ways["none"]["found"][:-1]
    assert max(ways["search (ours)"]["planned"]) < min(ways["none"]["planned"]) / 4
    assert ways["search (ours)"]["planned"][0] <= ways["Flux"]["planned"][0]
    assert max(ways["Flux"]["migrations"] + ways["search (ours)"]["migrations"]) <= real_jobs.MIGRATIONS_1
    assert np.mean(ways["two choices"]["cpu"]) > 1.1 * np.mean(ways["none"]["cpu"])


def test_more_migrations_are_more_even_and_pause_more(short_rounds):
    few, many = (real_jobs.course_1(partial(real_jobs.limited, limit), 1, rounds=1) for limit in (5, 300))
    assert few["migrations"] == [5.0] and many["migrations"][0] > 40
    assert many["planned"][0] < few["planned"][0]
    assert many["pauses"][0] > few["pauses"][0] > 0.0


def test_migrations_and_pauses_are_those_of_the_same_courses(tmp_path, monkeypatch):
    """Figs. 6 and 7 are made of the same courses, and so are Figs. 8 and 9."""
    runs = []

    def course(_change, seed, rounds):
        runs.append(seed)
        numbers = 4.0 * np.arange(rounds)
        return {key: numbers.tolist() for key in ("planned", "found", "migrations", "pauses", "cpu")}

    monkeypatch.setattr(real_jobs, "course_1", course)
    workspace = Workspace(tmp_path, PAPER, 1, silent())
    even, moved, limited, paused = (
        next(iter(run(EXPERIMENTS[f"albic.fig{number}"], workspace).tables.values())).rows for number in (6, 7, 8, 9)
    )
    assert len(runs) == len(real_jobs.WAYS_1) + len(real_jobs.LIMITS)
    flux = next(row for row in moved if row["way"] == "Flux")
    assert (flux["first"], flux["most"]) == (0 + 4 + 8, 4 * (real_jobs.ROUNDS_1 - 1))
    assert flux["at_limit"] == 100.0 * (real_jobs.ROUNDS_1 - 4) / (real_jobs.ROUNDS_1 - 3)  # of 12, 16, ... all but 12
    assert flux["mean"] == next(row for row in even if row["way"] == "Flux")["migrations"]
    assert [row["pauses"] for row in paused] == [row["pauses"] for row in limited]
    assert all(row["pause"] == 1000.0 for row in paused)
