"""The way of the documents from a corpus to a plan, as users walk it, on one Spark session."""

from __future__ import annotations

import json
from contextlib import nullcontext
from pathlib import Path

import pandas as pd
import pytest
from pyspark.sql import SparkSession

import streamtwin as st
from tests.commands import ROOT, answer, in_a_shell, refused
from tests.schema_checks import documents_are_as_described

__all__ = ["documents_are_as_described"]

pytestmark = [pytest.mark.spark, pytest.mark.slow]
EXAMPLES = ROOT / "docs" / "examples"
SPACES = ("costream", "wide", "demanding")


@pytest.fixture(autouse=True)
def one_session(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    """Lets commands in this process share a session, of which a process has one at a time."""
    monkeypatch.setattr("spark.session.session", lambda _master: nullcontext(spark))


def test_spaces_of_ones_own_become_one_dataset_that_pandas_reads(tmp_path: Path) -> None:
    corpora, rows = [tmp_path / "space", tmp_path / "job-space"], tmp_path / "rows"
    for corpus in corpora:
        asked = ("corpus", corpus, "--space", EXAMPLES / f"{corpus.name}.yaml", "--horizon", 30)
        assert answer(*asked, "--runs", 6)["failed"] == 0
        grown = answer(*asked, "--runs", 9)
        assert (grown["runs"], grown["failed"]) == (9, 0) and 0 < grown["resumed"] <= 6
        assert answer(*asked, "--runs", 9)["resumed"] == 9
    other = refused("corpus", corpora[0], "--space", EXAMPLES / "job-space.yaml", "--horizon", 30, "--runs", 9)
    assert "is a corpus with space 'space', not 'job-space'" in other
    made = answer("dataset", *corpora, rows)
    assert (made["runs"], made["rows"], made["failed"], made["duplicates"]) == (18, 18, 0, 0)
    table = pd.read_parquet(rows)
    assert len(table) == 18 and table["horizon_s"].eq(30).all()
    assert table["run"].str.partition("/")[0].value_counts().to_dict() == {"space": 9, "job-space": 9}
    judged = answer("evaluate", "learned", rows, "--all")
    assert judged["runs"] + judged["left_out"] == 18


def test_plans_are_chosen_by_what_was_learned_on_every_space(tmp_path: Path) -> None:
    runs = 14  # of the first space, the last but one has an overloaded join with one rich side
    for space in SPACES:
        answer("corpus", tmp_path / space, "--runs", runs, "--space", space)
    rows, model = tmp_path / "rows", tmp_path / "model"
    assert answer("dataset", *(tmp_path / space for space in SPACES), rows)["rows"] == runs * len(SPACES)
    assert sum(answer("train", rows, model, "--members", 1, "--epochs", 2)["rows"].values()) == runs * len(SPACES)
    card = (model / "card.md").read_text()
    assert f"- dataset: {rows}" in card and "## Held-out error: rows kept apart" in card
    judged = answer("evaluate", model, rows, "--all")
    assert judged["runs"] + judged["left_out"] == runs * len(SPACES)
    grid = st.load("smart-grid")
    assert 0.0 < st.load_model(model).predict(grid, [grid.plan])["processing_latency_s"][0] < 100.0
    better = tmp_path / "better.yaml"
    chosen = answer("optimize", "smart-grid", "--cost-model", model, "--estimates", 100, "--out", better)
    assert chosen["placement"] and better.exists()


def test_a_command_in_a_process_of_its_own_prints_its_document_alone(tmp_path: Path) -> None:
    """Nothing else is on stdout, and on stderr is nothing at all, whatever Java and Spark's workers say."""
    small = ("--runs", 2, "--horizon", 12, "--master", "local[2]")
    found = in_a_shell("corpus", tmp_path / "c", *small, "--quiet", "--json")
    assert (found.returncode, found.stderr) == (0, ""), found.stderr
    assert json.loads(found.stdout)["runs"] == 2
