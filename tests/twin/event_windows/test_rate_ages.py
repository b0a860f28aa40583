"""Ages of results of windows over event time, by the rate model beside exact runs."""

from __future__ import annotations

from itertools import combinations
from typing import Any

import numpy as np
import pytest

from tests.twin.event_jobs import HOST, compute, consolidate, job, sink, source
from tests.twin.worlds import deployment
from twin.errors import BadInput
from twin.job import compile
from twin.key_skew import zipf_shares
from twin.rates.arrays import JobArrays
from twin.rates.load import offered_flow
from twin.rates.model import RateModel
from twin.scenario import Scenario
from twin.simulation import simulate
from twin.spec import parse

WINDOWS = [{"length_s": 2}, {"length_s": 4, "every_s": 2}]
FORMS: dict[str, list[dict[str, Any]]] = {
    "complete windows": [source(), compute(windows=WINDOWS), sink()],
    "partial ones, merged": [source(), compute(partial_s=2), consolidate(windows=WINDOWS), sink()],
    "partial ones of a part of a pane": [
        source(),
        compute(partial_s=0.5, keys=24),
        consolidate(windows=WINDOWS, keys=24),
        sink(),
    ],
    "few records a key": [
        source(),
        compute(partial_s=2, keys=400),
        consolidate(windows=WINDOWS, keys=400),
        sink(),
    ],
}


@pytest.mark.parametrize("operators", FORMS.values(), ids=FORMS)
def test_a_window_makes_its_results_as_old_as_its_oldest_record(operators: list[dict[str, Any]]) -> None:
    scenario = job(operators, rate_per_s=150, horizon_s=30, warmup_s=6)
    predicted = float(RateModel().predict(scenario, [scenario.plan])["processing_latency_s"][0])
    latency = simulate(scenario).metrics.processing_latency_s
    assert predicted == pytest.approx(latency.mean, rel=0.05)


@pytest.mark.parametrize(("disorder_s", "slack_s"), [(0.0, 1.5), (3.0, 4.0)])
def test_sources_wait_for_what_is_late(disorder_s: float, slack_s: float) -> None:
    """Results wait for the slack, less the lateness of the first record to come."""
    operators = [source(disorder_s=disorder_s, slack_s=slack_s), compute(windows=[{"length_s": 2}]), sink()]
    scenario = job(operators, rate_per_s=60, horizon_s=40, warmup_s=10)
    predicted = RateModel().predict(scenario, [scenario.plan])
    found = simulate(scenario).metrics
    assert predicted["processing_latency_s"][0] == pytest.approx(found.processing_latency_s.mean, rel=0.05)
    assert predicted["throughput_per_s"][0] == pytest.approx(found.throughput_per_s, rel=0.05)


@pytest.mark.parametrize("rates", [(100.0, 0.1), (4.0, 1.0, 0.25), (0.2, 0.2)])
def test_a_window_waits_until_all_sources_have_read_on(rates: tuple[float, ...]) -> None:
    """A window ends when each Poisson source has read a record from after it: the largest of exponential times, whose
    mean is the sum of 1 / (sum of rates) over all choices of sources, alternately added and taken away."""
    choices = [each for size in range(1, len(rates) + 1) for each in combinations(rates, size)]
    longest_s = sum((-1) ** (len(each) + 1) / sum(each) for each in choices)
    alone, all_ = (_slow_sources(some) for some in ((sum(rates),), rates))
    assert all_ - alone == pytest.approx(longest_s - 1.0 / sum(rates), rel=1e-3)


def test_plans_are_estimated_together_as_alone() -> None:
    """Plans whose sources have different numbers of subtasks, and wait differently, are estimated together as alone."""
    windows = {"kind": "aggregate", "name": "compute", "window": {"policy": "time", "size_s": 2}}
    for kind in (compute(windows=WINDOWS), windows):
        names = [source(name="a"), source(name="b"), kind, sink()]
        streams = [("a", "compute"), ("b", "compute"), ("compute", "sink")]
        hosts = [{**HOST, "name": "x"}, {**HOST, "name": "y", "latency_ms": 500}]
        given = deployment(
            names, streams, {"a": 30.0, "b": 2.0}, hosts, dict.fromkeys(("a", "b", "compute", "sink"), "x")
        )
        plans = [
            given.plan.with_placement({**given.plan.placement, "b": each}) for each in (("x",), ("y",), ("y", "y"))
        ]
        together = RateModel().predict(given, plans)["processing_latency_s"]
        alone = [RateModel().predict(given, [plan])["processing_latency_s"][0] for plan in plans]
        assert together == pytest.approx(alone)
        assert together[1] > together[0] + 0.1


def _slow_sources(rates: tuple[float, ...]) -> float:
    """Age in seconds of results of a window of 5 s behind sources of these rates, by the rate model."""
    names = [f"s{number}" for number in range(len(rates))]
    operators = [*(source(name=name) for name in names), compute(windows=[{"length_s": 5}]), sink()]
    streams = [*((name, "compute") for name in names), ("compute", "sink")]
    given = deployment(operators, streams, dict(zip(names, rates, strict=True)))
    return float(RateModel().predict(given, [given.plan])["processing_latency_s"][0])


def test_partial_results_of_a_part_of_a_pane_make_as_many_results() -> None:
    operators = [source(), compute(partial_s=0.25, keys=60), consolidate(windows=[{"length_s": 2}], keys=60), sink()]
    scenario = job(operators, rate_per_s=40, horizon_s=40, warmup_s=10)
    predicted = RateModel().predict(scenario, [scenario.plan])["throughput_per_s"][0]
    assert predicted == pytest.approx(simulate(scenario).metrics.throughput_per_s, rel=0.03)


@pytest.mark.parametrize(
    ("form", "states"),
    [({"partial_s": 0.5}, 1), ({"partial_s": 0.5, "sharing": "windows"}, 3), ({"windows": WINDOWS}, 1)],
)
def test_logic_is_executed_once_a_state_of_a_record(form: dict[str, Any], states: int) -> None:
    """Logic is executed once for each state of a record: 2 ms for each of three (windows of 2 s, and 4 s every 2 s)."""
    logic = compute(**form, service_time_s=1e-3, execute_time_s=2e-3)
    behind = [consolidate(windows=WINDOWS), sink()] if "partial_s" in form else [sink()]
    scenario = job([source(), logic, *behind], rate_per_s=120.0, horizon_s=60.0, warmup_s=6.0, period_s=6.0)
    busy = 120.0 * (1e-3 + states * 2e-3) / 3
    (found,) = (each for each in simulate(scenario).operators if each.operator == "compute")
    assert found.busy == pytest.approx(busy, rel=0.06)
    predicted = RateModel().answer(scenario, [scenario.plan])
    assert predicted.busy_cores[0, predicted.operators.index("compute")] == pytest.approx(busy, rel=0.02)


@pytest.mark.parametrize("zipf", [0.5, 1.5])
def test_both_phases_send_as_many_results_as_keys_are_frequent_enough(zipf: float) -> None:
    """Of n records, a key of probability p is in a pane, or in a window, with the probability 1 - exp(-n p). All panes
    but the last are sent, and all windows of four panes. How frequent keys are is said where they are drawn."""
    keyed = {"keys": 300, "key_groups": 30}
    both = compute(sharing="panes", **keyed), consolidate(windows=WINDOWS[:1], **keyed)
    made = job([source(), *both, sink()], rate_per_s=200.0, horizon_s=60.0)
    keys, workload = {"compute": {"keys": 300, "zipf": zipf}}, made.workload.model_dump(mode="json")
    with pytest.raises(BadInput, match=r"give workload\.keys\.merge these keys, too"):
        parse(Scenario, {**dict(made), "workload": workload | {"keys": keys}})
    given = parse(Scenario, {**dict(made), "workload": workload | {"keys": keys | {"merge": {"keys": 300}}}})
    run, rates = simulate(given), offered_flow(JobArrays(compile(given)))
    for name, length_s, count in (("compute", 0.5, 119), ("merge", 2.0, 29)):
        seen = -np.expm1(-200.0 * length_s * zipf_shares(300, zipf))
        found = sum(row["numRecordsOut"] for row in run.operator_rows if row["operator"] == name)
        assert found == pytest.approx(count * seen.sum(), abs=4.0 * np.sqrt(count * np.sum(seen * (1.0 - seen))))
        assert rates[name].out_per_s[0] == pytest.approx(seen.sum() / length_s, rel=5e-3)
    assert RateModel().blind_to(given) == (
        "that results of frequent keys of compute are older, and those of rare keys younger",
    )
