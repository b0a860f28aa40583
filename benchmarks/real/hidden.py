"""Engines that nobody told: calibrated on a few runs of random queries, judged on others.

Engine A: all unit costs of `storm` times 0.3 to 3, services of squared coefficient of variation 1. Engine B: that, and
filters cost by function up to 2.5 times more or less, hosts give the 0.8th power of their cores, tasks that share cores
switch contexts, and hosts pause for garbage. Simulated, both.

    python -m benchmarks.real.hidden A --runs 20 --judged 100
"""

from __future__ import annotations

import argparse
import math
import time
from collections.abc import Sequence

import numpy as np

from benchmarks.table import print_table
from scenarios.calibration.calibrate import Calibration, calibrate
from scenarios.calibration.point import Point
from scenarios.calibration.structures import with_power
from scenarios.calibration.unit_costs import charged, of_functions, of_kinds
from scenarios.spaces.families import RandomScenarios
from twin.metrics import Metrics
from twin.profiles import STORM, Noise
from twin.rates.model import RateModel
from twin.run import Run
from twin.scenario import RunSettings, Scenario
from twin.simulation import simulate

FACTORS = (0.3, 3.0)
FUNCTION_FACTOR = 2.5
EXPONENT = 0.8
CONTEXT_SWITCH = 0.02
NOISE = Noise(gc_interval_s=10.0, gc_pause_s=0.05)
JUDGED_FROM = 100_000
"""Index of the first run that is judged; none before is."""


def hidden(scenarios: Sequence[Scenario], engine: str, seed: int) -> list[Scenario]:
    """The scenarios as the engine really is."""
    rng = np.random.default_rng(seed)
    queries = [each.query for each in scenarios]
    costs = of_kinds(STORM) if engine == "A" else of_functions(STORM, queries)
    low, high = map(math.log, FACTORS)
    true = {each.name: each.prior * math.exp(rng.uniform(low, high)) for each in of_kinds(STORM)}
    if engine == "B":
        reach = math.log(FUNCTION_FACTOR)
        by_function = (each for each in costs if ":" in each.name)
        true |= {
            each.name: true[each.name.partition(":")[0]] * math.exp(rng.uniform(-reach, reach)) for each in by_function
        }
    return [_as_it_is(each, true, engine) for each in scenarios]


def _as_it_is(scenario: Scenario, true: dict[str, float], engine: str) -> Scenario:
    found = charged(scenario, true)
    changes: dict[str, object] = {"service_scv": 1.0}
    if engine == "B":
        changes |= {"context_switch": CONTEXT_SWITCH, "noise": NOISE}
        found = with_power(found, EXPONENT)
    return found.model_copy(update={"engine": found.engine.model_copy(update=changes)})


def point(name: str, known: Scenario, run: Run) -> Point:
    """What is measured of a run: rates, host CPU, mean latency; no busy times."""
    latency = run.metrics.processing_latency_s
    return Point(
        name=name,
        scenario=known,
        taken_per_s={each.operator: each.rate_in_per_s for each in run.operators},
        emitted_per_s={each.operator: each.rate_out_per_s for each in run.operators},
        cpu={each.host: each.cpu for each in run.hosts},
        latency_s=None if latency is None else latency.mean,
    )


def judged(scenarios: Sequence[Scenario], measured: Sequence[Metrics]) -> dict[str, str]:
    """q-errors of T, Le and Lp (median / 95 %) and the share of right answers on RO, of the rate model."""
    q: dict[str, list[float]] = {"T": [], "Le": [], "Lp": []}
    right = []
    for scenario, metrics in zip(scenarios, measured, strict=True):
        costs = RateModel().predict(scenario, [scenario.plan])
        right.append((costs["backpressured"][0] > 0.5) == metrics.backpressured)
        if metrics.e2e_latency_s is None or metrics.processing_latency_s is None:
            continue
        pairs = {
            "T": (costs["throughput_per_s"][0], metrics.throughput_per_s),
            "Le": (costs["e2e_latency_s"][0], metrics.e2e_latency_s.mean),
            "Lp": (costs["processing_latency_s"][0], metrics.processing_latency_s.mean),
        }
        for name, (a, b) in pairs.items():
            q[name].append(max(a, b) / max(min(a, b), 1e-9))
    shown = {name: f"{np.median(each):.3f}/{np.quantile(each, 0.95):.2f}" for name, each in q.items()}
    return {**shown, "RO": f"{np.mean(right):.3f}"}


def main() -> None:
    """Prints the table of one engine."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("engine", choices=("A", "B"))
    parser.add_argument("--runs", type=int, nargs="+", default=[20], help="how many are calibrated on; each a row")
    parser.add_argument("--judged", type=int, default=100, help="how many other runs are predicted")
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    make = RandomScenarios("costream", given.seed, RunSettings())
    known = [make(index) for index in range(max(given.runs))]
    unseen = [make(JUDGED_FROM + index) for index in range(given.judged)]
    real = hidden([*known, *unseen], given.engine, given.seed)
    runs = [simulate(each) for each in real]
    measured = [run.metrics for run in runs[len(known) :]]
    points = [point(str(n), each, run) for n, (each, run) in enumerate(zip(known, runs, strict=False))]
    rows: list[dict[str, object]] = [
        {"predictor": "rate model, the profile's costs", "runs": 0, **judged(unseen, measured)}
    ]
    for count in given.runs:
        started_s = time.process_time()
        found = calibrate(points[:count])
        spent_s = time.process_time() - started_s
        rows.append(_row(f"calibrated: {_words(found)}", count, found, unseen, measured, spent_s))
    rows.append({"predictor": "rate model, true costs", "runs": "-", **judged(real[len(known) :], measured)})
    header = ["predictor", "runs", "T", "Le", "Lp", "RO", "CPU s"]
    title = f"hidden engine {given.engine}: q-errors (median/95 %) on {given.judged} other runs"
    print_table(title, header, [[row.get(key, "") for key in header] for row in rows])


def _words(found: Calibration) -> str:
    return f"{found.structure.words}, residual {found.tried[0].residual:.1%}"


def _row(
    name: str, count: int, found: Calibration, unseen: Sequence[Scenario], measured: Sequence[Metrics], spent_s: float
) -> dict[str, object]:
    applied = [found.applied(each) for each in unseen]
    return {"predictor": name, "runs": count, **judged(applied, measured), "CPU s": f"{spent_s:.1f}"}


if __name__ == "__main__":
    main()
