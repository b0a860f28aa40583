"""`twin reproduce` as a user meets it; the experiments themselves are tested on their own."""

from __future__ import annotations

import json

from papers import registry
from papers.interface import CaseTable, Experiment
from papers.registry import EXPERIMENTS
from tests.commands import refused, twin

FAKE = Experiment(
    name="paper.one",
    source="Paper, Table 1",
    summary="one number",
    tables={
        "t": CaseTable(
            title="t",
            columns="x",
            measure=lambda workspace: [{"x": workspace.seed}, {"x": workspace.sizes.members}],
        )
    },
)


def test_without_a_name_it_lists_what_there_is():
    listed = twin("reproduce")
    assert listed.returncode == 0 and all(name in listed.stdout for name in EXPERIMENTS)


def test_an_unknown_name_is_refused_with_a_suggestion_and_a_foreign_folder_before_any_work(tmp_path):
    said = refused("reproduce", "costream.tabel3", "--out", tmp_path / "out")
    assert "unknown experiment 'costream.tabel3'; did you mean 'costream.table3'?" in said
    (tmp_path / "costream.table3").mkdir()
    assert "left alone" in refused("reproduce", "costream.table3", "--out", tmp_path, "--work", tmp_path / "work")
    assert [each.name for each in tmp_path.iterdir()] == ["costream.table3"]


def test_rows_are_printed_and_written(tmp_path, monkeypatch):
    monkeypatch.setattr(registry, "EXPERIMENTS", {FAKE.name: FAKE})
    made = twin("reproduce", "paper.one", "--out", tmp_path / "out", "--work", tmp_path / "work", "--seed", 5)
    assert made.returncode == 0, made.stderr
    assert "written to" in made.stdout
    assert json.loads((tmp_path / "out" / "paper.one" / "t.json").read_text())["rows"] == [{"x": 5}, {"x": 1}]


def test_every_experiment_says_what_it_is():
    for name, each in EXPERIMENTS.items():
        assert name == each.name
        assert each.source == "a what-if of ours" or name.partition(".")[0] == each.source.partition(",")[0].lower()
        assert each.summary[0].islower() or each.summary[0].isdigit()
        assert not each.summary.endswith(".")
