"""Tests of Costream's experiments of accuracy, tiny: rows are complete and possible, with the paper's figures."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from models import pipeline
from models.evaluation import ErrorRow
from models.predictors import PREDICTORS, RateModelAlone
from models.training import train_member
from papers.costream import accuracy, planners
from papers.costream.generalising import LENGTHS, NO_CHAINS, additional, beyond, chains, restricted
from papers.costream.judging import SHORT, TABLE_III, TABLE_IV, TABLE_V, TABLE_VI_A, TABLE_VI_B, block, line
from papers.interface import ExperimentResult
from papers.registry import EXPERIMENTS
from papers.workspace import Within, Workspace, in_process, main_corpus
from scenarios.spaces.generator import EXTRAPOLATIONS
from tests.papers.conftest import SEED, TINY, reproduced, silent
from twin.errors import BadInput
from twin.metrics import METRICS, REGRESSION_METRICS

pytestmark = pytest.mark.usefixtures("tiny_contestants")
ONE_SEED = [{"seeds": 1}]
REPORTED = {
    "costream.table3": list(TABLE_III.values()),
    "costream.table4": list(TABLE_IV.values()),
    "costream.table5": list(TABLE_V.values()),
    "costream.table6a": [reported for length in LENGTHS for reported in TABLE_VI_A[length].values()],
    "costream.table6b": [reported for by_model in TABLE_VI_B.values() for reported in by_model.values()],
}


def cheap() -> dict[str, Any]:
    return {name: PREDICTORS[name] for name in ("trees-log", "rates")}


def measures(row: Mapping[str, Any]) -> Iterator[tuple[str, float]]:
    return ((key, row[key]) for key in row if key.endswith(("q50", "q95", "accuracy")) and row[key] is not None)


def check(name: str, result: ExperimentResult) -> None:
    """Checks that all values are possible q-errors or shares, and that the paper's lines are as published."""
    table = next(table for table in result.tables.values() if "runs" in table.columns)
    for row in table.rows:
        assert all(value >= 1 if "_q" in key or key[0] == "q" else 0 <= value <= 1 for key, value in measures(row))
    papers = [row for row in table.rows if row["model"].startswith("paper: ")]
    assert len(papers) == len(REPORTED[name])
    for row, reported in zip(papers, REPORTED[name], strict=True):
        for metric, values in reported.items():
            keys = ("q50", "q95") if metric in REGRESSION_METRICS else ("accuracy",)
            assert tuple(row[f"{metric}_{key}"] for key in keys) == values


@pytest.mark.parametrize("name", REPORTED)
def test_the_papers_figures_are_complete_and_possible(name: str) -> None:
    for reported in REPORTED[name]:
        assert set(reported) == set(METRICS) == set(SHORT)
        assert all(1 <= reported[metric][0] <= reported[metric][1] for metric in REGRESSION_METRICS)
        assert all(0 <= reported[metric][0] <= 1 for metric in set(METRICS) - set(REGRESSION_METRICS))
    assert [extrapolation.name for extrapolation in EXTRAPOLATIONS] == list(TABLE_V)


def test_a_line_has_text_and_numbers_and_what_is_missing_is_none() -> None:
    rows = [
        ErrorRow("throughput_per_s", "m", 10, q50=1.0123, q95=12.3, q50_se=0.01, q95_se=2.0),
        ErrorRow("success", "m", 10, accuracy=0.945),
        ErrorRow("backpressured", "m", 10),
    ]
    cells = line("m", 10, rows)
    assert cells["throughput_per_s"] == "1.012 ± 0.01 / 12.3 ± 2"
    assert (cells["throughput_per_s_q95"], cells["throughput_per_s_q50_se"]) == (12.3, 0.01)
    assert cells["success"] == "94.5%" and cells["backpressured"] is None


def test_table3_has_every_contestant_the_paper_and_the_limit(
    workspace: Workspace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(accuracy, "ROUGHLY", ("trees-log", "rates"))
    result = reproduced("costream.table3", workspace, tmp_path, accuracy=ONE_SEED)
    check("costream.table3", result)
    rows = result.tables["accuracy"].rows
    assert len(rows) == len(TABLE_III) + len(planners.PREDICTORS) + 2 * len(accuracy.ROUGHLY) + 2
    assert "replicate limit" in rows[-1]["model"] and rows[-1]["runs"] == TINY.replicates
    assert all(row[f"{metric}_q50"] <= row[f"{metric}_q95"] for row in rows for metric in REGRESSION_METRICS)
    for metric in METRICS:
        where = result.tables[f"where_{metric}"].rows
        assert where[0]["stratum"] == "all" and where[0]["share"] in ("100%", None)  # None: nothing is wrong
        assert sum(row["runs"] for row in where if "source" in row["stratum"]) == where[0]["runs"]


@pytest.mark.parametrize(("name", "dimensions"), [("costream.fig7", 4), ("costream.fig8", 1)])
def test_groups_share_the_test_rows_out(workspace: Workspace, tmp_path: Path, name: str, dimensions: int) -> None:
    rows = reproduced(name, workspace, tmp_path).tables["errors"].rows
    runs: dict[tuple[str, str], int] = {}
    for row in rows:
        if row["metric"] == "RO":
            runs[row["model"], row["dimension"]] = runs.get((row["model"], row["dimension"]), 0) + row["runs"]
        assert row["paper"] or row["quantity"] == "accuracy"
    assert len(runs) == 2 * dimensions
    assert set(runs.values()) == {len(workspace.split(main_corpus(TINY, SEED)).test)}


def test_each_seed_has_a_line_and_a_split_of_its_own_over_the_same_rows(
    workspace: Workspace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trees, rates = planners.PREDICTORS["flat-raw"], planners.PREDICTORS["rates"]
    monkeypatch.setattr(planners, "everyone", lambda _sizes: {"flat-raw": trees, "rates": rates})
    result = reproduced("costream.table4", workspace, tmp_path)
    check("costream.table4", result)
    rows = result.tables["interpolation"].rows[len(TABLE_IV) :]
    assert all(row["runs"] == TINY.n for row in rows)
    assert [(row["model"], row["training_seed"]) for row in rows] == [
        (contestant.name, seed) for contestant in (trees, rates) for seed in (SEED, SEED + 1)
    ]
    assert dict(measures(rows[0])) != dict(measures(rows[1])) and dict(measures(rows[2])) == dict(measures(rows[3]))
    recipe, again = main_corpus(TINY, SEED), workspace.reseeded(SEED + 1)
    assert again.dataset(recipe) is workspace.dataset(recipe)
    assert not np.array_equal(again.split(recipe).test, workspace.split(recipe).test)


def test_table5_trains_within_and_asks_beyond(
    workspace: Workspace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(planners, "generalising", lambda _sizes: list(cheap().values()))
    result = reproduced("costream.table5", workspace, tmp_path)
    check("costream.table5", result)
    rows, trees = result.tables["extrapolation"].rows, cheap()["trees-log"].name
    assert len(rows) == len(EXTRAPOLATIONS) * (1 + len(cheap()))
    for mean in result.tables["means"].rows:
        of_all = [row["e2e_latency_s_q50"] for row in rows if row["model"] == mean["model"]]
        assert len(of_all) == mean["ranges"] == len(EXTRAPOLATIONS)
        assert mean["e2e_latency_s_q50"] == pytest.approx(np.exp(np.mean(np.log(of_all))))
    recipe = main_corpus(TINY, SEED)
    training = workspace.dataset(recipe).about
    for extrapolation in EXTRAPOLATIONS:
        feature, (low, high) = extrapolation.feature, extrapolation.trained
        parts = workspace.split(recipe, restricted(extrapolation))
        learned = np.concatenate([parts.train, parts.valid])
        assert low <= training[f"{feature}_min"][learned].min() <= training[f"{feature}_max"][learned].max() <= high
        asked = workspace.dataset(beyond(extrapolation, TINY, SEED)).about
        values = {*asked[f"{feature}_min"], *asked[f"{feature}_max"]}
        assert values <= set(extrapolation.asked) and not any(low <= value <= high for value in values)
        (row,) = (row for row in rows if row["range"].startswith(extrapolation.name) and row["model"] == trees)
        assert row["training_rows"] == len(parts.train) < len(workspace.split(recipe).train)


def test_chains_are_judged_by_models_that_saw_none(
    workspace: Workspace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(planners, "anew", lambda _sizes: list(cheap().values()))
    result = reproduced("costream.table6a", workspace, tmp_path)
    check("costream.table6a", result)
    for length in LENGTHS:
        mine = [row for row in result.tables["chains"].rows if row["queries"] == f"{length} filters"]
        assert [row["runs"] for row in mine] == [None, None, TINY.n, TINY.n]
        assert set(workspace.dataset(chains(TINY, SEED, length)).about["filter_chain"]) == {length}
    recipe, *_ = EXPERIMENTS["costream.table6a"].recipes(TINY, SEED)
    lengths, parts = workspace.dataset(recipe).about["filter_chain"], workspace.split(recipe, NO_CHAINS)
    assert lengths[np.concatenate([parts.train, parts.valid])].max() == 1 < lengths.max()


def test_a_corpus_of_one_class_says_so_in_the_cell(workspace: Workspace) -> None:
    fresh = workspace.dataset(chains(TINY, SEED, 2))
    assert set(fresh.labels_GxA[:, 4]) == {1.0}  # nothing waits for a window, so something always comes out
    (row,) = block({}, [RateModelAlone()], fresh, SEED)
    assert (row["success"], row["success_accuracy"], row["success_right"]) == ("100.0% of one class", None, 1)


def test_each_benchmark_has_its_lines(workspace: Workspace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(planners, "everyone", lambda _sizes: cheap())
    result = reproduced("costream.table6b", workspace, tmp_path)
    check("costream.table6b", result)
    assert list(dict.fromkeys(row["queries"] for row in result.tables["benchmarks"].rows)) == list(TABLE_VI_B)
    commands = [recipe.command for recipe in EXPERIMENTS["costream.table6b"].recipes(TINY, SEED)]
    assert all(any(f"--space costream --scenario {name}" in command for command in commands) for name in TABLE_VI_B)


def test_fine_tuning_has_a_curve_and_learns_from_none_that_judges(
    workspace: Workspace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(planners, "anew", lambda _sizes, *_names: [planners.ours(TINY)])
    rows = reproduced("costream.fig11", workspace, tmp_path).tables["fine_tuning"].rows
    ours = [row for row in rows if row["model"] == "GNN (ours)"]
    assert [row["stage"] for row in ours] == ["before", "after", ""]  # last with rehearsal; too few runs for a curve
    assert all(row["chain4_q50"] >= 1 and row["old_q95"] >= 1 for row in ours)
    assert rows[1]["chain4_q50"] == 1.61
    learned = set(workspace.dataset(additional(TINY, SEED)).config_hash)
    assert all(not learned & set(workspace.dataset(chains(TINY, SEED, length)).config_hash) for length in LENGTHS)


def test_ablations_hide_features_and_change_the_scheme(
    workspace: Workspace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pipeline, "train_member", train_member)  # each of these can be trained
    metrics = ("throughput_per_s", "e2e_latency_s")
    monkeypatch.setattr(accuracy, "REGRESSION_METRICS", metrics)
    seen = reproduced("costream.fig12", workspace, tmp_path).tables["features"].rows
    assert [row["paper_q50"] for row in seen] == [2.6, 2.22, 1.37]
    assert len({row["q50"] for row in seen}) == len(seen)
    schemes = reproduced("costream.fig13", workspace, tmp_path).tables["schemes"].rows
    assert [row["metric"] for row in schemes] == 2 * [SHORT[metric] for metric in metrics]
    assert all(1 <= row["q50"] <= row["q95"] for row in (*seen, *schemes))
    (costream,) = (row for row in schemes if row["metric"] == "Le" and row["scheme"].startswith("Costream"))
    assert costream["q50"] == seen[-1]["q50"]  # the same network, trained once


def test_a_restriction_takes_training_rows_and_leaves_the_test_rows(workspace: Workspace) -> None:
    recipe = main_corpus(TINY, SEED)
    ram, within = workspace.dataset(recipe).about["ram_mb_max"], Within("ram_mb", 1000, 16000)
    all_rows, inside = workspace.split(recipe), workspace.split(recipe, within)
    assert all(len(part) and ram[part].max() <= 16000 for part in (inside.train, inside.valid))
    outside = np.setdiff1d(all_rows.train, inside.train)
    assert len(outside) and ram[outside].min() > 16000
    np.testing.assert_array_equal(all_rows.test, inside.test)
    with pytest.raises(BadInput, match="no training row"):
        workspace.split(recipe, Within("ram_mb", 1, 2))


def test_the_same_seed_gives_the_same_files_and_another_seed_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(planners, "PREDICTORS", cheap())
    sizes = replace(TINY, runs=40, replicates=2)
    for name, seed in (("one", 1), ("same", 1), ("other", 2)):
        workspace = Workspace(tmp_path / f"work-{name}", sizes, seed, silent(), in_process)
        reproduced("costream.table4", workspace, tmp_path / name)
    one, same, other = (
        {path.name: path.read_bytes() for path in (tmp_path / name / "costream.table4").iterdir()}
        for name in ("one", "same", "other")
    )
    assert one == same
    assert other["interpolation.json"] != one["interpolation.json"]
