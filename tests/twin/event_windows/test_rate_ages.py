"""Ages of results of windows over event time, by the rate model beside exact runs."""

from __future__ import annotations

from typing import Any

import pytest

from tests.twin.event_jobs import compute, consolidate, job, sink, source
from twin.rates.model import RateModel
from twin.simulation import simulate

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
    "few tuples a key": [
        source(),
        compute(partial_s=2, keys=400),
        consolidate(windows=WINDOWS, keys=400),
        sink(),
    ],
}


@pytest.mark.parametrize("operators", FORMS.values(), ids=FORMS)
def test_a_window_makes_its_results_as_old_as_its_oldest_tuple(operators: list[dict[str, Any]]) -> None:
    scenario = job(operators, rate_per_s=150, horizon_s=30, warmup_s=6)
    predicted = float(RateModel().predict(scenario, [scenario.plan])["processing_latency_s"][0])
    latency = simulate(scenario).metrics.processing_latency_s
    assert predicted == pytest.approx(latency.mean, rel=0.05)


@pytest.mark.parametrize(("disorder_s", "slack_s"), [(0.0, 1.5), (3.0, 4.0)])
def test_sources_wait_for_what_is_late(disorder_s: float, slack_s: float) -> None:
    """Results wait for the slack, less the lateness of the first tuple to come."""
    operators = [source(disorder_s=disorder_s, slack_s=slack_s), compute(windows=[{"length_s": 2}]), sink()]
    scenario = job(operators, rate_per_s=60, horizon_s=40, warmup_s=10)
    predicted = RateModel().predict(scenario, [scenario.plan])
    found = simulate(scenario).metrics
    assert predicted["processing_latency_s"][0] == pytest.approx(found.processing_latency_s.mean, rel=0.05)
    assert predicted["throughput_per_s"][0] == pytest.approx(found.throughput_per_s, rel=0.05)


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
