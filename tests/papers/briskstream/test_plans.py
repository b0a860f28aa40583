"""BriskStream's experiments with plans and engines, tiny: word count on few sockets, and what tables must obey."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from papers.briskstream import fig12, fig13, fig14, fig15, fig16, systems
from papers.briskstream.applications import APPLICATIONS, Case
from papers.briskstream.engines import RATIOS, STORM_BY_RATIOS, under
from papers.briskstream.published import TABLE_5_P99_MS
from papers.interface import Result
from papers.registry import EXPERIMENTS
from papers.sizes import SMALL
from papers.workspace import Workspace
from papers.writing import manifest_of, write
from scenarios.executing.progress import Lines
from scenarios.files import scenario_file

ONE = Case("WC", sockets=1)


@pytest.fixture(scope="module")
def workspace(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Workspace]:
    """Plans and runs that one test made, the next one finds."""
    with pytest.MonkeyPatch.context() as patch:
        for module in (fig12, fig13, fig14, fig16, systems):
            patch.setattr(module, "APPLICATIONS", ("WC",))
        for module in (fig12, fig13, fig14, fig15, fig16, systems):
            patch.setattr(module, "Case", partial(Case, sockets=1 if module in (fig14, fig16, systems) else 2))
        for module in (fig12, fig13, fig14, fig15, fig16):
            patch.setattr(module, "SERVERS", ("A",))
        patch.setattr(systems, "RUN_SHARE", 0.1)
        patch.setattr(fig14, "CHUNK", 2)
        yield Workspace(tmp_path_factory.mktemp("work"), replace(SMALL, random_plans=3), 1, Lines(lambda _: None))


def run(name: str, workspace: Workspace, out: Path) -> Result:
    """The experiment, written as the command writes it; every figure is drawn on the way."""
    experiment = EXPERIMENTS[f"briskstream.{name}"]
    result = experiment.run(workspace, workspace.sizes)
    write(experiment, result, out / name, manifest_of(experiment, workspace, "tiny"))
    for table in result.tables.values():
        assert "simulated" in table.title
        assert all(row.keys() >= table.columns.keys() for row in table.rows)
    return result


def test_fig12_measures_both_beliefs_against_rlas(workspace: Workspace, tmp_path: Path) -> None:
    rlas, low, high = run("fig12", workspace, tmp_path).tables["improvement"].rows
    assert (rlas["gain"], low["paper"], high["paper"]) == (None, "19% to 39%", "119% to 455%")
    for row in (low, high):
        assert row["gain"] == pytest.approx(rlas["kps"] / row["kps"] - 1.0)
        assert row["gain"] > -0.02


def test_fig13_no_placement_is_estimated_above_rlas(workspace: Workspace, tmp_path: Path) -> None:
    rows = run("fig13", workspace, tmp_path).tables["placements"].rows
    assert [row["strategy"] for row in rows] == ["RLAS", "FF", "RR", "OS"]
    assert rows[0]["of_rlas"] == 1.0
    assert all(row["estimated_of_rlas"] <= 1.0 + 1e-9 for row in rows)


def test_fig14_random_plans_are_numbered_and_none_is_better(workspace: Workspace, tmp_path: Path) -> None:
    (row,) = run("fig14", workspace, tmp_path).tables["random"].rows
    assert (row["plans"], row["better"]) == (3, 0)
    assert 0.0 < row["median"] <= row["best"] < 1.0
    assert row["best_again"] == pytest.approx(row["best"], rel=0.1)
    job = ONE.job
    first, again, other = (fig14.random_plan(job, 1, number) for number in (0, 0, 1))
    assert first == again != other
    assert sum(first.replicas(name) for name in first.placement) == 18


def test_fig15_fetches_nothing_from_the_own_socket(workspace: Workspace, tmp_path: Path) -> None:
    rows = run("fig15", workspace, tmp_path).tables["fetching"].rows
    cores = np.array([row["cores"] for row in rows])
    assert (np.diag(cores) == 0).all()
    assert cores.sum() > 0
    assert sum(row["share"] for row in rows) == pytest.approx(1.0)


def test_fig16_each_idea_adds(workspace: Workspace, tmp_path: Path) -> None:
    rows = run("fig16", workspace, tmp_path).tables["factors"].rows
    assert [row["step"] for row in rows] == ["Simple", "-Instr.footprint", "+JumboTuple", "+RLAS"]
    assert all(row["gain"] > 1.2 for row in rows[1:3])
    assert rows[3]["gain"] > 0.98


def test_engines_stand_beside_the_paper_and_brisk_is_the_fastest(workspace: Workspace, tmp_path: Path) -> None:
    rows = {row["engine"]: row for row in run("engines", workspace, tmp_path).tables["engines"].rows}
    assert rows["brisk"]["speed_up"] == 1.0
    assert all(row["speed_up"] > 1.5 for engine, row in rows.items() if engine != "brisk")
    assert rows["flink"]["paper_p99_ms"] == TABLE_5_P99_MS["WC"]["flink"]
    assert all(0.0 < row["p50_ms"] <= row["p99_ms"] for row in rows.values())


def test_ratios_multiply_every_time_and_send_tuples_alone() -> None:
    before = scenario_file.load(APPLICATIONS["FD"])
    after = under(before, STORM_BY_RATIOS)
    factor = RATIOS[STORM_BY_RATIOS].factor
    assert 1 / 0.24 < factor < 1 / 0.05
    for old, new in zip(before.query.operators, after.query.operators, strict=True):
        old_s, new_s = before.engine.service_s(before.query, old), after.engine.service_s(after.query, new)
        assert new_s == pytest.approx(old_s * factor)
    assert after.engine.batch_of(100.0) == 1
