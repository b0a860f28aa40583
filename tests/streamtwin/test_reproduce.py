"""`twin reproduce` as a user meets it; the experiments themselves are tested on their own."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from papers import registry
from papers.interface import CaseTable, Experiment
from papers.registry import EXPERIMENTS
from streamtwin.cli import app as cli

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


def twin(capsys: pytest.CaptureFixture[str], *words: object) -> tuple[int, str, str]:
    with pytest.raises(SystemExit) as stopped:
        cli.main([*map(str, words)])
    output = capsys.readouterr()
    return int(stopped.value.code or 0), output.out, output.err


def test_without_a_name_it_lists_what_there_is(capsys):
    status, out, _ = twin(capsys, "reproduce")
    assert status == 0
    assert all(name in out for name in EXPERIMENTS)


def test_an_unknown_name_is_refused_with_a_suggestion(capsys, tmp_path):
    status, out, err = twin(capsys, "reproduce", "costream.tabel3", "--out", tmp_path / "out")
    assert (status, out) == (2, "")
    assert "unknown experiment 'costream.tabel3'; did you mean 'costream.table3'?" in err
    assert not (tmp_path / "out").exists()


def test_a_foreign_folder_is_refused_before_any_work(capsys, tmp_path):
    (tmp_path / "costream.table3").mkdir()
    status, _, err = twin(capsys, "reproduce", "costream.table3", "--out", tmp_path, "--work", tmp_path / "work")
    assert status == 2
    assert "left alone" in err
    assert not (tmp_path / "work").exists()


def test_rows_are_printed_and_written(capfd, tmp_path: Path, monkeypatch):
    monkeypatch.setattr(registry, "EXPERIMENTS", {FAKE.name: FAKE})
    options = ("--out", tmp_path / "out", "--work", tmp_path / "work", "--seed", 5)
    status, out, err = twin(capfd, "reproduce", "paper.one", *options)
    assert status == 0, err
    assert "written to" in out
    assert json.loads((tmp_path / "out" / "paper.one" / "t.json").read_text())["rows"] == [{"x": 5}, {"x": 1}]


def test_every_experiment_says_what_it_is():
    for name, each in EXPERIMENTS.items():
        assert name == each.name
        assert each.source == "a what-if of ours" or name.partition(".")[0] == each.source.partition(",")[0].lower()
        assert each.summary[0].islower() or each.summary[0].isdigit()
        assert not each.summary.endswith(".")
