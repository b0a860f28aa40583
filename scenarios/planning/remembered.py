"""Runs that several ask for are made once; and what a run took is told to whoever measures the time of one who asks."""

from __future__ import annotations

import time
from dataclasses import dataclass, field

from scenarios.planning.simulated_cost import HasMetrics, Simulate
from twin.metrics import Metrics
from twin.scenario import Scenario, config_hash


@dataclass(frozen=True, slots=True)
class Known:
    """All that is kept of a run. took_s: seconds when it was made."""

    metrics: Metrics
    took_s: float


@dataclass(slots=True)
class Remembered:
    """Satisfies `Simulate` by another one, whose runs it remembers. spared_s: what the runs took that were not made
    again."""

    run: Simulate
    spared_s: float = 0.0
    _known: dict[tuple[str, int], Known] = field(default_factory=dict)

    def __call__(self, scenario: Scenario) -> HasMetrics:
        """The same for the same scenario and seed."""
        key = config_hash(scenario), scenario.run.seed
        if key in self._known:
            self.spared_s += self._known[key].took_s
            return self._known[key]
        started_s = time.perf_counter()
        metrics = self.run(scenario).metrics
        self._known[key] = Known(metrics, time.perf_counter() - started_s)
        return self._known[key]


def spared_s(simulate: Simulate) -> float:
    """So far; 0 of one that remembers nothing."""
    return simulate.spared_s if isinstance(simulate, Remembered) else 0.0
