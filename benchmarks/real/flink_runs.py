"""Published runs of a real Flink (ZeroTune's graphs): does a source keep up, and what does it deliver?

    python -m benchmarks.real.flink_runs --data DIR [--folds 5]

DIR holds `.graph` files; sources are offered what the graphs say, and only what they delivered is used. Each fold is
predicted by a calibration on the others, beside two predictors that need no model. Sources read their rate over 30 s
from a cold start, so a run is predicted from empty channels on. A join's results are read beside what its own subtasks
received: what its producers sent has gone to fill channels, in part. Keys are hashed as Flink does.
"""

from __future__ import annotations

import argparse
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from benchmarks.table import print_table
from scenarios.calibration.calibrate import calibrate
from scenarios.calibration.newton import predict
from scenarios.calibration.points import KEEPS_UP, Point
from scenarios.calibration.profile_file import CALIBRATED, baselines
from streamtwin.connect.importers.run_graph import read_run_graph
from twin.errors import BadInput
from twin.randomness import random_stream
from twin.scenario import RunSettings
from twin.workload import Constant, Workload

READ_S = 30.0

Shares = Mapping[str, float]
"""Share of its offer that each source delivers."""


def points(folder: Path) -> list[Point]:
    """Runs as operating points of their own jobs: offered rates, and what sources delivered."""
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
        workload = Workload(arrivals={**run.scenario.workload.arrivals, **laws})
        scenario = run.scenario.model_copy(update={"workload": workload, "run": RunSettings(horizon_s=READ_S)})
        found.append(Point(name=file.stem, scenario=scenario, taken_per_s=delivered))
    return found


def figures(name: str, judged: Sequence[tuple[Point, Shares]]) -> list[object]:
    """Row of the table: share of runs and of sources whose backpressure is right, and errors of what is delivered."""
    runs, sources, totals, slowed = [], [], [], []
    for point, shares in judged:
        true = point.delivered
        runs.append(any(s < KEEPS_UP for s in true.values()) == any(shares[k] < KEEPS_UP for k in true))
        sources += [(true[k] < KEEPS_UP) == (shares[k] < KEEPS_UP) for k in true]
        total = sum(point.taken_per_s[k] for k in true)
        totals.append(abs(sum(shares[k] * point.offered_per_s(k) for k in true) / total - 1.0))
        slowed += [abs(shares[k] / true[k] - 1.0) for k in true if true[k] < KEEPS_UP]
    shown = (np.mean(runs), np.mean(sources), np.median(totals), np.median(slowed))
    return [name, *(f"{100 * each:.1f} %" for each in shown)]


def main() -> None:
    """Prints one table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--folds", type=int, default=5)
    given = parser.parse_args()
    measured = points(given.data)
    order = random_stream(0, "folds").permutation(len(measured))
    judged = defaultdict[str, list[tuple[Point, Shares]]](list)
    for number, part in enumerate([order[start :: given.folds] for start in range(given.folds)]):
        seen = [measured[each] for each in range(len(measured)) if each not in part]
        found = calibrate(seen)
        told = [f"{each.name} {each.value:.4g}{'' if each.known else ' not identifiable'}" for each in found.estimates]
        print(f"fold {number + 1}: {', '.join(told)}", flush=True)
        predictors = baselines(seen)
        for point in (measured[each] for each in part):
            for name, predictor in predictors.items():
                judged[name].append((point, predictor(point).delivered))
            judged[CALIBRATED].append((point, predict(found.applied(point.scenario)).delivered))
    header = ("predictor", "runs right", "sources right", "delivered by a run", "by backpressured sources")
    lines = [figures(name, each) for name, each in judged.items()]
    print_table(f"{len(measured)} runs, {given.folds} folds: backpressure, and median relative errors", header, lines)


if __name__ == "__main__":
    main()
