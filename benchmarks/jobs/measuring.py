"""One run of a job, and what the rate model says of it: apart from the command, so that spawned processes find it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from scenarios.files import scenario_file
from twin.rates.model import RateModel
from twin.scenario import Scenario
from twin.simulation import simulate

FOLDER = Path(__file__).parent
COLUMNS = {"T": "throughput_per_s", "Lp": "processing_latency_s", "Le": "e2e_latency_s"}


def measure(name: str, seed: int) -> dict[str, Any]:
    """What is compared of one run; latencies in seconds, NaN where nothing came."""
    metrics = simulate(_load(name).with_run(seed=seed)).metrics
    means = [each.mean if each else float("nan") for each in (metrics.processing_latency_s, metrics.e2e_latency_s)]
    return {"values": [metrics.throughput_per_s, *means], "behind": metrics.backpressured}


def predicted(name: str) -> tuple[list[float], bool]:
    """What the rate model says of `COLUMNS`; and whether it names what it does not see."""
    scenario, model = _load(name), RateModel()
    found = model.predict(scenario, [scenario.plan])
    return [float(found[metric][0]) for metric in COLUMNS.values()], bool(model.blind_to(scenario))


def _load(name: str) -> Scenario:
    return scenario_file.load(str(FOLDER / f"{name}.yaml"))
