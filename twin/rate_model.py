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
from twin.rate_answer import RateAnswer, together
from twin.rate_latency import Ages, result_ages_s
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
        return self.answer(deployment, plans).costs

    def answer(self, deployment: Deployment, plans: Sequence[ExecutionPlan]) -> RateAnswer:
        """The estimates and all that led to them. Raises KeyError if a plan does not fit the deployment."""
        starts = range(0, max(1, len(plans)), CHUNK)
        return together([self._answer(Layout(deployment, plans[start : start + CHUNK])) for start in starts])

    def _answer(self, layout: Layout) -> RateAnswer:
        deployment = layout.deployment
        offered = {
            source.name: np.full(layout.size, deployment.workload.arrivals[source.name].mean_rate_per_s)
            for source in deployment.query.sources
        }
        slowdown, used_nh, crashed = memory(layout, flows(deployment.query, offered, bursts=True))
        nominal = load(layout, offered, slowdown)
        utilisation = np.max(list(nominal.pressure.values()), axis=0)
        share = throttle(layout, offered, slowdown, nominal)
        reached = load(layout, {name: offered[name] * share[name] for name in offered}, slowdown)
        ages = result_ages_s(layout, reached, share, self.horizon_s)
        processing_s, e2e_s, lag_s = ages.results_s
        throughput = np.sum([reached.flow[sink.name].in_per_s for sink in deployment.query.sinks], axis=0)
        throughput = np.where(crashed, 0.0, throughput * (1.0 - lag_s / self.horizon_s))
        tolerated = (1.0 + BACKPRESSURE_SHARE) ** SHARPNESS
        backpressured = 1.0 - 1.0 / (1.0 + np.minimum(utilisation, 100.0) ** SHARPNESS / tolerated)
        chances = self._chances(reached, throughput)
        success = 1.0 - 0.5**chances  # one expected output: one half
        costs = CostEstimates(throughput, processing_s, e2e_s, backpressured, success, np.zeros(layout.size))
        results = throughput * self.horizon_s
        return put_together(layout, costs, nominal, reached, ages, share, used_nh, lag_s, results, chances)

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


def put_together(
    layout: Layout,
    costs: CostEstimates,
    offered: Load,
    reached: Load,
    ages: Ages,
    share: Mapping[str, np.ndarray],
    memory_nh: np.ndarray,
    lag_s: np.ndarray,
    results: np.ndarray,
    chances: np.ndarray,
) -> RateAnswer:
    """What was found, as arrays."""
    deployment = layout.deployment
    names = tuple(operator.name for operator in deployment.query.topological)
    sources = tuple(source.name for source in deployment.query.sources)

    def by_operator(each: Mapping[str, np.ndarray]) -> np.ndarray:
        return np.stack([each[name] for name in names], axis=1)

    return RateAnswer(
        operators=names,
        sources=sources,
        hosts=tuple(host.name for host in deployment.cluster.hosts),
        costs=costs,
        offered_in_per_s=by_operator({name: flow.in_per_s for name, flow in offered.flow.items()}),
        offered_out_per_s=by_operator({name: flow.out_per_s for name, flow in offered.flow.items()}),
        offered_pressure=by_operator(offered.pressure),
        in_per_s=by_operator({name: flow.in_per_s for name, flow in reached.flow.items()}),
        out_per_s=by_operator({name: flow.out_per_s for name, flow in reached.flow.items()}),
        pressure=by_operator(reached.pressure),
        service_s=by_operator(reached.service_s),
        busy_cores=by_operator(reached.busy_cores),
        speed=by_operator(reached.speed),
        blocked=by_operator(ages.blocked),
        age_s=by_operator({name: age[0] for name, age in ages.ages_s.items()}),
        e2e_age_s=by_operator({name: age[1] for name, age in ages.ages_s.items()}),
        channel_s=by_operator(ages.channel_s),
        queue_s=by_operator(ages.queue_s),
        window_s=by_operator(ages.window_s),
        offered_cpu=offered.cpu_nh,
        cpu=reached.cpu_nh,
        offered_nic=offered.nic_nh,
        nic=reached.nic_nh,
        memory=memory_nh,
        ingested=np.stack([share[name] for name in sources], axis=1),
        lag_s=lag_s,
        results=results,
        chances=chances,
    )
