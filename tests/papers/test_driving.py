"""Tests of what-ifs about optimizers, as small as possible."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from papers.driving import drift, training
from papers.driving.training import FirstShare
from papers.registry import EXPERIMENTS
from papers.running import run
from papers.workspace import Workspace, in_process, main_corpus
from tests.papers.conftest import TINY


def few(workspace: Workspace) -> Workspace:
    """Workspace in the same folder with one job a family."""
    return Workspace(workspace.folder, replace(TINY, queries=1), workspace.seed, workspace.audience, in_process)


def test_with_a_load_that_drifts_the_plan_for_the_peak_stays_and_the_one_for_now_does_not(workspace, monkeypatch):
    monkeypatch.setattr(drift, "MOST", 3)
    rows = {row["way"]: row for row in run(EXPERIMENTS["driving.drift"], few(workspace)).tables["drift"].rows}
    kept, scaled, peak = (rows[way] for way in (drift.FOR_NOW, "ds2", drift.FOR_THE_PEAK))
    assert min(row[part] for row in rows.values() for part in ("calm", "after", "last")) >= 1.0
    assert peak["after"] < scaled["after"] < kept["after"]
    assert kept["replicas"] < scaled["replicas"]


def test_models_are_judged_on_simulated_plans_by_what_they_learned_from(workspace, tiny_contestants, monkeypatch):
    monkeypatch.setattr(training, "PLANS", 3)
    monkeypatch.setattr(training, "JUDGES", ("edge-2-way",))  # a small corpus has all of its functions
    monkeypatch.setattr(training, "CONTESTANTS", ("ours",))
    monkeypatch.setattr(training, "RANGES", dict(list(training.RANGES.items())[:1]))
    monkeypatch.setattr(training, "SHARES", (FirstShare(0.5),))
    result = run(EXPERIMENTS["driving.training"], few(workspace))
    rows = result.tables["training"].rows
    assert [row["learned"] for row in rows] == ["50% of them", "all runs", "hosts of half a core to 3", "nothing"]
    runs = [row["runs"] for row in rows[:3]]
    assert runs[0] < runs[1] > runs[2]
    assert all(0.0 <= row["regret"] <= 9.0 for row in rows)
    for draw in result.figures.values():
        draw()


@pytest.mark.parametrize("share", [0.0, 0.3, 1.0])
def test_a_share_is_about_that_of_all_rows_and_grows(workspace, share):
    dataset = workspace.dataset(main_corpus(TINY, workspace.seed))
    mask = FirstShare(share).mask(dataset)
    assert np.mean(mask) == pytest.approx(share, abs=0.15)
    assert not (mask & ~FirstShare(min(1.0, share + 0.2)).mask(dataset)).any()
