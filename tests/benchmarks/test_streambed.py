"""StreamBed's runs beside the twin, on made-up runs of the same form that the twin itself measured, of known costs."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from pathlib import Path

import pandas as pd
import pytest

from benchmarks.real.streambed.__main__ import large_judged, small_judged, widened
from benchmarks.real.streambed.predictors import (
    Calibration,
    Line,
    Plan,
    Settings,
    at_once_per_s,
    busiest_share,
    calibrated,
    exact_per_s,
    interval,
    keys_per_record,
    least_source_us,
    placement,
    scenario,
    slowest_per_s,
)
from benchmarks.real.streambed.runs import QUERIES, SOURCE, read_runs
from scenarios.questions.kept import Kept
from twin.errors import BadInput
from twin.simulation import simulate

SHORT, LASTING = Settings(2.0, 6.0), Settings(20.0, 40.0)
ENDLESS = Settings(40_000.0, 80_000.0)
POWER, CALC_US, SINK_US, SOURCE_US, SHARE = 0.8, 5.0, 1.0, 1.0, 0.9
"""Costs of the machine on which the made-up runs were measured: a Calc's record costs 5 us with one subtask on a task
manager, and more with others beside it."""
SOURCES, MACHINES = 4, 2


def truth(query: str, shares: Mapping[str, tuple[float, float]]) -> Calibration:
    """What an all-knowing calibration would say; shares: of records in and out, by operator."""
    lines = {
        step.name: Line(math.log(SINK_US if step.name == "Sink" else CALC_US), 0.0, POWER, (-9.0, 9.0))
        for step in QUERIES[query]
    }
    ins, outs = ({name: each[side] for name, each in shares.items()} for side in (0, 1))
    return Calibration(query, lines, (), ins, outs, SOURCE_US)


TRUE = truth("q1", {"Calc": (1.0, SHARE), "Sink": (SHARE, 0.0)})


def plan(calcs: int, machines: int = MACHINES, sources: int = SOURCES) -> Plan:
    return Plan("q1", {SOURCE: sources, "Calc": calcs, "Sink": max(1, calcs // 2)}, machines, 32_768)


def true_per_s(each: Plan) -> float:
    """Rate at which the Calc has no time left."""
    return slowest_per_s(TRUE, each.parallelism, TRUE.costs_us(each.density))


def write(folder: Path, smalls: list[Plan], large: Plan) -> None:
    """Files of small runs at their largest rate, each simulated twice, and of a large one that is offered more."""
    runs, operators = [], []
    for number, each in enumerate(smalls):
        for repeat in range(2):
            name, rate = f"sea-{number}-{repeat}", true_per_s(each) * (0.99 - 0.01 * repeat)
            case = scenario(each, TRUE, TRUE.costs_us(each.density), rate, rate / 3_000, SHORT)
            found = simulate(case.with_run(seed=repeat))
            thin = rate / 3_000
            for total in found.operators:
                subtasks = each.parallelism[total.operator]
                came_per_s = thin * (total.rate_out_per_s if total.operator == SOURCE else total.rate_in_per_s)
                cost_us = 1e6 * total.busy * subtasks / came_per_s
                operators.append(
                    {
                        "run_id": name,
                        "operator": total.operator,
                        "cost_us_per_record": cost_us,
                        "records_in_per_s": came_per_s,
                        "in_per_source_event": TRUE.in_share.get(total.operator, 1.0),
                        "out_per_source_event": TRUE.out_share.get(total.operator, 1.0),
                    }
                )
            runs.append(line(name, "search", each, rate, None))
    for share in (0.8, 1.5):
        offered = true_per_s(large) * share
        runs.append(line(f"large-{share}", "large", large, min(offered, true_per_s(large)), offered))
    pd.DataFrame(runs).to_csv(folder / "runs.csv", index=False)
    pd.DataFrame(operators).to_csv(folder / "operators.csv", index=False)


def line(name: str, kind: str, each: Plan, observed: float, offered: float | None) -> dict[str, object]:
    return {
        "run_id": name,
        "set": kind,
        "query": each.query,
        "memory_mb_per_tm": each.memory_mb,
        "task_managers": each.task_managers,
        "observed_per_s": observed,
        "offered_per_s": offered,
        "lp_objective_per_s": None,
        "target_per_s": None,
        "oddity": None,
        "parallelism": json.dumps(dict(each.parallelism)),
    }


@pytest.fixture(scope="module")
def made_up(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("streambed")
    write(folder, [plan(1), plan(2), plan(4), plan(8)], plan(80, 20, 40))
    return folder


def test_the_capacity_of_a_large_cluster_is_found_from_small_ones(made_up: Path) -> None:
    (each,) = large_judged(read_runs(made_up), SOURCE_US, None)
    low, high = each.said.interval_per_s
    assert each.best_per_s == pytest.approx(true_per_s(each.plan))
    assert each.said.at_once_per_s == pytest.approx(true_per_s(each.plan), rel=0.03)
    assert low < 1.03 * true_per_s(each.plan) and true_per_s(each.plan) < high < 1.3 * low  # 1 % may stay unread
    assert each.inside(true_per_s(each.plan)) and not each.inside(0.7 * true_per_s(each.plan))


def test_the_cost_of_sources_is_found(made_up: Path) -> None:
    assert least_source_us(read_runs(made_up)) == pytest.approx(SOURCE_US, rel=0.02)


def test_small_clusters_are_told_from_the_others(made_up: Path) -> None:
    """In between and at like density the costs of others tell the capacity; the densest has none beside it."""
    judged = {each.plan.parallelism["Calc"]: each for each in small_judged(read_runs(made_up), SOURCE_US, None)}
    assert sorted(judged) == [1, 2, 4, 8]
    for calcs in (2, 4):
        assert judged[calcs].said.at_once_per_s == pytest.approx(true_per_s(judged[calcs].plan), rel=0.05)
    assert judged[8].said.at_once_per_s > 1.1 * true_per_s(judged[8].plan)


def test_intervals_are_widened_by_what_other_configurations_were_off(made_up: Path) -> None:
    """The densest of the small ones is off, so an interval that is to hold its runs, too, is wider than costs tell."""
    small = small_judged(read_runs(made_up), SOURCE_US, None)
    for before, after in zip(small, widened(small, small), strict=True):
        (low, high), (lower, higher) = before.said.interval_per_s, after.said.interval_per_s
        assert lower <= low <= high <= higher and higher / high == pytest.approx(low / lower)
        if before.plan.parallelism["Calc"] != 8:
            assert higher > 1.02 * high


def test_costs_without_the_density_are_too_low_for_a_full_machine(made_up: Path) -> None:
    runs = [run for run in read_runs(made_up) if run.readings]
    dense = plan(8).density
    flat, sloped = (calibrated(runs, SOURCE_US, by_density=each).costs_us(dense)["Calc"] for each in (False, True))
    assert sloped == pytest.approx(TRUE.costs_us(dense)["Calc"], rel=0.03)
    assert flat < 0.9 * sloped


def test_exact_runs_agree_with_arithmetic_however_thin(tmp_path: Path) -> None:
    each = plan(4)
    found = exact_per_s(each, TRUE, 0.9 * true_per_s(each), Kept(tmp_path), LASTING)
    assert found == pytest.approx(true_per_s(each), rel=0.03)
    began = len(Kept(tmp_path).outcomes)
    assert exact_per_s(each, TRUE, 0.9 * true_per_s(each), Kept(tmp_path), LASTING) == found
    assert len(Kept(tmp_path).outcomes) == began


def test_key_groups_limit_what_keyed_operators_bear() -> None:
    """Of 128 key groups, one of 42 subtasks has 4, and one of 43 has 3."""
    shares = {"Calc1": (1.0, 0.9), "GroupWindowAggregate": (0.9, 0.02), "Calc2": (0.02, 0.02), "Sink": (0.02, 0.0)}
    told = truth("q11", shares)
    found = {}
    for subtasks in (42, 43):
        each = Plan(
            "q11", {SOURCE: 64, "Calc1": 60, "GroupWindowAggregate": subtasks, "Calc2": 1, "Sink": 1}, 8, 32_768
        )
        costs = told.costs_us(1.0)
        found[subtasks] = at_once_per_s(each, told, costs, slowest_per_s(told, each.parallelism, costs), ENDLESS)
    assert found[43] / found[42] == pytest.approx(4 / 3, rel=0.02)


@pytest.mark.parametrize(("subtasks", "groups"), [(1, 128), (7, 128), (42, 128), (128, 128), (100, 256)])
def test_the_busiest_has_whole_key_groups(subtasks: int, groups: int) -> None:
    share = busiest_share(subtasks, True, groups)
    assert share * groups == pytest.approx(round(share * groups))
    assert 1 / subtasks <= share < 1 / subtasks + 1 / groups
    assert busiest_share(subtasks, False) == 1 / subtasks


@pytest.mark.parametrize("share", [0.01, 0.1, 0.5, 0.92, 0.999])
def test_keys_give_back_how_many_records_are_the_only_one_of_their_key(share: float) -> None:
    records, keys = 1000.0, 1000.0 * keys_per_record(share)
    assert keys * -math.expm1(-records / keys) == pytest.approx(share * records, rel=1e-6)


def test_machines_have_as_many_subtasks() -> None:
    hosts = [
        host for places in placement(plan(7, 5, 9)).values() for host, count in places.items() for _ in range(count)
    ]
    counts = [hosts.count(host) for host in set(hosts)]
    assert len(hosts) == 9 + 7 + 3 and max(counts) - min(counts) <= 1


def test_intervals_are_as_wide_as_costs_are_unsure() -> None:
    assert interval(10.0, [10.0, 10.0, 10.0]) == (10.0, 10.0)
    narrow, wide = interval(10.0, [9.9, 10.0, 10.1]), interval(10.0, [9.0, 10.0, 11.0])
    assert wide[0] < narrow[0] < 10.0 < narrow[1] < wide[1]


@pytest.mark.parametrize(
    ("column", "value", "said"),
    [
        ("observed_per_s", -1.0, "runs.csv, line 2: observed_per_s is -1.0"),
        ("observed_per_s", None, "runs.csv, line 2: observed_per_s is empty"),
        ("parallelism", '{"Calc": 0}', "runs.csv, line 2: parallelism is"),
        ("query", None, "runs.csv, line 2: query is None"),
    ],
)
def test_bad_files_are_one_line(made_up: Path, tmp_path: Path, column: str, value: object, said: str) -> None:
    table = pd.read_csv(made_up / "runs.csv").astype(object)
    table.loc[0, column] = value
    table.to_csv(tmp_path / "runs.csv", index=False)
    (tmp_path / "operators.csv").write_bytes((made_up / "operators.csv").read_bytes())
    with pytest.raises(BadInput, match=said.replace(".", r"\.")) as error:
        read_runs(tmp_path)
    assert "\n" not in str(error.value)


def test_a_folder_without_files_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="give --data a folder"):
        read_runs(tmp_path)
