"""Hidden engines: measurements of runs whose constants the tests know."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from scenarios.calibration.points import Point
from scenarios.calibration.unit_costs import charged
from twin.rates.model import RateModel
from twin.scenario import Scenario
from twin.simulation import simulate
from twin.spec import parse

WARMUP_S, MEASURED_S = 10.0, 20.0
HOST = {"ram_mb": 64_000, "bandwidth_mbps": 10_000, "latency_ms": 1}


def job(
    operators: list[dict[str, Any]],
    streams: list[tuple[str, str]],
    rates: Mapping[str, float],
    placement: Mapping[str, Any],
    hosts: Mapping[str, float] | None = None,
) -> Scenario:
    """Job as a scenario. hosts: cpu_percent by name."""
    data = {
        "query": {"operators": operators, "streams": [{"producer": a, "consumer": b} for a, b in streams]},
        "cluster": {"hosts": [{"name": n, "cpu_percent": c, **HOST} for n, c in (hosts or {"h": 1600}).items()]},
        "plan": {"placement": dict(placement)},
        "workload": {"arrivals": {name: {"law": "constant", "rate_per_s": rate} for name, rate in rates.items()}},
        "engine": "flink",
        "run": {"horizon_s": WARMUP_S + MEASURED_S, "warmup_s": WARMUP_S},
    }
    return parse(Scenario, data)


def at_rates(scenario: Scenario, factor: float) -> Scenario:
    """Scenario with `factor` times the rates."""
    data = scenario.model_dump(mode="json")
    for law in data["workload"]["arrivals"].values():
        law["rate_per_s"] *= factor
    return parse(Scenario, data)


def simulated(name: str, known: Scenario, hidden: Scenario, **left_out: Any) -> Point:
    """Operating point as measured in a simulated run of the hidden engine."""
    run = simulate(hidden)
    latency = run.metrics.processing_latency_s
    found = {
        "taken_per_s": {each.operator: each.rate_in_per_s for each in run.operators},
        "emitted_per_s": {each.operator: each.rate_out_per_s for each in run.operators},
        "busy": {each.operator: each.busy for each in run.operators},
        "cpu": {each.host: each.cpu for each in run.hosts},
        "latency_s": None if latency is None else latency.mean,
    }
    return Point(name=name, scenario=known, **{**found, **left_out})


def formula(name: str, known: Scenario, hidden: Scenario) -> Point:
    """Operating point with host CPU and what sources take, by the rate model of the hidden engine."""
    answer = RateModel().answer(hidden, [hidden.plan])
    return Point(
        name=name,
        scenario=known,
        taken_per_s=dict(zip(answer.operators, answer.in_per_s[0].tolist(), strict=True)),
        cpu={host: share for host, share in zip(answer.hosts, answer.cpu[0].tolist(), strict=True) if share > 0},
    )


def random_costs(priors: Mapping[str, float], low: float, high: float, seed: int) -> dict[str, float]:
    """Costs times a log-uniform factor each."""
    rng = np.random.default_rng(seed)
    return {name: value * float(np.exp(rng.uniform(np.log(low), np.log(high)))) for name, value in priors.items()}


def hidden_engine(scenario: Scenario, costs: Mapping[str, float]) -> Scenario:
    """Scenario with the engine's real costs."""
    return charged(scenario, costs)
