"""CPU seconds of a 4-minute run over Costream's Table II, and the ratio to exact simulation.

Run: python -m benchmarks.simulator_speed [--runs N] [--exact N]. The limit to reach is 0.15 CPU s (mean) for linear
and two-way-join queries.
"""

from __future__ import annotations

import argparse
from itertools import count, islice

import numpy as np

from benchmarks.table import print_table
from scenarios.generator import SPACES, random_scenario
from twin.deployment import Deployment
from twin.scenario import RunSettings
from twin.simulation import simulate

KINDS = {1: "linear", 2: "two-way join", 3: "three-way join"}


def deployments(sources: int, runs: int) -> list[Deployment]:
    """The first random deployments with that many sources."""
    drawn = (random_scenario(SPACES["costream"], seed, RunSettings()).deployment for seed in count(10_000))
    return list(islice((job for job in drawn if len(job.query.sources) == sources), runs))


def fast_row(sources: int, runs: int) -> tuple[str, list[float], float]:
    """Kind, CPU seconds of each run, share backpressured."""
    done = [simulate(job, RunSettings(seed=index)) for index, job in enumerate(deployments(sources, runs))]
    return KINDS[sources], [run.cpu_s for run in done], float(np.mean([run.metrics.backpressured for run in done]))


def exact_ratios(jobs: int) -> list[float]:
    """Exact over fast CPU time of the same 40 s runs."""
    ratios = []
    for sources in (1, 2):
        for job in deployments(sources, jobs):
            exact, fast = (
                simulate(job, RunSettings(horizon_s=40, fidelity=fidelity, segments=500)).cpu_s
                for fidelity in ("exact", "fast")
            )
            ratios.append(exact / fast)
    return ratios


def main() -> None:
    """Prints both tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=40, help="fast runs a kind")
    parser.add_argument("--exact", type=int, default=8, help="exact runs a kind")
    options = parser.parse_args()
    rows, both = [], []
    for sources in KINDS:
        kind, seconds, pressed = fast_row(sources, options.runs)
        both += seconds if sources < 3 else []
        rows.append(
            (kind, len(seconds), np.mean(seconds), np.median(seconds), *np.quantile(seconds, [0.95, 1.0]), pressed)
        )
    header = ("query", "runs", "mean", "median", "p95", "max", "backpressured")
    print_table("CPU s of a 240 s run, fast", header, rows)
    print(f"\nlinear and two-way together: {np.mean(both):.3f} CPU s mean (limit 0.15)")
    if not options.exact:
        return
    ratios = exact_ratios(options.exact)
    print(f"exact / fast, {len(ratios)} runs of 40 s: median {np.median(ratios):.1f}, max {max(ratios):.1f}")


if __name__ == "__main__":
    main()
