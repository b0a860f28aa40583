"""Plans under constants that nobody told: what the best plan by each predictor loses on the engine as it is.

    python -m benchmarks.real.hidden_plans --seen 20 --queries 30 --keep runs

Engine A of `benchmarks.real.hidden_engines`, simulated. For each fresh query local search looks for the least latency
under the profile's constants, under calibrated ones, and under the true ones; what it finds runs on the true engine.
Regret: how much longer the processing latency of a plan is than that of the best of these that keeps up.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from benchmarks.real.hidden_engines import hidden
from benchmarks.real.kept_runs import measured
from benchmarks.table import print_table
from scenarios.calibration.calibrate import calibrate
from scenarios.planning.planner import solve
from scenarios.spaces.families import RandomScenarios
from twin.plan import ExecutionPlan
from twin.rates.model import RateModel
from twin.scenario import RunSettings, Scenario
from twin.simulation import simulate

QUERIES_FROM = 200_000
"""Index of the first query that is planned for."""
AS_GIVEN, BEFORE, CALIBRATED, TRUE = (
    "as given (heuristic)",
    "the profile's constants",
    "calibrated",
    "the true constants",
)
BUDGET = 500


def latency_s(scenario: Scenario, plan: ExecutionPlan) -> float:
    """Simulated; inf if it does not keep up, or brings nothing."""
    run = simulate(scenario.model_copy(update={"plan": plan}))
    latency = run.metrics.processing_latency_s
    return math.inf if run.metrics.backpressured or latency is None else latency.mean


def regrets(known: Scenario, seen_as: Mapping[str, Scenario], real: Scenario) -> dict[str, float] | None:
    """By predictor; None if no plan keeps up. seen_as: the scenario under the constants that each believes."""
    plans = {AS_GIVEN: known.plan}
    for name, scenario in seen_as.items():
        found = solve(scenario, "local-search", RateModel(), objective="processing_latency_s", budget=BUDGET)
        plans[name] = found.plan
    lasts = {name: latency_s(real, plan) for name, plan in plans.items()}
    best = min(lasts.values())
    return {name: each / best - 1.0 for name, each in lasts.items()} if math.isfinite(best) else None


def row(name: str, found: Sequence[Mapping[str, float]]) -> list[object]:
    """Mean and largest regret over the queries where it keeps up, and at how many it does not."""
    values = [each[name] for each in found]
    finite = [value for value in values if math.isfinite(value)]
    return [name, f"{np.mean(finite):.2f}", f"{max(finite):.2f}", len(values) - len(finite)]


def main() -> None:
    """Prints one table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seen", type=int, default=20, help="runs that are calibrated on")
    parser.add_argument("--queries", type=int, default=30)
    parser.add_argument("--keep", type=Path, help="a folder that simulated runs are kept in")
    given = parser.parse_args()
    make = RandomScenarios("costream", 0, RunSettings())
    known = [make(index) for index in range(given.seen)]
    fresh = [make(QUERIES_FROM + index) for index in range(given.queries)]
    real = hidden([*known, *fresh], "A", 0)
    file = None if given.keep is None else given.keep / "hidden-A.jsonl"
    calibration = calibrate([each.point for each in measured(known, real[: given.seen], file)])
    found = []
    for each, truth in zip(fresh, real[given.seen :], strict=True):
        losses = regrets(each, {BEFORE: each, CALIBRATED: calibration.applied(each), TRUE: truth}, truth)
        if losses is not None:
            found.append(losses)
            print({name: round(value, 3) for name, value in losses.items()}, flush=True)
    rows = [row(name, found) for name in (AS_GIVEN, BEFORE, CALIBRATED, TRUE)]
    title = (
        f"hidden engine A, simulated: regret in processing latency over {len(found)} queries, {given.seen} runs seen"
    )
    print_table(title, ("plans by", "mean", "largest", "falls behind"), rows)


if __name__ == "__main__":
    main()
