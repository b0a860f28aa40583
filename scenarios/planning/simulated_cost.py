"""Cost model that simulates: the interface of analytic and learned models, and the truth that they are held to.

`Remembered` makes each run once, and counts its time again for each optimizer that needs it."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from twin.errors import BadInput
from twin.metrics import METRICS, QUANTILES, Estimates, Metrics
from twin.plan import ExecutionPlan
from twin.randomness import child_seed
from twin.run import Run
from twin.scenario import Scenario, config_hash
from twin.steadiness import in_short_periods


class HasMetrics(Protocol):
    """Anything with the metrics of a run."""

    @property
    def metrics(self) -> Metrics:
        """Metrics of the run."""


Simulate = Callable[[Scenario], HasMetrics]
"""Function that runs a scenario: twin.simulation.simulate, or a stand-in."""


def replicate(simulate: Simulate, scenario: Scenario, count: int) -> list[Metrics]:
    """Metrics of `count` runs. Run i has the same random numbers under any plan (common random numbers)."""
    return [run.metrics for run in runs_under(simulate, scenario, count)]


def runs_under(simulate: Simulate, scenario: Scenario, count: int) -> list[HasMetrics]:
    """Runs of a scenario with `count` child seeds, with all their results. Run i has the same seed under any plan."""
    seeds = [child_seed(scenario.run.seed, index) for index in range(count)]
    judged = in_short_periods(scenario)
    return [simulate(judged.with_run(seed=seed)) for seed in seeds]


@dataclass(frozen=True, slots=True)
class SimulatedCostModel:
    """Cost model that simulates the scenario under every plan `replications` times; a twin.metrics.CostModel.

    Estimates are means. seed: parent of the runs' seeds; None: the scenario's own. Probabilities are shares of the
    runs; those that fall behind in any way count as backpressured, as they would be once channels are full. The spread
    is the standard deviation of the log of the processing latency, or the relative standard error of a single run.
    Raises BadInput if replications is below 1.
    """

    simulate: Simulate
    seed: int | None = None
    replications: int = 1
    name: str = "sim"

    def __post_init__(self) -> None:
        if self.replications < 1:
            raise BadInput(f"replications must be >= 1, got {self.replications}")

    def predict(self, scenario: Scenario, plans: Sequence[ExecutionPlan]) -> Estimates:
        """Estimates of each plan; a latency is inf if no run had results."""
        seeded = scenario if self.seed is None else scenario.with_run(seed=self.seed)
        runs_of = [runs_under(self.simulate, seeded.with_plan(plan), self.replications) for plan in plans]
        by_metric = {
            name: np.array([_mean([run.metrics.value(name) for run in runs]) for runs in runs_of])
            for name in (*METRICS, *QUANTILES)
        }
        by_metric["backpressured"] = np.array([np.mean([run.metrics.falls_behind for run in runs]) for runs in runs_of])
        return Estimates(by_metric, np.array([_spread(runs) for runs in runs_of]))

    def blind_to(self, scenario: Scenario) -> tuple[str, ...]:
        """Features of the scenario that are ignored: none, as it is run."""
        del scenario
        return ()


def _spread(runs: Sequence[HasMetrics]) -> float:
    found_s = [run.metrics.value("processing_latency_s") for run in runs]
    if len(runs) == 1:
        error_s = runs[0].standard_errors.processing_latency_s if isinstance(runs[0], Run) else None
        return 0.0 if error_s is None else error_s / found_s[0]
    arrived_s = [each for each in found_s if math.isfinite(each) and each > 0]
    return float(np.std(np.log(arrived_s))) if arrived_s else 0.0


def _mean(values: Sequence[float]) -> float:
    """Mean over the runs with results; inf if there are none."""
    finite = [value for value in values if math.isfinite(value)]
    return float(np.mean(finite)) if finite else math.inf


@dataclass(frozen=True, slots=True)
class Known:
    """Remembered run: its metrics, and the seconds that it took."""

    metrics: Metrics
    took_s: float


@dataclass(slots=True)
class Remembered:
    """`Simulate` that remembers the runs of another one. spared_s: seconds of the runs that were not made again."""

    run: Simulate
    spared_s: float = 0.0
    _known: dict[tuple[str, int], Known] = field(default_factory=dict)

    def __call__(self, scenario: Scenario) -> HasMetrics:
        """Returns the metrics of a run, which is made once for a scenario and seed."""
        key = config_hash(scenario), scenario.run.seed
        if key in self._known:
            self.spared_s += self._known[key].took_s
            return self._known[key]
        started_s = time.perf_counter()
        metrics = self.run(scenario).metrics
        self._known[key] = Known(metrics, time.perf_counter() - started_s)
        return self._known[key]


def spared_s(simulate: Simulate) -> float:
    """Seconds of runs that were not made again so far; 0 if `simulate` remembers nothing."""
    return simulate.spared_s if isinstance(simulate, Remembered) else 0.0
