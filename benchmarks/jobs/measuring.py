"""One run of a job, and what the rate model says of it: apart from the command, so that spawned processes find it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from scenarios.files import scenario_file
from twin.metrics import Latency
from twin.rates.model import RateModel
from twin.scenario import Scenario
from twin.simulation import simulate

FOLDER = Path(__file__).parent


def measure(name: str, fidelity: str, seed: int) -> dict[str, Any]:
    """What is compared of one run; latencies in seconds, NaN where nothing came."""
    scenario = scenario_file.load(str(FOLDER / f"{name}.yaml"))
    settings = scenario.run.model_copy(update={"fidelity": fidelity, "seed": seed})
    run = simulate(Scenario.of(scenario, settings))
    metrics = run.metrics
    e2e, processing = (each or NOTHING for each in (metrics.e2e_latency_s, metrics.processing_latency_s))
    return {
        "values": [metrics.throughput_per_s, e2e.mean, processing.mean, e2e.p95, processing.p95],
        "busy": [each.busy for each in run.operators],
        "behind": metrics.backpressured,
        "warned": bool(run.warnings),
    }


NOTHING = Latency(*[float("nan")] * 4)


def predicted(name: str) -> tuple[float, float, bool]:
    """What the rate model says: results a second, end-to-end latency, whether it names what it does not see."""
    scenario, model = scenario_file.load(str(FOLDER / f"{name}.yaml")), RateModel()
    found = model.predict(scenario, [scenario.plan])
    return float(found["throughput_per_s"][0]), float(found["e2e_latency_s"][0]), bool(model.blind_to(scenario))
