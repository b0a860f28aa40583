"""What errors runs claim: of fast ones as large as they were found to be, of exact ones chance alone."""

from __future__ import annotations

import math

import pytest

from tests.twin.worlds import HOST, chain, deployment, sink, source
from twin.precision.extrapolation import MODEL_SHARES, alone
from twin.precision.plans import Question
from twin.precision.search import Answer, answer
from twin.run import Run
from twin.scenario import RunSettings, Scenario
from twin.simulation import simulate

SETTINGS = RunSettings(horizon_s=20, warmup_s=4, period_s=1, seed=3)


def asked(scenario: Scenario, precision: float) -> Answer:
    def one(settings: RunSettings, _steps: float) -> Run:
        return simulate(scenario.model_copy(update={"run": settings}))

    return answer(Question(scenario, precision), one)


@pytest.mark.parametrize(("rate_per_s", "precision", "fidelity"), [(800.0, 0.05, "exact"), (10_000.0, 0.2, "fast")])
def test_fast_runs_answer_what_they_are_known_to_reach(rate_per_s: float, precision: float, fidelity: str) -> None:
    """Half busy, at any rate."""
    slow = {"kind": "map", "name": "slow", "service_time_s": 0.5 / rate_per_s, "service_scv": 1.0}
    found = asked(Scenario.of(chain([slow], rate_per_s), SETTINGS), precision)
    assert (found.finest.settings.fidelity, found.needed) == (fidelity, "")
    for metric, each in found.estimates.items():
        assert each.model == pytest.approx(MODEL_SHARES[metric] * each.value if fidelity == "fast" else 0.0, rel=0.1)
        assert each.error <= precision * each.value


def test_of_a_fast_run_that_is_unsure_no_error_is_known() -> None:
    """Three tasks on one core collide, which it says."""
    maps = [source(), {"kind": "map", "name": "work", "service_time_s": 1e-3}, sink()]
    host = HOST | {"cpu_percent": 100}
    job = deployment(maps, [("source", "work"), ("work", "sink")], {"source": 700.0}, hosts=[host])
    run = simulate(Scenario.of(job, SETTINGS).with_run(fidelity="fast"))
    assert any("fidelity: exact" in line for line in run.warnings)
    assert all(math.isinf(each.error) and each.model is None for each in alone(run, {}).values())
