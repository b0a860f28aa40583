"""Learning curves on engines that nobody told: what N runs of random queries are worth, judged on other runs.

    python -m benchmarks.real.hidden A --runs 20 50 200 --keep runs      # A: constants unknown; B: structure, too

Simulated, both (`benchmarks.real.hidden_engines`). Known of each run are rates, host CPU and mean latency. With
--physics only what needs no learning is judged, which is quick; with --again, too, what another seed of the engine
itself says of the runs that are judged: chance, which nobody can tell.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from scipy import stats

from benchmarks.real.hidden_engines import hidden
from benchmarks.real.hidden_predictors import LEAST, PREDICTORS, Costs, rates, shipped_network
from benchmarks.real.kept_runs import Measured, measured
from benchmarks.table import print_table
from models.evaluation import q_error
from scenarios.calibration.calibrate import Calibration, calibrate
from scenarios.calibration.profile_file import profile_of
from scenarios.planning.calibrated_cost import CalibratedCostModel
from scenarios.spaces.families import RandomScenarios
from twin.errors import BadInput
from twin.metrics import METRICS
from twin.rates.model import RateModel
from twin.scenario import RunSettings, Scenario

JUDGED_FROM = 100_000
"""Index of the first run that is judged; none before is."""
SHOWN = {"T": "throughput_per_s", "Le": "e2e_latency_s", "Lp": "processing_latency_s"}


def judged(costs: Costs, unseen: Sequence[Measured]) -> list[object]:
    """q-errors (median / 95 %) of T, Le and Lp, and the share of right answers on RO."""
    labels = np.array([each.labels for each in unseen])
    shown: list[object] = []
    for metric in SHOWN.values():
        truth = labels[:, METRICS.index(metric)]
        known = np.isfinite(truth) & np.isfinite(costs[metric])
        q50, q95 = np.quantile(q_error(truth[known], np.maximum(costs[metric][known], 1e-9)), [0.5, 0.95])
        shown.append(f"{q50:.3f}/{q95:.2f}")
    right = (costs["backpressured"] > 0.5) == (labels[:, METRICS.index("backpressured")] > 0.5)
    return [*shown, f"{right.mean():.3f}"]


def spread_and_error(found: Calibration, unseen: Sequence[Measured]) -> str:
    """Whether the spread over a calibration's draws tells where its latencies are wrong."""
    profile = profile_of(unseen[0].known, found, (), 1, "")
    model, number = CalibratedCostModel("draws", profile, RateModel()), METRICS.index("processing_latency_s")
    pairs = []
    for each in unseen:
        if np.isfinite(each.labels[number]):
            said = model.predict(each.known, [each.known.plan])
            error = abs(np.log(said["processing_latency_s"][0] / each.labels[number]))
            pairs.append((float(said.spread[0]), float(error)))
    spread, error = np.array(sorted(pairs)).T
    halves = [f"{np.exp(np.quantile(part, 0.9)):.2f}" for part in np.array_split(error, 2)]
    shown = [f"{part.mean():.3f}" for part in np.array_split(spread, 2)]
    return (
        f"draws: where they differ by {shown[0]} (log) on average, the 90 % q-error of Lp is {halves[0]}; "
        f"where by {shown[1]}, {halves[1]}; rank correlation {stats.spearmanr(spread, error).statistic:.2f}"
    )


def main() -> None:
    """Prints the table of one engine."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("engine", choices=("A", "B"))
    parser.add_argument("--runs", type=int, nargs="+", default=[20], help="how many are seen; each a block of rows")
    parser.add_argument("--judged", type=int, default=100, help="how many other runs are predicted")
    parser.add_argument("--physics", action="store_true", help="leave out all that learns")
    parser.add_argument("--again", action="store_true", help="judge another seed of the engine itself")
    parser.add_argument("--keep", type=Path, help="a folder that simulated runs are kept in")
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    make = RandomScenarios("costream", given.seed, RunSettings())
    known = [make(JUDGED_FROM + index) for index in range(given.judged)] + [make(n) for n in range(max(given.runs))]
    real = hidden(known, given.engine, given.seed)
    file = None if given.keep is None else given.keep / f"hidden-{given.engine}.jsonl"
    runs = measured(known, real, file)
    unseen, seen = runs[: given.judged], runs[given.judged :]
    as_known = [each.known for each in unseen]
    rows = [["rates, the profile's constants", 0, *judged(rates(as_known), unseen), ""]]
    if not given.physics:
        rows.append(["shipped network, the profile's constants", 0, *judged(shipped_network(as_known), unseen), ""])
    names = ["calibrated rates"] if given.physics else list(PREDICTORS)
    for count in given.runs:
        try:
            rows += _rows(seen[:count], unseen, names)
        except BadInput as error:
            parser.exit(2, f"{count} runs: {error}\n")
    rows.append(["rates, the true constants", "", *judged(rates(real[: given.judged]), unseen), ""])
    if given.again:
        others = None if given.keep is None else given.keep / f"hidden-{given.engine}-again.jsonl"
        again = _again(runs, real[: given.judged], others)
        rows.append(["the engine itself, another seed", "", *judged(again, unseen), ""])
    title = f"hidden engine {given.engine}, simulated: q-errors (median/95 %) on {given.judged} other runs"
    print_table(title, ["predictor", "runs", *SHOWN, "RO", "CPU s"], rows)


def _again(runs: Sequence[Measured], real: Sequence[Scenario], file: Path | None) -> Costs:
    others = [each.with_run(seed=each.run.seed + 1) for each in real]
    labels = np.array([each.labels for each in measured([each.known for each in runs[: len(real)]], others, file)])
    return dict(zip(METRICS, labels.T, strict=True))


def _rows(seen: Sequence[Measured], unseen: Sequence[Measured], names: Sequence[str]) -> list[list[object]]:
    started_s = time.process_time()
    found = calibrate([each.point for each in seen])
    spent_s, rows = time.process_time() - started_s, []
    print(f"{len(seen)} runs; {spread_and_error(found, unseen)}", flush=True)
    for name in names:
        if len(seen) < LEAST.get(name, 0):
            continue
        started_s = time.process_time()
        try:
            costs = PREDICTORS[name](seen, found, [each.known for each in unseen])
        except BadInput as error:
            print(f"{name}, {len(seen)} runs: {error}", flush=True)
            continue
        words = _words(found) if name == "calibrated rates" else ""
        took_s = spent_s if words else time.process_time() - started_s
        rows.append([f"{name}{words}", len(seen), *judged(costs, unseen), f"{took_s:.0f}"])
        print(*rows[-1], flush=True)
    return rows


def _words(found: Calibration) -> str:
    return f": {found.structure.words}, residual {found.tried[0].residual:.1%}"


if __name__ == "__main__":
    main()
