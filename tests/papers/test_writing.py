"""Tests of a result's folder: complete, readable, reproducible, and never in place of a folder of others."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from figures.charts import grouped_bars
from papers.interface import Experiment, ExperimentResult, Table
from papers.running import manifest_of, markdown, write
from papers.workspace import Workspace, label
from scenarios.learning import CorpusRecipe
from twin import VERSION
from twin.errors import BadInput

TABLE = Table(
    "Errors (simulated corpus)",
    {"model": "model", "q50": "median", "paper": "paper: median"},
    ({"model": "a|b", "q50": np.float64(1.25), "paper": 1.37, "hidden": 7}, {"model": "c", "q50": None, "paper": None}),
)
BARS = {"group": ["g"], "series": ["s"], "value": [2.0]}
RESULT = ExperimentResult({"errors": TABLE}, {"bars": lambda: grouped_bars(BARS, "factor")}, ("A remark.",))
EXPERIMENT = Experiment(name="paper.table0", source="Paper, Table 0", summary="what is shown", tables={})


def test_everything_is_in_the_folder(fresh: Workspace, tmp_path: Path):
    recipe = CorpusRecipe(runs=5, seed=2)
    fresh.used[label(recipe)] = recipe
    folder = tmp_path / "out" / EXPERIMENT.name
    write(EXPERIMENT, RESULT, folder, manifest_of(EXPERIMENT, fresh, "small"))
    assert {path.name for path in folder.iterdir()} == {"README.md", "errors.json", "bars.png", "manifest.json"}
    assert [path.name for path in folder.parent.iterdir()] == [EXPERIMENT.name]
    body = json.loads((folder / "errors.json").read_text())
    assert body["rows"][0] == {"model": "a|b", "q50": 1.25, "paper": 1.37, "hidden": 7}
    manifest = json.loads((folder / "manifest.json").read_text())
    assert manifest["version"] == VERSION
    assert manifest["seed"] == fresh.seed
    assert manifest["command"] == "twin reproduce paper.table0 --scale small --seed 1"
    assert manifest["corpora"][label(recipe)]["command"] == "twin corpus OUT --runs 5 --seed 2"
    page = (folder / "README.md").read_text()
    for words in (TABLE.title, "paper: median", "simulated corpus", "![bars](bars.png)", "- A remark.", "Table 0"):
        assert words in page


def test_the_same_result_is_the_same_files(fresh: Workspace, tmp_path: Path):
    manifest = manifest_of(EXPERIMENT, fresh, "small")
    for name in ("one", "other"):
        write(EXPERIMENT, RESULT, tmp_path / name, manifest)
    for path in (tmp_path / "one").iterdir():
        assert path.read_bytes() == (tmp_path / "other" / path.name).read_bytes(), path.name


def test_an_earlier_result_is_replaced_and_anything_else_is_left_alone(fresh: Workspace, tmp_path: Path):
    manifest = manifest_of(EXPERIMENT, fresh, "small")
    write(EXPERIMENT, RESULT, tmp_path / "ours", manifest)
    write(EXPERIMENT, ExperimentResult({"other": TABLE}), tmp_path / "ours", manifest)
    assert {path.name for path in (tmp_path / "ours").iterdir()} == {"README.md", "other.json", "manifest.json"}
    (tmp_path / "theirs").mkdir()
    (tmp_path / "theirs" / "thesis.tex").write_text("years of work")
    with pytest.raises(BadInput, match="left alone"):
        write(EXPERIMENT, RESULT, tmp_path / "theirs", manifest)
    assert [path.name for path in (tmp_path / "theirs").iterdir()] == ["thesis.tex"]


def test_a_figure_that_cannot_be_drawn_leaves_the_earlier_result(fresh: Workspace, tmp_path: Path):
    manifest = manifest_of(EXPERIMENT, fresh, "small")
    write(EXPERIMENT, RESULT, tmp_path / "ours", manifest)
    before = {path.name: path.read_bytes() for path in (tmp_path / "ours").iterdir()}
    with pytest.raises(ZeroDivisionError):
        write(EXPERIMENT, ExperimentResult({"errors": TABLE}, {"bad": lambda: 1 / 0}), tmp_path / "ours", manifest)
    assert {path.name: path.read_bytes() for path in (tmp_path / "ours").iterdir()} == before
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".")] == []


def test_markdown_has_a_cell_a_column():
    lines = markdown(TABLE).splitlines()
    assert lines[0] == "**Errors (simulated corpus)**"
    assert lines[2:4] == ["| model | median | paper: median |", "| --- | --- | --- |"]
    assert lines[4:] == ["| a\\|b | 1.25 | 1.37 |", "| c | - | - |"]
