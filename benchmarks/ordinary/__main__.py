"""Ordinary jobs, written by somebody who knew the documentation alone: runs beside brute force and the rate model.

Run: python -m benchmarks.ordinary [NAME ...] [--seeds 12]

Throughput, latencies, and what comes to each operator and keeps it busy, of each job in the YAML files beside this.
Where a job has them: late records, checkpoints (number, duration, alignment, bytes, records put aside), and failures
(seconds of outage, records replayed, results that come twice). Some forty CPU minutes; `jobs.yaml` alone takes few.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from fnmatch import fnmatch
from functools import partial
from typing import Any

import numpy as np

from benchmarks.ordinary.comparing import PREDICTED, Figure, compared, predicted
from benchmarks.ordinary.jobs import load
from benchmarks.table import print_table
from benchmarks.validity.theory import limit_se
from scenarios.executing import Processes

HEADER = ("job", "T", "Lp ms", "by brute force", "Le ms", "by brute force", "farthest", "off by s.e.", "off by", "kept")


def row(figures: list[Figure], limit: float) -> tuple[str, ...]:
    """Row of the table for one job."""
    named = {each.name: each for each in figures}
    worst = max(figures, key=lambda each: abs(each.off_se))
    latencies = [f"{1e3 * value:.4g}" for k in ("Lp", "Le") for value in (named[k].simulated, named[k].brute)]
    kept = "yes" if abs(worst.off_se) <= limit else "no"
    off = f"{worst.off_se:+.1f}", f"{100 * worst.off:+.1f} %"
    return (worst.job, f"{named['T'].simulated:.4g}", *latencies, worst.name, *off, kept)


def rate_model_errors(jobs: Mapping[str, Mapping[str, Any]], figures: Sequence[list[Figure]]) -> list[tuple[Any, ...]]:
    """Factors (at least 1) between the rate model and the means of runs, by figure: jobs, median, 95 %, worst."""
    pairs = [
        (said, {each.name: each.simulated for each in measured})
        for (name, job), measured in zip(jobs.items(), figures, strict=True)
        if (said := predicted(name, job)) is not None
    ]
    rows: list[tuple[Any, ...]] = []
    for name in PREDICTED if pairs else ():
        factors = np.exp(np.abs(np.log([said[name] / measured[name] for said, measured in pairs])))
        rows.append((name, len(pairs), *np.quantile(factors, (0.5, 0.95, 1.0)).tolist()))
    return rows


def main() -> None:
    """Parses the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", default=["*"], help="of jobs; * and ? stand for others")
    parser.add_argument("--seeds", type=int, default=12, help="runs of each job, and as many by brute force")
    options = parser.parse_args()
    jobs = {name: job for name, job in load().items() if any(fnmatch(name, each) for each in options.names)}
    found: dict[int, list[Figure]] = {}
    with Processes() as pool:
        pool.each(partial(compared, options.seeds), list(jobs.items()), found.__setitem__)
    figures = [found[number] for number in range(len(jobs))]
    limit = limit_se(2 * options.seeds - 1)  # of a difference of two means of so many seeds each
    print_table("Simulated, beside brute force", HEADER, [row(each, limit) for each in figures])
    off = np.array([figure.off_se for each in figures for figure in each])
    kept = np.sum(np.abs(off) <= limit)
    print(
        f"\n{len(figures)} jobs, {len(off)} figures: {kept} within {limit:.1f} estimated standard"
        f" errors (as rare as 4 known ones); the farthest {off[np.argmax(np.abs(off))]:+.1f}, their root mean square"
        f" {np.std(off):.2f}"
    )
    header = ("", "jobs", "median", "95 %", "worst")
    print_table(
        "The rate model and the means of the runs, jobs of which it sees all", header, rate_model_errors(jobs, figures)
    )


if __name__ == "__main__":
    main()
