"""The simulator as a cost model: the same interface as analytic and learned ones, and the truth they are held to."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from twin.deployment import Deployment
from twin.errors import BadInput
from twin.metrics import CostEstimates, Metrics
from twin.plan import ExecutionPlan
from twin.randomness import child_seed
from twin.scenario import RunSettings


class HasMetrics(Protocol):
    """What is asked of a run."""

    @property
    def metrics(self) -> Metrics:
        """Its costs."""


Simulate = Callable[[Deployment, RunSettings], HasMetrics]
"""twin.simulation.simulate, or a stand-in."""


def replicate(simulate: Simulate, deployment: Deployment, settings: RunSettings, count: int) -> list[Metrics]:
    """The metrics of `count` runs. Run i has the same random numbers under any plan (common random numbers)."""
    runs = []
    for index in range(count):
        seed = child_seed(settings.seed, index)
        runs.append(simulate(deployment, settings.model_copy(update={"seed": seed})).metrics)
    return runs


def objective_of(metrics: Metrics, objective: str) -> float:
    """The target metric of one run: throughput, or a mean latency; inf if nothing arrived."""
    value = getattr(metrics, objective)
    if isinstance(value, float):
        return value
    return math.inf if value is None else float(value.mean)


@dataclass(frozen=True, slots=True)
class SimulatedCostModel:
    """Satisfies twin.metrics.CostModel by simulating every plan `replications` times and averaging.

    Probabilities are shares of the runs; the spread is the standard deviation of the log of the processing latency.
    Raises BadInput if replications is below 1.
    """

    simulate: Simulate
    settings: RunSettings
    replications: int = 1
    name: str = "sim"

    def __post_init__(self) -> None:
        if self.replications < 1:
            raise BadInput(f"replications must be >= 1, got {self.replications}")

    def predict(self, deployment: Deployment, plans: Sequence[ExecutionPlan]) -> CostEstimates:
        """One estimate a plan; a latency is inf if nothing arrived in any of the runs."""
        rows = [self._estimate(deployment.with_plan(plan)) for plan in plans]
        return CostEstimates(*np.array(rows, dtype=float).reshape(len(plans), 6).T)

    def _estimate(self, deployment: Deployment) -> tuple[float, ...]:
        runs = replicate(self.simulate, deployment, self.settings, self.replications)
        latency_s = [objective_of(run, "processing_latency_s") for run in runs]
        arrived = [value for value in latency_s if math.isfinite(value) and value > 0]
        return (
            float(np.mean([run.throughput_per_s for run in runs])),
            _mean(latency_s),
            _mean([objective_of(run, "e2e_latency_s") for run in runs]),
            float(np.mean([run.backpressured for run in runs])),
            float(np.mean([run.success for run in runs])),
            float(np.std(np.log(arrived))) if arrived else 0.0,
        )


def _mean(values: Sequence[float]) -> float:
    """Over the runs in which something arrived; inf if there are none."""
    finite = [value for value in values if math.isfinite(value)]
    return float(np.mean(finite)) if finite else math.inf
