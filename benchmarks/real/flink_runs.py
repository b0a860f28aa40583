"""Published runs of a real Flink (ZeroTune's graphs): does a source keep up, and what does it deliver?

    python -m benchmarks.real.flink_runs --data DIR [--folds 5]

DIR holds `.graph` files; sources are offered what the graphs say, and only what they delivered is used. Each fold is
predicted by a calibration on the others, beside two predictors that need no model. Sources read their rate over 30 s
from a cold start, so a run is predicted from empty channels on. A join's results are read beside what its own replicas
received: what its producers sent has gone to fill channels, in part. Keys are hashed as Flink does.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from benchmarks.table import print_table
from scenarios.calibration.calibrate import calibrate
from scenarios.calibration.judging import ALWAYS, BEFORE, CALIBRATED, CAP, cap_per_replica
from scenarios.calibration.point import KEEPS_UP, Point
from scenarios.calibration.predicting import predict
from scenarios.calibration.unit_costs import charged, of_kinds
from streamtwin.connect.importers.run_graph import read_run_graph
from twin.errors import BadInput
from twin.randomness import stream
from twin.scenario import RunSettings, Scenario
from twin.workload import Constant, Workload

READ_S = 30.0

CHOSEN = "all costs 15 times, chosen"
FACTOR, BUFFERS = 15.0, 1.25
"""By which the profile's costs and buffers are multiplied: chosen with all these runs in view, so no prediction."""

Shares = dict[str, float]
"""By source, of what it was offered."""


def points(folder: Path) -> list[Point]:
    """Each run as an operating point of its own job: offered rates, and what sources delivered."""
    found = []
    for file in sorted(folder.rglob("*.graph")):
        try:
            run = read_run_graph(file, join_input="received", dealt="hashed")
        except BadInput as error:
            print(f"left out: {error}")
            continue
        offered = {each.operator: each.offered_per_s for each in run.measured if each.offered_per_s}
        delivered = {name: law.mean_rate_per_s for name, law in run.scenario.workload.arrivals.items()}
        laws = {name: Constant(rate_per_s=max(rate, delivered[name])) for name, rate in offered.items()}
        scenario = run.scenario.model_copy(
            update={
                "workload": Workload(arrivals={**run.scenario.workload.arrivals, **laws}),
                "run": RunSettings(horizon_s=READ_S),
            }
        )
        found.append(Point(name=file.stem, scenario=scenario, taken_per_s=delivered))
    return found


def dearer(scenario: Scenario) -> Scenario:
    """Under FACTOR and BUFFERS."""
    found = charged(scenario, {cost.name: FACTOR * cost.prior for cost in of_kinds(scenario.engine)})
    assert found.engine.network_memory is not None
    held = found.engine.network_memory.times(BUFFERS)
    return found.model_copy(update={"engine": found.engine.model_copy(update={"network_memory": held})})


def figures(name: str, measured: Sequence[Point], predicted: Sequence[Shares]) -> list[object]:
    """A line: runs and sources whose backpressure is right, and errors of what is delivered."""
    runs, sources, totals, slowed = [], [], [], []
    for point, shares in zip(measured, predicted, strict=True):
        true = point.delivered
        runs.append(any(s < KEEPS_UP for s in true.values()) == any(shares[k] < KEEPS_UP for k in true))
        sources += [(true[k] < KEEPS_UP) == (shares[k] < KEEPS_UP) for k in true]
        total = sum(point.taken_per_s[k] for k in true)
        totals.append(abs(sum(shares[k] * point.offered_per_s(k) for k in true) / total - 1.0))
        slowed += [abs(shares[k] / true[k] - 1.0) for k in true if true[k] < KEEPS_UP]
    shown = (np.mean(runs), np.mean(sources), np.median(totals), np.median(slowed))
    return [name, *(f"{100 * each:.1f} %" for each in shown)]


def misjudged(measured: Sequence[Point], predicted: Sequence[Shares]) -> list[list[object]]:
    """Runs whose backpressure is wrongly predicted: shares that sources delivered, and were to."""
    rows: list[list[object]] = []
    for point, shares in zip(measured, predicted, strict=True):
        true = point.delivered
        if any(s < KEEPS_UP for s in true.values()) != any(shares[k] < KEEPS_UP for k in true):
            shown = [" ".join(f"{each[name]:.2f}" for name in true) for each in (true, shares)]
            rows.append([point.name, *shown])
    return rows


def main() -> None:
    """Prints one table, and the runs that are misjudged."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--folds", type=int, default=5)
    given = parser.parse_args()
    measured = points(given.data)
    order = stream(0, "folds").permutation(len(measured))
    predicted: dict[str, dict[int, Shares]] = {name: {} for name in (ALWAYS, CAP, BEFORE, CALIBRATED, CHOSEN)}
    for number, part in enumerate([order[start :: given.folds] for start in range(given.folds)]):
        seen = [measured[each] for each in range(len(measured)) if each not in part]
        started_s = time.process_time()
        found = calibrate(seen)
        print(f"fold {number + 1}: {time.process_time() - started_s:.0f} CPU s", flush=True)
        for estimate in found.estimates:
            known = "" if estimate.known else "  not identifiable"
            print(f"    {estimate.name} {estimate.value:.4g} ({estimate.prior:.4g} before){known}")
        cap = cap_per_replica(seen)
        for each in part.tolist():
            point = measured[each]
            replicas = {name: point.scenario.plan.replicas(name) for name in point.delivered}
            predicted[ALWAYS][each] = dict.fromkeys(replicas, 1.0)
            predicted[CAP][each] = {k: min(1.0, cap * n / point.offered_per_s(k)) for k, n in replicas.items()}
            predicted[BEFORE][each] = dict(predict(point.scenario).delivered)
            predicted[CHOSEN][each] = dict(predict(dearer(point.scenario)).delivered)
            predicted[CALIBRATED][each] = dict(predict(found.applied(point.scenario)).delivered)
    header = ("predictor", "runs right", "sources right", "delivered by a run", "by backpressured sources")
    lines = [
        figures(name, measured, [shares[each] for each in range(len(measured))]) for name, shares in predicted.items()
    ]
    print_table(f"{len(measured)} runs, {given.folds} folds: backpressure, and median relative errors", header, lines)
    wrong = misjudged(measured, [predicted[CALIBRATED][each] for each in range(len(measured))])
    print_table("backpressure misjudged: shares of the offer delivered", ("run", "measured", "calibrated"), wrong)


if __name__ == "__main__":
    main()
