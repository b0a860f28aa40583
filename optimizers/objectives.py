"""Objectives of plans: metrics that a cost model predicts, and prices and traffic, which follow from the plan alone.

Traffic is counted at the offered rates: bytes a second over each link that a stream crosses; without links in the
cluster, bytes a second from one host to another. Replicas emit in proportion to their input, and chained operators have
no stream between them.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

import numpy as np

from optimizers.requirements import Requirements, price_of
from twin.chaining import fused
from twin.cluster import Cluster
from twin.deployment import Deployment
from twin.metrics import REGRESSION_METRICS, TABLE
from twin.partitionings.traits import Ends
from twin.partitions import counts
from twin.plan import ExecutionPlan
from twin.rates.coefficients import PlacementCoefficients


@dataclass(frozen=True, slots=True, kw_only=True)
class Objective:
    """Objective of plans. better: whether low or high values are. of: computes values of plans [N]; None: predicted."""

    better: Literal["min", "max"]
    of: Callable[[Deployment, Sequence[ExecutionPlan], Requirements], np.ndarray] | None = None


def prices(deployment: Deployment, plans: Sequence[ExecutionPlan], required: Requirements) -> np.ndarray:
    """[N] sum of the prices of the hosts that each plan uses."""
    return np.array([price_of(deployment, plan, required.prices) for plan in plans])


def traffic(deployment: Deployment, plans: Sequence[ExecutionPlan], required: Requirements | None = None) -> np.ndarray:
    """[N] bytes a second over links, or between hosts if the cluster has no links, for each plan."""
    del required
    job, query = PlacementCoefficients.of(deployment), deployment.query
    number = {host.name: h for h, host in enumerate(deployment.cluster.hosts)}
    crossed_hh = links_crossed(deployment.cluster)
    bytes_s = job.streams.rate_per_s * job.streams.tuple_bytes
    row = {stream: s for s, stream in enumerate(query.streams_by_name)}
    found, alike = np.zeros(len(plans)), defaultdict[tuple[int, ...], list[tuple[int, ExecutionPlan]]](list)
    for n, plan in enumerate(plans):
        alike[tuple(plan.replicas(operator.name) for operator in query.operators)].append((n, plan))
    for some in alike.values():
        rows, sent = [n for n, _ in some], _sent_between(job, some[0][1])
        hosts = {
            name: np.array([[number[place.host] for place in plan.locations(name)] for _, plan in some])
            for name in some[0][1].placement
        }
        within = [
            {ends for group in fused(query, plan, deployment.engine) for ends in pairwise(group)} for _, plan in some
        ]
        for stream, s in row.items():
            apart_n = np.array([(stream.producer, stream.consumer) not in inner for inner in within])
            crossed_nrr = crossed_hh[hosts[stream.producer][:, :, None], hosts[stream.consumer][:, None, :]]
            found[rows] += bytes_s[s] * apart_n * (sent[s] * crossed_nrr).sum(axis=(1, 2))
    return found


def _sent_between(job: PlacementCoefficients, plan: ExecutionPlan) -> list[np.ndarray]:
    """[K, R] for each stream: share of its tuples that each replica sends to each, with the replicas of this plan."""
    query, parts = job.deployment.query, dict[str, np.ndarray]()
    row = {stream: s for s, stream in enumerate(query.streams_by_name)}
    sent = [np.zeros(0)] * len(row)
    for operator in query.topological:
        replicas = plan.replicas(operator.name)
        taken_r = np.array(counts(operator.parts or replicas, replicas), float) * operator.is_source
        for stream in query.inputs(operator.name):
            shares, values = query.partitioning(stream).shares, operator.values(replicas)
            start_r = parts[stream.producer]
            share_rr = np.array([shares(Ends(k, replicas, values)) for k in range(len(start_r))])
            sent[row[stream]] = start_r[:, None] * share_rr
            taken_r += job.streams.rate_per_s[row[stream]] * sent[row[stream]].sum(axis=0)
        parts[operator.name] = taken_r / max(taken_r.sum(), 1e-300)
    return sent


def links_crossed(cluster: Cluster) -> np.ndarray:
    """[H, H] number of links from each host to each other; 1 in a cluster without links, 0 from a host to itself."""
    names = [host.name for host in cluster.hosts]
    if not cluster.links:
        return 1 - np.eye(len(names), dtype=int)
    routes = cluster.routes
    return np.array([[len(routes.between(a, b)) if routes.connected(a, b) else 0 for b in names] for a in names])


PRICE = "price"
OBJECTIVES: Mapping[str, Objective] = {
    **{name: Objective(better=TABLE[name].better) for name in REGRESSION_METRICS},
    PRICE: Objective(better="min", of=prices),
    "traffic_bytes_per_s": Objective(better="min", of=traffic),
}
"""Objectives by name. Of plans with equal price or traffic, the one with the lower processing latency is better."""
