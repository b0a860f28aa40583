"""Compares runs of a job with brute force: every figure, over seeds, with the difference in standard errors."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from benchmarks.ordinary.brute import Brute
from benchmarks.ordinary.jobs import scenario
from twin.rates.model import RateModel
from twin.simulation import simulate

PREDICTED = {"T": "throughput_per_s", "Lp": "processing_latency_s", "Le": "e2e_latency_s"}
"""Figures that the rate model predicts, and its names for them."""
SKETCH = 0.025
"""Relative difference of quantiles that does not count: those of a run are within 2 % by themselves."""


@dataclass(frozen=True, slots=True)
class Figure:
    """One number of a job. T and `in` in records a second, latencies in seconds, `busy` a share of time."""

    job: str
    name: str
    simulated: float
    brute: float
    error: float

    @property
    def off_se(self) -> float:
        """Difference of simulation and brute force, in its standard errors."""
        off = self.simulated - self.brute
        allowed = self.brute * SKETCH if self.name.endswith("p95") else 0.0
        return float(np.sign(off) * max(0.0, abs(off) - allowed) / max(self.error, 1e-9))

    @property
    def off(self) -> float:
        """Difference of simulation and brute force, as a share."""
        return self.simulated / self.brute - 1 if self.brute else 0.0


def compare(name: str, job: Mapping[str, Any], seeds: int) -> list[Figure]:
    """All figures of a job, over `seeds` runs and as many by brute force."""
    runs = [simulated(name, job, seed) for seed in range(1, seeds + 1)]
    others = [Brute(job, seed).run() for seed in range(1, seeds + 1)]
    found = []
    for figure in others[0]:
        ours, theirs = (np.array([each[figure] for each in some]) for some in (runs, others))
        error = float(np.sqrt((ours.var(ddof=1) + theirs.var(ddof=1)) / seeds))
        found.append(Figure(name, figure, float(ours.mean()), float(theirs.mean()), error))
    return found


def compared(seeds: int, named: tuple[str, Mapping[str, Any]]) -> list[Figure]:
    """Figures of a pair of name and job (`compare` for a pool of processes)."""
    return compare(*named, seeds)


def predicted(name: str, job: Mapping[str, Any]) -> dict[str, float] | None:
    """T, Lp and Le by the rate model; None if the job has something that the model ignores."""
    known, model = scenario(name, job, seed=1), RateModel()
    if model.blind_to(known):
        return None
    costs = model.predict(known, [known.plan])
    return {figure: float(costs[metric][0]) for figure, metric in PREDICTED.items()}


def simulated(name: str, job: Mapping[str, Any], seed: int) -> dict[str, float]:
    """Figures of one simulated run."""
    run = simulate(scenario(name, job, seed))
    found = {"T": run.metrics.throughput_per_s}
    for label, latency in (("Lp", run.metrics.processing_latency_s), ("Le", run.metrics.e2e_latency_s)):
        assert latency is not None
        found |= {label: latency.mean, f"{label} p95": latency.p95}
    for each in run.operators:
        found |= {f"busy {each.operator}": each.busy, f"in {each.operator}": each.rate_in_per_s}
    return found
