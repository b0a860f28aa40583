"""Fusion of random jobs: complete tables, possible values, and what the paper says of them comes out."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from papers.enorm import consolidation, fig14, fig15, punctuations
from papers.enorm.fusing import ALGORITHMS, fuse
from papers.enorm.published import OPERATORS
from papers.registry import EXPERIMENTS
from papers.writing import manifest_of, write


@pytest.fixture
def brief(monkeypatch):
    monkeypatch.setattr(fig15, "SMALL", (10, 12))


def mean(rows, operators, score):
    (row,) = (row for row in rows if (row["operators"], row["score"]) == (operators, score))
    return row["mean"]


@pytest.mark.usefixtures("brief")
def test_tables_are_complete_and_the_papers_order_comes_out(workspace, tmp_path):
    for name in ("enorm.fig14", "enorm.fig15"):
        result = EXPERIMENTS[name].run(workspace, workspace.sizes)
        write(EXPERIMENTS[name], result, tmp_path / name, manifest_of(EXPERIMENTS[name], workspace, "tiny"))
        page = (tmp_path / name / "README.md").read_text()
        assert "simulated runs" not in page and "random jobs are fused" in page
        for table in result.tables.values():
            assert len(table.rows) == len(ALGORITHMS) * len({row["operators"] for row in table.rows})
            assert all(key in row for row in table.rows for key in table.columns)
    rows = json.loads((tmp_path / "enorm.fig14" / "components.json").read_text())["rows"]
    sent = json.loads((tmp_path / "enorm.fig15" / "communication.json").read_text())["rows"]
    for size in OPERATORS:
        assert mean(rows, size, "COMM") > mean(rows, size, "PA")
        assert all(mean(sent, size, "COMM") < mean(sent, size, other) for other in ("PA", "baseline"))
    assert all(row["cyclic"] == 0 for row in sent if row["score"] == "COMM without circles")
    for row in json.loads((tmp_path / "enorm.fig15" / "gaps.json").read_text())["rows"]:
        assert 0 <= row["least"] <= row["mean"] + 1e-6 <= 1
        assert -1e-6 <= row["gap"] <= row["worst"]


def test_86_against_240_and_less_saved_the_fewer_keys_repeat():
    hour = consolidation.row(consolidation.HOUR)
    assert (hour["merged"], hour["alone"]) == (86, 240)
    times = [consolidation.key_row(keys)["times"] for keys in consolidation.KEYS]
    assert times[0] == pytest.approx(240 / 86, rel=1e-3) and times[0] > times[1] > times[2] >= 1.0


def test_a_modification_that_carries_its_cut_means_the_same_everywhere_and_the_papers_does_not(workspace):
    rows = punctuations.run(workspace, replace(workspace.sizes, n=20)).tables["unlike"].rows
    shares = {(row["sources"], row["instances"], row["rule"]): row["unlike"] for row in rows}
    assert all(share == 0.0 for (_, _, rule), share in shares.items() if rule == punctuations.CUT)
    assert all(shares[1, layers, punctuations.ALIGNED] == 0.0 for layers in ("1, 1", "2, 2", "3, 3, 3"))
    assert shares[1, "2, 2", punctuations.FIRST] > 0.1 < shares[2, "2, 2", punctuations.ALIGNED]
    assert shares[1, "1, 1", punctuations.FIRST] == 0.0  # where the paper's argument holds


def test_jobs_do_not_depend_on_how_many_there_are():
    two, one = fuse(12, 5, 0, 2), fuse(12, 5, 1, 1)
    assert {name: each["communication"][1:] for name, each in two.items()} == {
        name: each["communication"] for name, each in one.items()
    }


def test_both_figures_are_of_the_same_jobs(workspace, monkeypatch):
    monkeypatch.setattr(fig15, "SMALL", ())
    first = fig14.run(workspace, workspace.sizes).tables["components"].rows
    second = fig15.run(workspace, workspace.sizes).tables["communication"].rows
    assert [row["cyclic"] for row in first] == [row["cyclic"] for row in second]
