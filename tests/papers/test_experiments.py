"""Every experiment of Costream's accuracy, tiny: rows are complete and possible, the paper's figures stand beside."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from papers.costream import rivals, table3, table4, table5
from papers.costream.judging import SHORT
from papers.costream.published import FIGURE_12, TABLE_III, TABLE_IV, TABLE_V
from papers.interface import Result
from papers.recipes import main_corpus
from papers.registry import EXPERIMENTS
from papers.rows import Within
from papers.workspace import Workspace
from papers.writing import manifest_of, write
from scenarios.spaces.unseen_hardware import EXTRAPOLATIONS
from tests.papers.conftest import SEED, TINY, coarsely, silent
from twin.errors import BadInput
from twin.metrics import METRICS, REGRESSION_METRICS

pytestmark = pytest.mark.usefixtures("tiny_contestants")


def run(name: str, workspace: Workspace, out: Path) -> Result:
    """The experiment, written as the command writes it; every figure is drawn on the way."""
    experiment = EXPERIMENTS[name]
    result = experiment.run(workspace, workspace.sizes)
    write(experiment, result, out / name, manifest_of(experiment, workspace, "tiny"))
    files = {path.name for path in (out / name).iterdir()}
    assert files == {
        *("README.md", "manifest.json"),
        *(f"{table}.json" for table in result.tables),
        *(f"{figure}.png" for figure in result.figures),
    }
    page = (out / name / "README.md").read_text()
    assert all(table.title in page for table in result.tables.values())
    for table in result.tables.values():
        assert table.rows
        assert "simulated" in table.title
        assert all(key in row for row in table.rows for key in table.columns), name
    return result


def possible(numbers: Iterator[tuple[str, Any]]) -> int:
    """How many of the values there are, all of which a q-error or a share can be."""
    count = 0
    for name, value in numbers:
        if value is not None:
            assert value >= 1 if "q50" in name or "q95" in name else 0 <= value <= 1, name
            count += 1
    return count


def measures(row: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    return ((key, value) for key, value in row.items() if key.endswith(("q50", "q95", "accuracy")))


def published_rows(result: Result) -> list[Mapping[str, Any]]:
    (table,) = (table for table in result.tables.values() if {"model", "runs"} <= set(table.columns))
    return [row for row in table.rows if row["model"].startswith("paper: ")]


def same_as_published(row: Mapping[str, Any], reported: Mapping[str, tuple[float, ...]]) -> bool:
    found = {
        metric: tuple(row[f"{metric}_{each}"] for each in (("q50", "q95") if len(values) == 2 else ("accuracy",)))
        for metric, values in reported.items()
    }
    return found == dict(reported)


def test_table3_has_every_contestant_the_paper_and_the_limit(workspace, tmp_path, monkeypatch):
    monkeypatch.setattr(table3, "SEEDS", 1)
    result = run("costream.table3", workspace, tmp_path)
    rows = result.tables["accuracy"].rows
    assert len(rows) == len(TABLE_III) + len(rivals.PREDICTORS) + 2 * len(table3.ROUGHLY) + 2
    assert all(map(same_as_published, published_rows(result), TABLE_III.values()))
    assert "replicate limit" in rows[-1]["model"]
    assert rows[-1]["runs"] == TINY.replicates
    for row in rows:
        classes = 0 if "log labels" in row["model"] else 1
        assert possible(measures(row)) >= 2 * len(REGRESSION_METRICS) + classes
        assert all(row[f"{metric}_q50"] <= row[f"{metric}_q95"] for metric in REGRESSION_METRICS)
    for metric in METRICS:
        where = result.tables[f"where_{metric}"].rows
        assert where[0]["stratum"] == "all"
        assert where[0]["share"] in ("100%", None)  # None: nothing is wrong
        assert sum(row["runs"] for row in where if "source" in row["stratum"]) == where[0]["runs"]


@pytest.mark.parametrize(("name", "dimensions"), [("costream.fig7", 4), ("costream.fig8", 1)])
def test_groups_share_the_test_rows_out(workspace, tmp_path, name, dimensions):
    rows = run(name, workspace, tmp_path).tables["errors"].rows
    models = {row["model"] for row in rows}
    assert len(models) == 2
    assert len({row["dimension"] for row in rows}) == dimensions
    test_rows = len(workspace.split(main_corpus(TINY, SEED)).test)
    for model in models:
        for dimension in {row["dimension"] for row in rows}:
            mine = [row for row in rows if (row["model"], row["dimension"]) == (model, dimension)]
            assert sum(row["runs"] for row in mine if row["metric"] == "RO") == test_rows
    for row in rows:
        possible(measures(row))
        assert row["paper"] or row["metric"] not in {SHORT[metric] for metric in REGRESSION_METRICS}


def test_table4_is_judged_on_fresh_runs(workspace, tmp_path, monkeypatch):
    monkeypatch.setattr(table4, "SEEDS", 1)
    result = run("costream.table4", workspace, tmp_path)
    assert all(map(same_as_published, published_rows(result), TABLE_IV.values()))
    ours = result.tables["interpolation"].rows[len(TABLE_IV) :]
    assert len(ours) == len(rivals.PREDICTORS)
    assert all(row["runs"] == TINY.n and possible(measures(row)) for row in ours)


def test_each_seed_has_a_line_and_a_split_of_its_own_over_the_same_rows(workspace, tmp_path, monkeypatch):
    trees, rates = rivals.PREDICTORS["flat-raw"], rivals.PREDICTORS["rates"]
    monkeypatch.setattr(rivals, "everyone", lambda _sizes: {"flat-raw": trees, "rates": rates})
    rows = run("costream.table4", workspace, tmp_path).tables["interpolation"].rows[len(TABLE_IV) :]
    assert [(row["model"], row["training_seed"]) for row in rows] == [
        (each.name, seed) for each in (trees, rates) for seed in (SEED, SEED + 1)
    ]
    assert dict(measures(rows[0])) != dict(measures(rows[1])) and dict(measures(rows[2])) == dict(measures(rows[3]))
    recipe, again = main_corpus(TINY, SEED), workspace.reseeded(SEED + 1)
    assert again.dataset(recipe) is workspace.dataset(recipe)
    assert not np.array_equal(again.split(recipe).test, workspace.split(recipe).test)


def test_table5_trains_within_and_asks_beyond(workspace, tmp_path, monkeypatch):
    cheap = [rivals.PREDICTORS[name] for name in ("trees-log", "rates")]
    monkeypatch.setattr(rivals, "generalising", lambda _sizes: cheap)
    result = run("costream.table5", workspace, tmp_path)
    rows = result.tables["extrapolation"].rows
    assert len(rows) == len(EXTRAPOLATIONS) * (1 + len(cheap))
    assert all(map(same_as_published, published_rows(result), TABLE_V.values()))
    for mean in result.tables["means"].rows:
        of_all = [row["e2e_latency_s_q50"] for row in rows if row["model"] == mean["model"]]
        assert len(of_all) == mean["ranges"] == len(EXTRAPOLATIONS)
        assert min(of_all) <= mean["e2e_latency_s_q50"] <= max(of_all)
    recipe = main_corpus(TINY, SEED)
    training = workspace.dataset(recipe).about
    for each in EXTRAPOLATIONS:
        asked = workspace.dataset(table5.fresh(each, TINY, SEED)).about
        parts = workspace.split(recipe, table5.restricted(each))
        for end, least, most in (("min", min, max), ("max", min, max)):
            inside = training[f"{each.feature}_{end}"][np.concatenate([parts.train, parts.valid])]
            beyond = asked[f"{each.feature}_{end}"]
            assert each.trained[0] <= least(inside) <= most(inside) <= each.trained[1]
            assert set(beyond) <= set(each.asked)
            assert not each.trained[0] <= least(beyond) <= each.trained[1]
        (row,) = (row for row in rows if row["range"].startswith(each.name) and row["model"] == cheap[0].name)
        assert row["training_rows"] == len(parts.train) < len(workspace.split(recipe).train)


def test_fig12_hides_features_and_fig13_changes_the_scheme(workspace, tmp_path):
    seen = run("costream.fig12", workspace, tmp_path).tables["features"].rows
    assert {row["features"]: row["paper_q50"] for row in seen} == FIGURE_12
    assert len({row["q50"] for row in seen}) == len(seen)
    schemes = run("costream.fig13", workspace, tmp_path).tables["schemes"].rows
    assert len(schemes) == 2 * len(REGRESSION_METRICS)
    assert possible((key, row[key]) for row in (*seen, *schemes) for key in ("q50", "q95")) == 2 * (3 + len(schemes))
    full = next(row for row in seen if row["features"] == "table1")
    costream = next(row for row in schemes if row["metric"] == "Le" and row["scheme"].startswith("Costream"))
    assert costream["q50"] == full["q50"]  # the same network, trained once


def test_a_restriction_takes_training_rows_and_leaves_the_test_rows(workspace: Workspace):
    recipe = main_corpus(TINY, SEED)
    about, within = workspace.dataset(recipe).about, Within("ram_mb", 1000, 16000)
    all_rows, restricted = workspace.split(recipe), workspace.split(recipe, within)
    for part in (restricted.train, restricted.valid):
        assert len(part)
        assert about["ram_mb_max"][part].max() <= 16000
    outside = np.setdiff1d(all_rows.train, restricted.train)
    assert len(outside)
    assert about["ram_mb_max"][outside].min() > 16000
    np.testing.assert_array_equal(all_rows.test, restricted.test)
    chains = workspace.split(recipe, Within("filter_chain", 0, 1)).train
    assert about["filter_chain"][chains].max() <= 1
    with pytest.raises(BadInput, match="no training row"):
        workspace.split(recipe, Within("ram_mb", 1, 2))


def test_the_same_seed_gives_the_same_files_and_another_seed_others(tmp_path, monkeypatch):
    cheap = {name: rivals.PREDICTORS[name] for name in ("trees-log", "rates")}
    monkeypatch.setattr(rivals, "PREDICTORS", cheap)
    sizes = replace(TINY, runs=40, replicates=2)
    for name, seed in (("one", 1), ("same", 1), ("other", 2)):
        run("costream.table4", Workspace(tmp_path / f"work-{name}", sizes, seed, silent(), coarsely), tmp_path / name)
    one, same, other = (
        {path.name: path.read_bytes() for path in (tmp_path / name / "costream.table4").iterdir()}
        for name in ("one", "same", "other")
    )
    assert one == same
    assert one["interpolation.json"] != other["interpolation.json"]
    assert json.loads(one["manifest.json"])["seed"] == 1
