"""Fast against exact on random queries of Costream's Table II, with the floor: a second exact seed beside it.

Run: python -m benchmarks.fidelity [--runs N] [--horizon S] [--rate MAX]. q-error = max(a/b, b/a); quantiles are over
the runs with at least 200 results in all three simulations.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from itertools import count

import numpy as np

from benchmarks.table import print_table
from scenarios.generator import SPACES, random_scenario
from twin.deployment import Deployment
from twin.metrics import Metrics
from twin.scenario import RunSettings
from twin.simulation import simulate

FIRST_SEED = 500_000
QUANTITIES: dict[str, Callable[[Metrics], float]] = {
    "T": lambda m: m.throughput_per_s,
    "Le": lambda m: m.e2e_latency_s.mean if m.e2e_latency_s else np.nan,
    "Lp": lambda m: m.processing_latency_s.mean if m.processing_latency_s else np.nan,
    "Lp p95": lambda m: m.processing_latency_s.p95 if m.processing_latency_s else np.nan,
}


def three(job: Deployment, horizon_s: float) -> tuple[Metrics, Metrics, Metrics]:
    """Exact, exact with another seed, fast with the segment size of a 240 s run."""
    segments = max(100, int(3000 * horizon_s / 240))
    runs = [
        simulate(job, RunSettings(horizon_s=horizon_s, fidelity=fidelity, seed=seed, segments=segments)).metrics
        for fidelity, seed in (("exact", 1), ("exact", 2), ("fast", 1))
    ]
    return runs[0], runs[1], runs[2]


def q_errors(first: Metrics, second: Metrics) -> list[float]:
    """One a quantity."""
    pairs = ((read(first), read(second)) for read in QUANTITIES.values())
    return [max(a / b, b / a) for a, b in pairs]


def main() -> None:
    """Prints q-errors and agreement for the fast run and for the second exact seed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=60)
    parser.add_argument("--horizon", type=float, default=60.0)
    parser.add_argument("--rate", type=float, default=2000.0, help="largest total rate: exact runs cost by the tuple")
    options = parser.parse_args()
    found: list[tuple[Metrics, Metrics, Metrics]] = []
    for seed in count(FIRST_SEED):
        job = random_scenario(SPACES["costream"], seed, RunSettings()).deployment
        if sum(law.mean_rate_per_s for law in job.workload.arrivals.values()) <= options.rate:
            found.append(three(job, options.horizon))
        if len(found) == options.runs:
            break
    rich = [runs for runs in found if min(each.tuples_out for each in runs) >= 200]
    rows = []
    for name, index in (("second exact seed", 1), ("fast", 2)):
        errors = np.array([q_errors(runs[0], runs[index]) for runs in rich])
        cells = [f"{np.median(e):.3f}/{np.quantile(e, 0.95):.3f}/{e.max():.2f}" for e in errors.T]
        agree = [
            np.mean([getattr(runs[0], key) == getattr(runs[index], key) for runs in found])
            for key in ("backpressured", "success")
        ]
        rows.append((name, *cells, *agree))
    pressed = np.mean([runs[0].backpressured for runs in found])
    title = f"q-error median/p95/max; {len(rich)} of {len(found)} runs, {100 * pressed:.0f} % backpressured"
    print_table(title, ("against exact", *QUANTITIES, "RO agrees", "S agrees"), rows)


if __name__ == "__main__":
    main()
