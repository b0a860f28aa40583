"""The way of the documents from a corpus to a plan, as users walk it: every command in a process of its own."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from tests.commands import ROOT, in_a_shell

EXAMPLES = ROOT / "docs" / "examples"
SPACES = ("costream", "wide", "demanding")


def document(*words: object) -> dict[str, Any]:
    """Document that a command prints: nothing else is on stdout, and on stderr is nothing at all."""
    found = in_a_shell(*words, "--quiet", "--json")
    assert (found.returncode, found.stderr) == (0, ""), found.stderr
    answer: dict[str, Any] = json.loads(found.stdout)
    return answer


@pytest.mark.slow
@pytest.mark.spark
def test_spaces_of_ones_own_become_one_dataset_that_pandas_reads(tmp_path: Path) -> None:
    corpora, rows = [tmp_path / "space", tmp_path / "job-space"], tmp_path / "rows"
    for corpus in corpora:
        asked = ("corpus", corpus, "--space", EXAMPLES / f"{corpus.name}.yaml", "--horizon", 30)
        assert document(*asked, "--runs", 6)["failed"] == 0
        grown = document(*asked, "--runs", 9)
        assert (grown["runs"], grown["failed"]) == (9, 0) and 0 < grown["resumed"] <= 6
        assert document(*asked, "--runs", 9)["resumed"] == 9
    other = in_a_shell("corpus", corpora[0], "--space", EXAMPLES / "job-space.yaml", "--horizon", 30, "--runs", 9)
    assert other.returncode == 2 and "is a corpus with space 'space', not 'job-space'" in other.stderr
    made = document("dataset", *corpora, rows)
    assert (made["runs"], made["rows"], made["failed"], made["duplicates"]) == (18, 18, 0, 0)
    table = pd.read_parquet(rows)
    assert len(table) == 18 and table["horizon_s"].eq(30).all()
    assert table["run"].str.partition("/")[0].value_counts().to_dict() == {"space": 9, "job-space": 9}
    judged = document("evaluate", "learned", rows, "--all")
    assert judged["runs"] + judged["left_out"] == 18


@pytest.mark.slow
@pytest.mark.spark
def test_plans_are_chosen_by_what_was_learned_on_every_space(tmp_path: Path) -> None:
    runs = 14  # of the first space, the last but one has an overloaded join with one rich side
    for space in SPACES:
        document("corpus", tmp_path / space, "--runs", runs, "--space", space)
    rows, model = tmp_path / "rows", tmp_path / "model"
    assert document("dataset", *(tmp_path / space for space in SPACES), rows)["rows"] == runs * len(SPACES)
    assert sum(document("train", rows, model, "--members", 1, "--epochs", 2)["rows"].values()) == runs * len(SPACES)
    judged = document("evaluate", model, rows, "--all")
    assert judged["runs"] + judged["left_out"] == runs * len(SPACES)
    chosen = document(
        "optimize", "smart-grid", "--cost-model", model, "--estimates", 100, "--out", tmp_path / "better.yaml"
    )
    assert chosen["placement"] and (tmp_path / "better.yaml").exists()
