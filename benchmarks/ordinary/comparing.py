"""Compares runs of a job with brute force: every figure, over seeds, with the difference in standard errors."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from benchmarks.ordinary import course
from benchmarks.ordinary.brute import ROOM, Brute
from benchmarks.ordinary.jobs import scenario
from twin.rates.model import RateModel
from twin.run import Run
from twin.simulation import simulate

PREDICTED = {"T": "throughput_per_s", "Lp": "processing_latency_s", "Le": "e2e_latency_s"}
"""Figures that the rate model predicts, and its names for them."""
SKETCH = 0.025
"""Relative difference of quantiles that does not count: those of a run are within 2 % by themselves."""
RESOLUTION = 2e-6
"""Difference that does not count: time has a resolution of a microsecond."""


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
        allowed = self.brute * SKETCH if " p" in self.name and self.name[:2] in ("Lp", "Le") else RESOLUTION
        return float(np.sign(off) * max(0.0, abs(off) - allowed) / max(self.error, 1e-9))

    @property
    def off(self) -> float:
        """Difference of simulation and brute force, as a share."""
        return self.simulated / self.brute - 1 if self.brute else 0.0


def compare(name: str, job: Mapping[str, Any], seeds: int) -> list[Figure]:
    """All figures of a job, over `seeds` runs and as many by brute force."""
    runs = [simulated(name, job, seed) for seed in range(1, seeds + 1)]
    others = [brute_force(job, seed) for seed in range(1, seeds + 1)]
    found = []
    for figure in others[0]:
        ours, theirs = (np.array([each[figure] for each in some]) for some in (runs, others))
        error = float(np.sqrt((ours.var(ddof=1) + theirs.var(ddof=1)) / seeds))
        found.append(Figure(name, figure, float(ours.mean()), float(theirs.mean()), error))
    return found


def brute_force(job: Mapping[str, Any], seed: int) -> dict[str, float]:
    """Figures of one run by brute force."""
    if job["checkpoints"] and job["engine"].get("channel_records", ROOM) < ROOM:
        return course.Row(job, seed).run()
    return course.Whole(job, seed).run() if course.handles(job) else Brute(job, seed).run()


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
        found |= {label: latency.mean}
        found |= {f"{label} p50": latency.p50, f"{label} p95": latency.p95, f"{label} p99": latency.p99}
    for each in run.operators:
        found |= {f"busy {each.operator}": each.busy, f"in {each.operator}": each.rate_in_per_s}
        found |= {f"out {each.operator}": each.rate_out_per_s, f"late {each.operator}": 0.0}
    for name, late in re.findall(r"(\S+): ([\d,]+) of [\d,]+ records \(\S+%\) came late", " ".join(run.warnings)):
        found[f"late {name}"] = float(late.replace(",", ""))
    return found | _checkpoints(run) | _failures(run)


def _checkpoints(run: Run) -> dict[str, float]:
    """Means over the checkpoints that were complete after the warm-up."""
    done = [row for row in run.event_rows if row["kind"] == "checkpoint" and row["detail"]["status"] == "completed"]
    done = [row for row in done if row["at_s"] >= run.manifest["warmup_s"]]
    if not done:
        return {"checkpoints": 0.0}
    return {
        "checkpoints": float(len(done)),
        "checkpoint s": float(np.mean([row["end_s"] - row["at_s"] for row in done])),
        "aligned s": float(np.mean([row["detail"]["alignment_s"] for row in done])),
        "put aside": float(np.mean([row["detail"]["put_aside"] for row in done])),
        "bytes": float(np.mean([row["bytes"] for row in done])),
    }


def _failures(run: Run) -> dict[str, float]:
    failed = [row for row in run.event_rows if row["kind"] == "failure"]
    found = {"down s": sum(row["paused_s"] for row in failed), "duplicates": float(run.duplicates)}
    return found | {"replayed": float(sum(row["detail"]["replayed"] for row in failed))}
