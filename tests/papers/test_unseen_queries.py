"""Tables VI A and B, and Fig. 11: lines of the paper beside ours, trained without what they are asked about."""

from __future__ import annotations

import numpy as np
import pytest

from models.predictors import PREDICTORS, Predictor, RateModelAlone
from papers.costream import rivals
from papers.costream.fig11 import FIG11, additional
from papers.costream.published import TABLE_VI_A, TABLE_VI_B
from papers.costream.table6a import LENGTHS, NO_CHAINS, TABLE6A, chains
from papers.costream.table6b import TABLE6B
from papers.costream.unseen_queries import block
from papers.workspace import Workspace
from tests.papers.conftest import SEED, TINY

pytestmark = pytest.mark.usefixtures("tiny_contestants")


def cheap() -> list[Predictor]:
    return [PREDICTORS[name] for name in ("trees-log", "rates")]


def test_chains_are_judged_by_models_that_saw_none(workspace: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rivals, "anew", lambda _sizes: cheap())
    result = TABLE6A.run(workspace, workspace.sizes)
    table = result.tables["chains"]
    for length in LENGTHS:
        lines = [row for row in table.rows if row["queries"] == f"{length} filters"]
        assert [row["model"] for row in lines[:2]] == ["paper: Costream (Storm)", "paper: Flat Vector (Storm)"]
        assert lines[0]["throughput_per_s_q50"] == TABLE_VI_A[length]["Costream"]["throughput_per_s"][0]
        assert all(row["runs"] == TINY.n for row in lines[2:])
        fresh = workspace.dataset(chains(TINY, SEED, length))
        assert set(fresh.about["filter_chain"]) == {length}
    (recipe, *_) = TABLE6A.recipes(TINY, SEED)
    dataset = workspace.dataset(recipe)
    parts = workspace.split(recipe, NO_CHAINS)
    assert dataset.about["filter_chain"][np.concatenate([parts.train, parts.valid])].max() == 1
    assert dataset.about["filter_chain"].max() > 1


def test_a_corpus_of_one_class_says_so_in_the_cell(workspace: Workspace) -> None:
    fresh = workspace.dataset(chains(TINY, SEED, 2))
    assert set(fresh.labels_GxA[:, 4]) == {1.0}  # nothing waits for a window, so something always comes out
    (line,) = block("2 filters", {}, [RateModelAlone()], fresh, SEED)
    assert line["success"] == "100.0% of one class"
    assert line["success_accuracy"] is None
    assert line["success_right"] == 1


def test_each_benchmark_has_its_lines(workspace: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rivals, "everyone", lambda _sizes: dict(enumerate(cheap())))
    table = TABLE6B.run(workspace, workspace.sizes).tables["benchmarks"]
    assert list(dict.fromkeys(row["queries"] for row in table.rows)) == list(TABLE_VI_B)
    commands = [recipe.command for recipe in TABLE6B.recipes(TINY, SEED)]
    assert all(any(f"--space costream --scenario {name}" in command for command in commands) for name in TABLE_VI_B)


def test_fine_tuning_has_a_curve_and_a_figure(workspace: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rivals, "anew", lambda _sizes, *_names: [rivals.ours(TINY)])
    result = FIG11.run(workspace, workspace.sizes)
    table = result.tables["fine_tuning"]
    ours = [row for row in table.rows if row["model"] == "GNN (ours)"]
    assert len(ours) == 3  # before, after, and with rehearsal: so few runs make no curve
    assert [row["stage"] for row in ours].count("after") == 1
    assert all(row["chain4_q50"] >= 1 and row["old_q95"] >= 1 for row in ours)
    assert table.rows[1]["chain4_q50"] == 1.61
    figure = result.figures["fine_tuning"]()
    assert len(figure.axes[0].get_xticklabels()) == len(LENGTHS)


def test_noadditional_run_is_among_those_that_judge(workspace: Workspace) -> None:
    learned = set(workspace.dataset(additional(TINY, SEED)).config_hash)
    for length in LENGTHS:
        assert not learned & set(workspace.dataset(chains(TINY, SEED, length)).config_hash)
