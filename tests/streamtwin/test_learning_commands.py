"""The way of the documents from a corpus to a plan, as users walk it: every command in a process of its own."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.commands import in_a_shell

SPACES = ("costream", "wide", "demanding")


def document(*words: object) -> dict[str, Any]:
    """Document that a command prints: nothing else is on stdout, and on stderr is nothing at all."""
    found = in_a_shell(*words, "--quiet", "--json")
    assert (found.returncode, found.stderr) == (0, ""), found.stderr
    answer: dict[str, Any] = json.loads(found.stdout)
    return answer


@pytest.mark.slow
@pytest.mark.spark
def test_plans_are_chosen_by_what_was_learned_on_every_space(tmp_path: Path) -> None:
    runs = 14  # of the first space, the last but one has an overloaded join with one rich side
    for space in SPACES:
        corpus = tmp_path / space
        document("corpus", corpus, "--runs", runs, "--space", space)
        assert document("dataset", corpus, tmp_path / "rows" / space)["rows"] == runs
    rows, model = tmp_path / "rows", tmp_path / "model"
    assert sum(document("train", rows, model, "--members", 1, "--epochs", 2)["rows"].values()) == runs * len(SPACES)
    judged = document("evaluate", model, rows, "--all")
    assert judged["runs"] + judged["left_out"] == runs * len(SPACES)
    chosen = document(
        "optimize", "smart-grid", "--cost-model", model, "--budget", 100, "--out", tmp_path / "better.yaml"
    )
    assert chosen["placement"] and (tmp_path / "better.yaml").exists()
