"""Jobs as people write them: fast runs, and the rate model, over exact ones.

Run: python -m benchmarks.jobs [NAME ...] [--seeds 2]

The scenario files beside this one were written by somebody who did not know how the simulator works, to find where fast
runs are wrong; some of them are where they are. A few CPU minutes in all.
"""

from __future__ import annotations

import argparse
from concurrent.futures import ProcessPoolExecutor
from fnmatch import fnmatch
from multiprocessing import get_context
from typing import Any

import numpy as np

from benchmarks.jobs.measuring import FOLDER, measure, predicted
from benchmarks.table import print_table

COLUMNS = ("T", "Le", "Lp", "Le p95", "Lp p95")
HEADER = (
    "job",
    *(f"{name} (exact/exact)" for name in COLUMNS),
    "busy off by",
    "behind",
    "warned",
    "rates T",
    "Le",
    "blind",
)


def row(name: str, exact: list[dict[str, Any]], fast: list[dict[str, Any]]) -> tuple[str, ...]:
    """Ratios of means over the seeds; in brackets the second exact run over the first."""
    slow, quick = (np.mean([each["values"] for each in runs], axis=0) for runs in (exact, fast))
    floor = np.array(exact[-1]["values"]) / np.array(exact[0]["values"])
    busy = np.mean([each["busy"] for each in fast], axis=0) - np.mean([each["busy"] for each in exact], axis=0)
    behind = "/".join("".join("ny"[each["behind"]] for each in runs) for runs in (fast, exact))
    cells = [f"{ratio:.3f} ({noise:.2f})" for ratio, noise in zip(quick / slow, floor, strict=True)]
    warned = "yes" if fast[0]["warned"] else ""
    throughput, latency_s, blind = predicted(name)
    rates = f"{throughput / slow[0]:.3f}", f"{latency_s / slow[1]:.3f}", "yes" if blind else ""
    return (name, *cells, f"{100 * np.abs(busy).max():.1f} points", behind, warned, *rates)


def main() -> None:
    """Parses the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", default=["*"], help="of jobs; * and ? stand for others")
    parser.add_argument("--seeds", type=int, default=2, help="runs of each job and fidelity")
    parser.add_argument("--workers", type=int, default=2)
    options = parser.parse_args()
    names = [path.stem for path in sorted(FOLDER.glob("*.yaml"))]
    names = [name for name in names if any(fnmatch(name, each) for each in options.names)]
    with ProcessPoolExecutor(options.workers, mp_context=get_context("spawn")) as pool:
        runs = {
            (name, fidelity): [pool.submit(measure, name, fidelity, seed) for seed in range(1, options.seeds + 1)]
            for name in names
            for fidelity in ("exact", "fast")
        }
        found = {key: [each.result() for each in futures] for key, futures in runs.items()}
    rows = [row(name, found[name, "exact"], found[name, "fast"]) for name in names]
    print_table("Fast over exact; behind: fast/exact, a letter a seed", HEADER, rows)
    worst = {column: [float(each[1 + k].split()[0]) for each in rows] for k, column in enumerate(COLUMNS)}
    summary = []
    for column, ratios in worst.items():
        q = np.array([max(ratio, 1 / ratio) for ratio in ratios if ratio > 0])
        summary.append((column, float(np.median(q)), float(np.quantile(q, 0.95)), float(q.max())))
    print_table("q-error", ("", "median", "95 %", "largest"), summary)


if __name__ == "__main__":
    main()
