"""An analytic cost model: steady rates, utilisations and queueing formulas instead of a simulation.

In order: (1) nominal rates and loads; (2) every source is slowed by the most loaded resource that its tuples meet,
until nothing is overloaded; (3) the age of results is added up along the streams (`twin.rate_latency`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import networkx as nx
import numpy as np

from twin.deployment import Deployment
from twin.metrics import BACKPRESSURE_SHARE, CostEstimates
from twin.plan import ExecutionPlan
from twin.rate_latency import result_ages_s
from twin.rate_load import Layout, Load, load, memory
from twin.rates import flows

CHUNK = 1024
"""Plans estimated at a time: large enough for numpy, small enough for the cache."""
DAMPING = 0.4
ROUNDS = 30
SHARPNESS = 20.0
"""Steepness of the probability of backpressure in the log of the utilisation: 12 % at 0.9, 50 % at 1, 87 % at 1.1."""


@dataclass(frozen=True, slots=True)
class RateModel:
    """Satisfies twin.metrics.CostModel. horizon_s: length of the run that is predicted, from an empty start, > 0."""

    horizon_s: float = 240.0
    name: str = "rates"

    def predict(self, deployment: Deployment, plans: Sequence[ExecutionPlan]) -> CostEstimates:
        """One estimate a plan; the spread is 0. Raises KeyError if a plan does not fit the deployment."""
        parts = [
            self._estimate(Layout(deployment, plans[start : start + CHUNK])) for start in range(0, len(plans), CHUNK)
        ]
        columns = zip(*parts, strict=True) if parts else ([np.zeros(0)] for _ in range(6))
        return CostEstimates(*(np.concatenate(list(column)) for column in columns))

    def _estimate(self, layout: Layout) -> tuple[np.ndarray, ...]:
        deployment = layout.deployment
        offered = {
            source.name: np.full(layout.size, deployment.workload.arrivals[source.name].mean_rate_per_s)
            for source in deployment.query.sources
        }
        slowdown, crashed = memory(layout, flows(deployment.query, offered, bursts=True))
        nominal = load(layout, offered, slowdown)
        utilisation = np.max(list(nominal.pressure.values()), axis=0)
        share = throttle(layout, offered, slowdown, nominal)
        reached = load(layout, {name: offered[name] * share[name] for name in offered}, slowdown)
        processing_s, e2e_s, lag_s = result_ages_s(layout, reached, share, self.horizon_s)
        throughput = np.sum([reached.flow[sink.name].in_per_s for sink in deployment.query.sinks], axis=0)
        throughput = np.where(crashed, 0.0, throughput * (1.0 - lag_s / self.horizon_s))
        tolerated = (1.0 + BACKPRESSURE_SHARE) ** SHARPNESS
        backpressured = 1.0 - 1.0 / (1.0 + np.minimum(utilisation, 100.0) ** SHARPNESS / tolerated)
        success = 1.0 - 0.5 ** self._chances(reached, throughput)  # one expected output: one half
        return throughput, processing_s, e2e_s, backpressured, success, np.zeros(layout.size)

    def _chances(self, reached: Load, throughput: np.ndarray) -> np.ndarray:
        """Expected outputs of the run, but no more than evaluations of any window: results of one come together."""
        fires = [flow.fires_per_s for flow in reached.flow.values() if (flow.fires_per_s > 0).any()]
        return np.minimum(np.min([throughput, *fires], axis=0) * self.horizon_s, 1000.0)


def throttle(
    layout: Layout, offered: Mapping[str, np.ndarray], slowdown: Mapping[str, np.ndarray], nominal: Load
) -> dict[str, np.ndarray]:
    """By source, the share of its offered rate at which nothing that its tuples meet is overloaded. [N] each

    A damped fixed point: joins make loads grow faster than the rates, so a full step would oscillate. A source that
    others have been slowed for may speed up again.
    """
    graph = layout.deployment.query.graph
    meets = {source: [source, *nx.descendants(graph, source)] for source in offered}
    share = {source: np.ones(layout.size) for source in offered}
    over = np.max([nominal.pressure[name] for name in nominal.pressure], axis=0) > 1.0
    if not over.any():
        return share
    part = layout.select(over)
    rates = {source: rate[over] for source, rate in offered.items()}
    slow = {name: factor[over] for name, factor in slowdown.items()}
    found = {source: np.ones(part.size) for source in offered}
    for _ in range(ROUNDS):
        now = load(part, {source: rates[source] * found[source] for source in rates}, slow)
        for source in rates:
            worst = np.max([now.pressure[name] for name in meets[source]], axis=0)
            found[source] = np.clip(found[source] * np.maximum(worst, 1e-6) ** -DAMPING, 1e-6, 1.0)
    for source in share:
        share[source][over] = found[source]
    return share
