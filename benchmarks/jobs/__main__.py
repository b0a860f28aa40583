"""Jobs as people write them: the rate model over simulated runs.

Run: python -m benchmarks.jobs [NAME ...] [--seeds 2]

The scenario files beside this one were written by somebody who did not know how the simulator and the rate model work,
to find where they are wrong. A few CPU minutes in all.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from fnmatch import fnmatch
from multiprocessing import get_context
from typing import Any

import numpy as np

from benchmarks.jobs.measuring import COLUMNS, FOLDER, measure, predicted
from benchmarks.table import print_table

HEADER = ("job", *(f"{name}: rates / simulated (seeds apart)" for name in COLUMNS), "behind", "blind")


def row(name: str, runs: Sequence[dict[str, Any]]) -> tuple[str, ...]:
    """Predictions over means of the seeds; in brackets the last run over the first."""
    values = np.array([each["values"] for each in runs])
    said, blind = predicted(name)
    ratios = zip(np.array(said) / values.mean(axis=0), values[-1] / values[0], strict=True)
    behind = "".join("ny"[each["behind"]] for each in runs)
    return (name, *(f"{ratio:.3f} ({noise:.2f})" for ratio, noise in ratios), behind, "yes" if blind else "")


def main() -> None:
    """Parses the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", default=["*"], help="of jobs; * and ? stand for others")
    parser.add_argument("--seeds", type=int, default=2, help="runs of each job")
    parser.add_argument("--workers", type=int, default=2)
    options = parser.parse_args()
    names = [path.stem for path in sorted(FOLDER.glob("*.yaml"))]
    names = [name for name in names if any(fnmatch(name, each) for each in options.names)]
    with ProcessPoolExecutor(options.workers, mp_context=get_context("spawn")) as pool:
        runs = {name: [pool.submit(measure, name, 1 + seed) for seed in range(options.seeds)] for name in names}
        rows = [row(name, [each.result() for each in futures]) for name, futures in runs.items()]
    print_table("The rate model over simulated runs; behind: a letter a seed", HEADER, rows)
    summary = []
    for number, column in enumerate(COLUMNS):
        ratios = [float(each[1 + number].split()[0]) for each in rows]
        q = np.array([max(ratio, 1 / ratio) for ratio in ratios if ratio > 0])
        summary.append((column, float(np.median(q)), float(np.quantile(q, 0.95)), float(q.max())))
    print_table("q-error", ("", "median", "95 %", "largest"), summary)


if __name__ == "__main__":
    main()
