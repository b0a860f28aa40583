"""Seconds to fuse operators into components, by algorithm, and how far from the exact solution.

Run: python -m benchmarks.fusion [--jobs N]. Limits, by CPU time on one core: 50 ms for any job of 150 operators, and
2 minutes for 500 jobs of each size under Algorithm 1 with both scores and the baseline, making the jobs included.
"""

from __future__ import annotations

import argparse
import gc
from time import process_time

import numpy as np

from benchmarks.table import print_table
from optimizers.fusion.algorithms import by_communication
from optimizers.fusion.exact import least_communication
from optimizers.fusion.random_jobs import random_job
from papers.enorm.fusing import ALGORITHMS, PUBLISHED
from papers.enorm.published import OPERATORS
from twin.randomness import child_seed, stream

SEED = 1
EXACT_JOBS, EXACT_LIMIT_S = 12, 20.0


def timed(operators: int, jobs: int) -> tuple[float, dict[str, list[float]]]:
    """Seconds to make the jobs, and to fuse each of them from scratch."""
    made_s = 0.0
    seconds: dict[str, list[float]] = {name: [] for name in ALGORITHMS}
    for index in range(jobs):
        began_s = process_time()
        job = random_job(operators, child_seed(SEED, index))
        made_s += process_time() - began_s
        for name, algorithm in ALGORITHMS.items():
            began_s = process_time()
            algorithm(job, stream(index, "fusion-baseline"))
            seconds[name].append(process_time() - began_s)
    return made_s, seconds


def exact(operators: int) -> list[object]:
    """Means over jobs that were solved in time."""
    rows = []
    for index in range(EXACT_JOBS):
        job = random_job(operators, child_seed(SEED, index))
        began_s = process_time()
        found = least_communication(job, seconds=EXACT_LIMIT_S)
        if found.proved:
            rows.append((process_time() - began_s, found.fusion.communication, by_communication(job).communication))
    took_s, least, greedy = np.array(rows).T
    return [operators, f"{len(rows)} of {EXACT_JOBS}", took_s.mean(), took_s.max(), least.mean(), greedy.mean()]


def main() -> None:
    """Prints the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", type=int, default=500)
    jobs = parser.parse_args().jobs
    gc.freeze()  # what is imported takes 40 ms to collect, whichever job happens to be fused then
    rows: list[list[object]] = []
    total_s = 0.0
    for operators in OPERATORS:
        made_s, seconds = timed(operators, jobs)
        total_s += made_s + sum(sum(seconds[name]) for name in PUBLISHED)
        rows += [[operators, name, 1e3 * float(np.mean(each)), 1e3 * max(each)] for name, each in seconds.items()]
    print_table(f"Fusion of random jobs, {jobs} a size", ("operators", "score", "ms, mean", "ms, most"), rows)
    print(f"\n  all jobs made and fused by {', '.join(PUBLISHED)}: {total_s:.1f} CPU s")
    header = ("operators", "solved", "CPU s, mean", "CPU s, most", "least possible", "COMM")
    print_table("Exact solution: share of transfers between components", header, [exact(each) for each in (10, 20, 30)])


if __name__ == "__main__":
    main()
