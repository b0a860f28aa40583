"""Tests of BriskStream's experiments, tiny: word count on few sockets, and the laws that their tables must obey."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from optimizers.numa.rlas import Rlas
from papers.briskstream import accuracy, engines, planning
from papers.briskstream.applications import (
    APPLICATIONS,
    RATIOS,
    RUN_SHARES,
    STORM_BY_RATIOS,
    Case,
    estimated,
    most_per_s,
    under,
)
from papers.interface import ExperimentResult, Rows, grid
from papers.workspace import SMALL, Workspace
from scenarios.files import scenario_file
from tests.papers.conftest import reproduced, silent
from twin.cluster import SERVER
from twin.plan import ExecutionPlan
from twin.rates.numa_rates import NumaJob

ONE, TWO = (grid(server=("A",), application=("WC",), sockets=(count,)) for count in (1, 2))
SCALED = grid(application=("WC",), server=("A",), sockets=((1, 2),))


@pytest.fixture(scope="module")
def workspace(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Workspace]:
    """Workspace in which a test finds the plans and runs that another one made."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(accuracy, "SAMPLES", 500)
        patch.setattr(engines, "BLIND", Rlas(fetch="never", improve=False))
        patch.setattr(engines, "RUN_SHARE", 0.1)
        patch.setattr(planning, "CHUNK", 2)
        patch.setitem(RUN_SHARES, "WC", 0.05)
        yield Workspace(tmp_path_factory.mktemp("work"), replace(SMALL, random_plans=3), 1, silent())


def run(name: str, workspace: Workspace, out: Path, **cases: Rows) -> ExperimentResult:
    result = reproduced(f"briskstream.{name}", workspace, out, without=("server-b",), **cases)
    assert all("simulated" in table.title.lower() for table in result.tables.values())
    return result


def test_a_record_takes_longer_the_farther_it_comes_and_as_the_model_says(workspace: Workspace, tmp_path: Path) -> None:
    cases = [{"server": "A", "operator": "counter", "socket": socket} for socket in (0, 1, 7)]
    cases += [{"server": "B", "operator": "counter", "socket": socket} for socket in accuracy.ON_SERVER_B]
    rows = run("table3", workspace, tmp_path, times=cases).tables["times"].rows
    assert [row["hops"] for row in rows] == [0, 1, 4, 0, 1, 2, 3]
    for near, far in itertools.pairwise(rows):
        assert near["simulated_ns"] < far["simulated_ns"] or near["server"] != far["server"]
    for row in rows:
        assert row["simulated_ns"] == pytest.approx(row["modelled_ns"], rel=0.03)
        assert (row["paper_measured_ns"] is None) == (row["server"] == "B")
    assert rows[0]["of_measured"] == pytest.approx(rows[0]["simulated_ns"] / rows[0]["paper_measured_ns"] - 1.0)


def test_fetching_costs_what_the_model_says_and_matters_less_the_more_is_executed(
    workspace: Workspace, tmp_path: Path
) -> None:
    cases = [case for case in accuracy.by_operator(workspace) if case["server"] == "A" and case["engine"] != "flink"]
    rows = run("fig8", workspace, tmp_path, components=cases).tables["components"].rows
    assert len(rows) == 8
    for row in rows:
        assert abs(row["rma_ns"] - row["modelled_ns"]) < 0.02 * (row["execute_ns"] + row["modelled_ns"])
    for brisk, storm in zip(rows[:4], rows[4:], strict=True):
        assert brisk["factor"] > storm["factor"]
        assert storm["brisk_share"] < brisk["brisk_share"] == 1.0


def test_free_running_is_no_less_than_with_backpressure(workspace: Workspace, tmp_path: Path) -> None:
    (row,) = run("table4", workspace, tmp_path, accuracy=ONE).tables["accuracy"].rows
    assert row["free_kps"] >= row["sustained_kps"] * (1 - 1e-9)
    assert row["sustained_error"] < 0.1
    assert row["paper_error"] == 0.08


def test_local_search_is_no_worse_by_the_model(workspace: Workspace, tmp_path: Path) -> None:
    cases = grid(server=("A",), planner=("as published", "with local search"), ratio=(1, 5), sockets=(1,))
    rows = run("table7", workspace, tmp_path, ratios=cases).tables["ratios"].rows
    for published, searched in zip(rows[:2], rows[2:], strict=True):
        assert searched["sustained_kps"] >= published["sustained_kps"] * (1 - 1e-9)
        assert searched["weighed"] > published["weighed"] > 0


def test_a_lower_percentile_promises_more(workspace: Workspace, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(accuracy, "PERCENTILES", (10.0, 50.0))
    cases = grid(application=("WC",), sockets=(1,))
    tables = run("fig3", workspace, tmp_path, times=cases, percentiles=cases).tables
    assert all(row["p10_ns"] < row["p50_ns"] < row["mean_ns"] for row in tables["times"].rows)
    low, median = tables["percentiles"].rows
    assert low["predicted_kps"] > median["predicted_kps"] and low["error"] > median["error"]
    assert median["of_median"] == 1.0


def test_scaling_and_gaps_share_plans_and_stay_below_all_cores(workspace: Workspace, tmp_path: Path) -> None:
    flink = grid(application=("WC",), engine=("flink",), sockets=((1, 2),))
    tables = run("fig9", workspace, tmp_path, applications=SCALED, engines=flink).tables
    for name in ("engines", "applications"):
        one, two = tables[name].rows
        assert one["speed_up"] == 1.0 and two["efficiency"] == pytest.approx(two["speed_up"] / 2)
        assert 0.0 < one["of_cores"] < 1.02
    assert 1.5 < two["speed_up"] < 2.2
    (gap,) = run("fig10", workspace, tmp_path, gaps=TWO).tables["gaps"].rows
    assert gap["simulated_kps"] == two["simulated_kps"]
    assert gap["of_ideal"] == pytest.approx(two["efficiency"]) and gap["without_of_cores"] < 1.02


def test_without_remote_cost_is_what_the_model_knows_as_never() -> None:
    job = Case("WC", sockets=2).job
    order = [operator.name for operator in job.query.topological]
    plan = ExecutionPlan(placement={name: (f"{SERVER}/{index % 2}",) for index, name in enumerate(order)})
    assert estimated(engines.without_rma(job), plan) == pytest.approx(estimated(job, plan, fetch="never"))
    assert estimated(job, plan)["sustained_per_s"] < estimated(job, plan, fetch="never")["sustained_per_s"]
    assert estimated(job, plan, fetch="never")["sustained_per_s"] < most_per_s(job)


def test_both_beliefs_are_measured_against_rlas(workspace: Workspace, tmp_path: Path) -> None:
    rlas, low, high = run("fig12", workspace, tmp_path, improvement=TWO).tables["improvement"].rows
    assert (rlas["gain"], low["paper"], high["paper"]) == (None, "19% to 39%", "119% to 455%")
    for row in (low, high):
        assert row["gain"] == pytest.approx(rlas["kps"] / row["kps"] - 1.0) and row["gain"] > -0.02


def test_no_placement_is_estimated_above_rlas(workspace: Workspace, tmp_path: Path) -> None:
    rows = run("fig13", workspace, tmp_path, placements=TWO).tables["placements"].rows
    assert [row["strategy"] for row in rows] == ["RLAS", "FF", "RR", "OS"]
    assert rows[0]["of_rlas"] == 1.0
    assert all(row["estimated_of_rlas"] <= 1.0 + 1e-9 for row in rows)


def test_random_plans_are_numbered_and_none_is_better(workspace: Workspace, tmp_path: Path) -> None:
    (row,) = run("fig14", workspace, tmp_path, random=ONE).tables["random"].rows
    assert (row["plans"], row["better"], row["paper_better"]) == (3, 0, 0)
    assert 0.0 < row["median"] <= row["best"] < 1.0
    assert row["best_again"] == pytest.approx(row["best"], rel=0.1)
    job = Case("WC", sockets=1).job
    first, again, other = (planning.random_plan(job, 1, number) for number in (0, 0, 1))
    assert first == again != other
    assert sum(first.parallelism(name) for name in first.placement) == 18


def test_nothing_is_fetched_from_the_own_socket(workspace: Workspace, tmp_path: Path) -> None:
    cases = grid(server=("A",), sockets=(2,))
    rows = run("fig15", workspace, tmp_path, fetching=cases).tables["fetching"].rows
    cores = np.array([row["cores"] for row in rows])
    assert (np.diag(cores) == 0).all() and cores.sum() > 0
    assert sum(row["share"] for row in rows) == pytest.approx(1.0)


def test_each_idea_adds(workspace: Workspace, tmp_path: Path) -> None:
    rows = run("fig16", workspace, tmp_path, factors=ONE).tables["factors"].rows
    assert [row["step"] for row in rows] == ["Simple", "-Instr.footprint", "+JumboTuple", "+RLAS"]
    assert all(row["gain"] > 1.2 for row in rows[1:3]) and rows[3]["gain"] > 0.98


def test_brisk_is_the_fastest_engine(workspace: Workspace, tmp_path: Path) -> None:
    result = run("engines", workspace, tmp_path, engines=grid(application=("WC",), sockets=(1,)))
    rows = {row["engine"]: row for row in result.tables["engines"].rows}
    assert rows["brisk"]["speed_up"] == 1.0
    assert all(row["speed_up"] > 1.5 for engine, row in rows.items() if engine != "brisk")
    assert rows["storm"]["paper_p99_ms"] == rows[STORM_BY_RATIOS]["paper_p99_ms"] == 37881.3
    assert all(0.0 < row["p50_ms"] <= row["p99_ms"] for row in rows.values())


def test_another_engine_charges_on_top_and_runs_longer() -> None:
    brisk = Case("WC", sockets=1).scenario
    assert under(brisk, "brisk") is brisk
    storm = under(brisk, "storm")
    charged, own = [], []
    for operator in brisk.query.operators:
        own.append(brisk.engine.service_s(brisk.query, operator))
        charged.append(storm.engine.service_s(storm.query, storm.query.operator(operator.name)))
        assert charged[-1] > own[-1] + 90e-6
        sizes = (each.engine.output_bytes(each.query, operator.name) for each in (storm, brisk))
        assert len(set(sizes)) == 1
    assert storm.run.horizon_s == pytest.approx(brisk.run.horizon_s * sum(charged) / sum(own))


def test_ratios_multiply_every_time_and_send_records_alone() -> None:
    before = scenario_file.load(APPLICATIONS["FD"])
    after = under(before, STORM_BY_RATIOS)
    factor = RATIOS[STORM_BY_RATIOS].factor
    assert 1 / 0.24 < factor < 1 / 0.05
    for old, new in zip(before.query.operators, after.query.operators, strict=True):
        old_s, new_s = before.engine.service_s(before.query, old), after.engine.service_s(after.query, new)
        assert new_s == pytest.approx(old_s * factor)
    assert after.engine.batch_of(100.0) == 1


def test_hosts_and_sockets_planned_together_are_not_beaten(workspace: Workspace, tmp_path: Path) -> None:
    text = scenario_file.dump(scenario_file.load("numa-cluster"))
    small = tmp_path / "small.yaml"
    text = text.replace("cores: 18", "cores: 3").replace("cpu_percent: 7200", "cpu_percent: 1200")
    small.write_text(text.replace("rate_per_s: 14000000", "rate_per_s: 3000000"), encoding="utf-8")
    cases = grid(gigabits=(10.0,), scenario=(str(small),))
    rows = {row["planner"]: row for row in run("hosts", workspace, tmp_path, hosts=cases).tables["hosts"].rows}
    assert rows[planning.TOGETHER]["share"] == 1.0 and max(row["share"] for row in rows.values()) < 1.03
    assert rows[planning.ONE_HOST]["hosts"] == 1 and rows[planning.TOGETHER]["hosts"] == 3
    assert rows[planning.TOGETHER]["replicas"] <= 3 * 4 * 3


def test_a_planner_of_hosts_sees_no_sockets() -> None:
    job = scenario_file.load(planning.SCENARIO).deployment
    blind = NumaJob(planning.without_sockets(job))
    assert len(blind.locations) == 3 and blind.capacity_l.sum() == pytest.approx(NumaJob(job).capacity_l.sum())
    assert len(NumaJob(planning.first_host(job)).locations) == 4
