"""BriskStream's model experiments, tiny: one application on few sockets, the laws that their tables must obey."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from optimizers.numa.rlas import Rlas
from papers.briskstream import against, fig3, fig8, fig9, fig10, table3, table4, table7
from papers.briskstream.applications import Case, estimated, most_per_s
from papers.briskstream.engines import under
from papers.briskstream.published import TABLE_3, TABLE_4, TABLE_7
from papers.interface import Result
from papers.registry import EXPERIMENTS
from papers.sizes import SMALL
from papers.workspace import Workspace
from papers.writing import manifest_of, write
from scenarios.executing.progress import Lines
from twin.numa import SERVER
from twin.plan import ExecutionPlan

ONE = Case("WC", sockets=1)


@pytest.fixture(scope="module")
def workspace(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Workspace]:
    """Plans and runs that one test made, the next one finds."""
    with pytest.MonkeyPatch.context() as patch:
        for module in (fig3, table4, fig10):
            patch.setattr(module, "Case", partial(Case, sockets=2 if module is fig10 else 1))
        for module in (fig3, table4, fig9, fig10):
            patch.setattr(module, "APPLICATIONS", ("WC",))
        for module in (table4, fig8, fig9, fig10):
            patch.setattr(module, "SERVERS", ("A",))
        patch.setattr(table7, "CASES", (ONE,))
        patch.setattr(table7, "TABLE_7", {ratio: TABLE_7[ratio] for ratio in (1, 5)})
        patch.setattr(table3, "TABLE_3", {"counter": {socket: TABLE_3["counter"][socket] for socket in (0, 1, 7)}})
        patch.setattr(fig3, "PERCENTILES", (10.0, 50.0))
        patch.setattr(fig3, "SAMPLES", 500)
        patch.setattr(fig8, "ENGINES", ("brisk", "storm"))
        patch.setattr(fig9, "BLIND", Rlas(fetch="never", improve=False))
        patch.setattr(fig9, "ENGINES", ("flink",))
        patch.setattr(fig9, "OF_ENGINES", "WC")
        patch.setattr(fig9, "SOCKETS", (1, 2))
        yield Workspace(tmp_path_factory.mktemp("work"), SMALL, 1, Lines(lambda _: None))


def run(name: str, workspace: Workspace, out: Path) -> Result:
    """The experiment, written as the command writes it; every figure is drawn on the way."""
    experiment = EXPERIMENTS[f"briskstream.{name}"]
    result = experiment.run(workspace, workspace.sizes)
    write(experiment, result, out / name, manifest_of(experiment, workspace, "tiny"))
    for table in result.tables.values():
        assert table.rows
        assert "simulated" in table.title.lower()
        assert all(row.keys() == table.columns.keys() for row in table.rows)
    return result


def test_table3_grows_with_distance_as_the_model_says(workspace: Workspace, tmp_path: Path) -> None:
    rows = run("table3", workspace, tmp_path).tables["times"].rows
    assert [(row["server"], row["hops"]) for row in rows] == [
        *(("A", n) for n in (0, 1, 4)),
        *(("B", n) for n in range(4)),
    ]
    for near, far in itertools.pairwise(rows):
        assert near["simulated_ns"] < far["simulated_ns"] or near["server"] != far["server"]
    for row in rows:
        assert row["simulated_ns"] == pytest.approx(row["modelled_ns"], rel=0.03)
    for row in rows[:3]:
        assert row["paper_measured_ns"] == TABLE_3["counter"][{0: 0, 1: 1, 4: 7}[row["hops"]]].measured_ns


def test_table4_free_running_is_no_less_than_with_backpressure(workspace: Workspace, tmp_path: Path) -> None:
    (row,) = run("table4", workspace, tmp_path).tables["accuracy"].rows
    assert row["free_kps"] >= row["sustained_kps"] * (1 - 1e-9)
    assert row["sustained_error"] < 0.1
    assert row["paper_measured_kps"] == TABLE_4["WC"].measured_kps


def test_table7_has_both_planners_and_search_is_no_worse_by_the_model(workspace: Workspace, tmp_path: Path) -> None:
    rows = run("table7", workspace, tmp_path).tables["ratios"].rows
    assert [row["ratio"] for row in rows] == [1, 5, 1, 5]
    for published, searched in zip(rows[:2], rows[2:], strict=True):
        assert searched["sustained_kps"] >= published["sustained_kps"] * (1 - 1e-9)
        assert searched["weighed"] > published["weighed"] > 0


def test_fig3_promises_more_of_a_lower_percentile(workspace: Workspace, tmp_path: Path) -> None:
    tables = run("fig3", workspace, tmp_path).tables
    assert all(row["p10_ns"] < row["p50_ns"] < row["mean_ns"] for row in tables["times"].rows)
    low, median = tables["percentiles"].rows
    assert low["predicted_kps"] > median["predicted_kps"]
    assert low["error"] > median["error"]
    assert median["of_median"] == 1.0


def test_fig8_fetching_costs_what_the_model_says_and_matters_less_the_more_is_executed(
    workspace: Workspace, tmp_path: Path
) -> None:
    rows = run("fig8", workspace, tmp_path).tables["components"].rows
    assert len(rows) == 8
    for row in rows:
        error_ns = abs(row["rma_ns"] - row["modelled_ns"])
        assert error_ns < 0.02 * (row["execute_ns"] + row["modelled_ns"])
    for brisk, storm in zip(rows[:4], rows[4:], strict=True):
        assert brisk["factor"] > storm["factor"]
        assert storm["brisk_share"] < brisk["brisk_share"] == 1.0


def test_fig9_and_fig10_share_plans_and_stay_below_all_cores(workspace: Workspace, tmp_path: Path) -> None:
    tables = run("fig9", workspace, tmp_path).tables
    for name in ("engines", "applications"):
        one, two = tables[name].rows
        assert one["speed_up"] == 1.0
        assert two["efficiency"] == pytest.approx(two["speed_up"] / 2)
        assert 0.0 < one["of_cores"] < 1.02
    assert 1.5 < tables["applications"].rows[1]["speed_up"] < 2.2
    (gap,) = run("fig10", workspace, tmp_path).tables["gaps"].rows
    assert gap["simulated_kps"] == tables["applications"].rows[1]["simulated_kps"]
    assert gap["of_ideal"] == pytest.approx(tables["applications"].rows[1]["efficiency"])
    assert gap["without_of_cores"] < 1.02


def test_remote_memory_is_the_main_reason_where_it_is_half_of_each_gap() -> None:
    def verdict(*without: float) -> str:
        rows = [{"server": "A", "of_ideal": 0.8, "without_of_ideal": each} for each in without]
        return str(against.fig10([*rows, {"server": "A", "of_ideal": 1.1, "without_of_ideal": 1.1}])[1]["verdict"])

    assert verdict(0.91, 0.95) == "agrees"
    assert verdict(0.91, 0.81) == "differs" and verdict() == "differs"


def test_without_remote_cost_is_what_the_model_knows_as_never() -> None:
    job = Case("WC", sockets=2).job
    order = [operator.name for operator in job.query.topological]
    plan = ExecutionPlan(placement={name: (f"{SERVER}/{index % 2}",) for index, name in enumerate(order)})
    assert estimated(fig10.without_rma(job), plan) == pytest.approx(estimated(job, plan, fetch="never"))
    assert estimated(job, plan)["sustained_per_s"] < estimated(job, plan, fetch="never")["sustained_per_s"]
    assert estimated(job, plan, fetch="never")["sustained_per_s"] < most_per_s(job)


def test_another_engine_charges_on_top_and_runs_longer() -> None:
    brisk = ONE.scenario
    assert under(brisk, "brisk") is brisk
    storm = under(brisk, "storm")
    factors = []
    for operator in brisk.query.operators:
        own_s = brisk.engine.service_s(brisk.query, operator)
        charged_s = storm.engine.service_s(storm.query, storm.query.operator(operator.name))
        assert charged_s > own_s + 90e-6
        assert storm.engine.output_bytes(storm.query, operator.name) == brisk.engine.output_bytes(
            brisk.query, operator.name
        )
        factors.append((charged_s, own_s))
    slower = sum(each for each, _ in factors) / sum(each for _, each in factors)
    assert storm.run.horizon_s == pytest.approx(brisk.run.horizon_s * slower)
