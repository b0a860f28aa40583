"""A cost model of one's own: the busier the busiest host, the longer a record takes.

Ask it for plans, and compare it with others:

    twin optimize smart-grid --cost-model docs/examples/busiest_host.py:BusiestHost
    twin validate smart-grid --cost-model rates,docs/examples/busiest_host.py:BusiestHost
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from optimizers.space import counts_of
from twin.metrics import Estimates
from twin.plan import ExecutionPlan
from twin.rates.coefficients import PlacementCoefficients
from twin.scenario import Scenario


class BusiestHost:
    """Satisfies `twin.metrics.CostModel`: a name, `predict` and `blind_to`."""

    name = "busiest-host"

    def predict(self, scenario: Scenario, plans: Sequence[ExecutionPlan]) -> Estimates:
        """Estimates all metrics of every plan: latencies in seconds, and probabilities of backpressure and success."""
        job = PlacementCoefficients.of(scenario)
        counts_nol = np.stack([counts_of(scenario, plan) for plan in plans])  # subtasks by plan, operator, socket
        work_nol = job.operators.work[:, None] * counts_nol / counts_nol.sum(axis=2, keepdims=True)
        busy_n = (work_nol.sum(axis=1) / job.places.capacity_l).max(axis=1)
        latency_s = 0.01 / np.maximum(1.0 - busy_n, 0.01)
        found = {"throughput_per_s": 1.0 / latency_s, "processing_latency_s": latency_s, "e2e_latency_s": latency_s}
        found |= {"backpressured": 1.0 * (busy_n > 1.0), "success": np.ones(len(plans))}
        return Estimates(found, spread=np.zeros(len(plans)))

    def blind_to(self, scenario: Scenario) -> tuple[str, ...]:
        """What it ignores, in words, which are shown."""
        return ("links, memory and windows",)
