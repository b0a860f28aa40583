"""Comparison with real runs: the arithmetic of errors, and that a perfect twin of a perfect run has none."""

from __future__ import annotations

import os
import statistics
from pathlib import Path
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamtwin.connect.importers.run_graph import CYCLES, fitted, read_run_graph, validate
from tests.streamtwin.test_run_graph import HOSTS, LINEAR, aggregate, edges, filter_node, source
from twin.deployment import nominal_rates
from twin.errors import BadInput
from twin.scenario import RunSettings, Scenario
from twin.simulation import simulate

SETTINGS = RunSettings(horizon_s=60, warmup_s=20, period_s=10)


def by_rates(scenario: Scenario, scale: float = 1.0) -> SimpleNamespace:
    """Fake run whose operators have the nominal rates, times `scale`."""
    rates = nominal_rates(scenario.query, scenario.workload.arrivals)
    return SimpleNamespace(
        operators=[
            SimpleNamespace(operator=name, rate_in_per_s=each.in_per_s * scale, rate_out_per_s=each.out_per_s * scale)
            for name, each in rates.items()
        ]
    )


def graph(path: Path, body: str) -> Path:
    """Writes a run graph."""
    path.parent.mkdir(exist_ok=True)
    path.write_text("graph {\n" + body + HOSTS + "}\n")
    return path


def chained(results_per_s: float = 5) -> str:
    """Run graph without reading errors: 1000/s, a quarter passes, one result a slide of 50."""
    return source(0, 400, 600) + filter_node(1, 500, 125) + aggregate(2, 250, results_per_s) + edges((0, 1), (1, 2))


@pytest.fixture
def folder(tmp_path):
    graph(tmp_path / "linear" / "run-1.graph", chained())
    graph(tmp_path / "other" / "run-2.graph", source(0, 10, 10) + filter_node(1, 10, 5) + edges((0, 1)))
    return tmp_path


def test_a_perfect_twin_of_a_perfect_run_has_no_error(folder):
    found = validate(folder, SETTINGS, by_rates)
    assert found.median_relative_error == pytest.approx(0, abs=1e-12)
    rows = [row for row in found.operators if row.run == "linear/run-1"]
    assert [row.operator for row in rows] == ["source-0", "filter-1", "aggregate-2"]
    assert found.runs == 2 and not found.failed
    assert rows[0].errors == () and rows[0].predicted_in_per_s is None  # what is given is not predicted


def test_conservation_and_the_windows_law_stand_beside_the_twin(folder):
    """Conservation and the windows' own inputs give the right rates beside a twin that is off by a factor of two."""
    beside = validate(folder, SETTINGS, lambda scenario: by_rates(scenario, 2.0)).beside
    assert beside["simulated"].median == pytest.approx(1.0)
    for name in ("by conservation alone", "count windows, from their own input"):
        assert beside[name].median == pytest.approx(0.0, abs=1e-12) and beside[name].within_5_percent == 1.0
    assert beside["count windows, from their own input"].quantities == 1
    graph(folder / "linear" / "run-1.graph", chained(results_per_s=4))
    beside = validate(folder, SETTINGS, by_rates).beside
    assert beside["count windows, from their own input"].median == pytest.approx((5 - 4) / 4)


@given(scale=st.floats(0.1, 10))
def test_a_twin_that_is_off_by_a_factor_is_off_by_that_factor_everywhere(tmp_path_factory, scale):
    path = tmp_path_factory.mktemp("runs")
    graph(path / "run.graph", source(0, 400, 600) + filter_node(1, 500, 125) + edges((0, 1)))
    found = validate(path, SETTINGS, lambda scenario: by_rates(scenario, scale))
    errors = [error for row in found.operators for error in row.errors]
    assert errors == pytest.approx([abs(scale - 1)] * 2)
    assert found.operators[0].family == path.name


def test_what_was_not_measured_has_no_error(tmp_path):
    graph(tmp_path / "run.graph", source(0, 10, 10) + filter_node(1, 10, 0) + edges((0, 1)))
    row = validate(tmp_path, SETTINGS, by_rates).operators[1]
    assert row.relative_error_out is None and row.relative_error_in == pytest.approx(0.0)


def test_groups_hold_every_error_once_and_the_median_is_of_all(folder):
    found = validate(folder, SETTINGS, lambda scenario: by_rates(scenario, 1.1))
    errors = [error for row in found.operators for error in row.errors]
    for groups in (found.by_quantity, found.by_family):
        assert sum(group.quantities for group in groups.values()) == len(errors)
    assert set(found.by_family) == {"linear", "other"}
    assert set(found.by_quantity) == {"filter in", "filter out", "aggregate in", "aggregate out"}
    assert found.median_relative_error == statistics.median(errors)
    assert all(group.within_5_percent == 0 for group in found.by_family.values())


def test_what_does_not_import_or_run_is_listed_with_its_reason_and_the_rest_is_compared(folder):
    def refuse(scenario: Scenario) -> SimpleNamespace:
        if len(scenario.query.operators) == 3:
            raise BadInput("it cannot be done")
        return by_rates(scenario)

    (folder / "linear" / "broken.graph").write_text("graph {")
    found = validate(folder, SETTINGS, refuse)
    assert "line 1" in found.failed["linear/broken"]
    assert found.failed["other/run-2"] == "it cannot be done"
    assert {row.run for row in found.operators} == {"linear/run-1"}
    (folder / "linear" / "run-1.graph").unlink()
    with pytest.raises(BadInput, match="nothing to compare"):
        validate(folder, SETTINGS, refuse)


def test_a_folder_without_graphs_is_refused(tmp_path):
    for path, why in ((tmp_path, "holds no .graph file"), (tmp_path / "none", "is not a folder")):
        with pytest.raises(BadInput, match=why):
            validate(path, SETTINGS, by_rates)


def test_runs_are_as_long_as_their_slowest_window_needs(folder):
    seen: dict[str, RunSettings] = {}

    def note(scenario: Scenario) -> SimpleNamespace:
        seen[scenario.query.operators[-2].name] = scenario.run
        return by_rates(scenario)

    validate(folder, SETTINGS, note)
    # 100 records in a window, 4 subtasks, 250 records/s
    assert seen["aggregate-2"].horizon_s == pytest.approx(CYCLES * 100 * 4 / 250)
    assert seen["aggregate-2"].warmup_s == pytest.approx(seen["aggregate-2"].horizon_s / 3)
    assert seen["filter-1"] == SETTINGS


def test_a_shorter_horizon_is_left_alone(tmp_path):
    path = graph(tmp_path / "run.graph", LINEAR)
    short = RunSettings(horizon_s=3, warmup_s=1, period_s=1, seed=5)
    deployment = read_run_graph(path).scenario.deployment
    assert fitted(deployment, short) == short
    assert fitted(deployment, SETTINGS.model_copy(update={"seed": 5})).seed == 5


def test_the_simulator_agrees_with_a_run_without_reading_errors(folder):
    """Below saturation the simulator agrees with a run without reading errors, but for the draws of the filter."""
    assert validate(folder, SETTINGS, simulate).median_relative_error < 0.05


@pytest.mark.skipif("STREAMTWIN_FLINK_RUNS" not in os.environ, reason="STREAMTWIN_FLINK_RUNS names no folder of runs")
def test_published_runs_are_predicted_within_five_percent():
    found = validate(os.environ["STREAMTWIN_FLINK_RUNS"], SETTINGS, simulate)
    assert found.median_relative_error <= 0.05 and not found.failed
