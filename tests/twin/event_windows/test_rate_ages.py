"""How old results of windows over event time are, by the rate model beside exact runs."""

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
    assert latency is not None
    assert predicted == pytest.approx(latency.mean, rel=0.05)
