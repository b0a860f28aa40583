"""Hosts and sockets planned together: every planner's plan runs, and who may use one host uses one."""

from __future__ import annotations

from pathlib import Path

import pytest

from papers.briskstream import hosts
from papers.sizes import SMALL
from papers.workspace import Workspace
from scenarios.executing.progress import Lines
from scenarios.files import scenario_file
from twin.rates.numa_job import NumaJob


def test_all_planners_are_judged_on_the_same_machines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = scenario_file.dump(scenario_file.load("numa-cluster"))
    small = tmp_path / "small.yaml"
    text = text.replace("cores: 18", "cores: 3").replace("cpu_percent: 7200", "cpu_percent: 1200")
    small.write_text(text.replace("rate_per_s: 14000000", "rate_per_s: 3000000"), encoding="utf-8")
    monkeypatch.setattr(hosts, "SCENARIO", str(small))
    monkeypatch.setattr(hosts, "GIGABITS", (10.0,))
    workspace = Workspace(tmp_path, SMALL, 1, Lines(lambda _: None))
    result = hosts.run(workspace, SMALL)
    rows = {row["planner"]: row for row in result.tables["hosts"].rows}
    assert rows[hosts.TOGETHER]["share"] == 1.0
    assert rows[hosts.ONE_HOST]["hosts"] == 1 and rows[hosts.TOGETHER]["hosts"] == 3
    assert max(row["share"] for row in rows.values()) < 1.03
    assert rows[hosts.TOGETHER]["replicas"] <= 3 * 4 * 3
    assert [figure() for figure in result.figures.values()]


def test_a_planner_of_hosts_sees_no_sockets() -> None:
    job = scenario_file.load(hosts.SCENARIO).deployment
    blind = NumaJob(hosts.without_sockets(job))
    assert len(blind.locations) == 3 and blind.capacity_l.sum() == pytest.approx(NumaJob(job).capacity_l.sum())
    assert len(NumaJob(hosts.first_host(job)).locations) == 4
