"""What a run is about, in a few plain numbers: to group runs by query type, hardware or load, not to learn from."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from models.facts import OperatorFacts
from twin.deployment import Deployment
from twin.query import Query

HARDWARE = ("cpu_percent", "ram_mb", "bandwidth_mbps", "latency_ms")
COUNTS = ("sources", "filters", "aggregates", "joins", "operators", "filter_chain", "hosts")

NAMES: tuple[str, ...] = (*COUNTS, *(f"{feature}_{over}" for feature in HARDWARE for over in ("mean", "min", "max")))
"""operators: all of them. filter_chain: the most filters in a row. hosts: those that carry an operator; the mean,
smallest and largest of their features."""


def description(deployment: Deployment, facts: Sequence[OperatorFacts]) -> list[float]:
    """One row, in the order of NAMES. facts: of the deployment's operators."""
    kinds = [each.spec.kind for each in facts]
    used = {place.host for name in deployment.plan.placement for place in deployment.plan.locations(name)}
    hosts = [host for host in deployment.cluster.hosts if host.name in used]
    counts = [
        *(kinds.count(kind) for kind in ("source", "filter", "aggregate", "join")),
        len(kinds),
        filter_chain(deployment.query),
        len(hosts),
    ]
    hardware = [[getattr(host, feature) for host in hosts] for feature in HARDWARE]
    return [*map(float, counts), *(float(over(each)) for each in hardware for over in (np.mean, min, max))]


def filter_chain(query: Query) -> int:
    """The largest number of filters in a row."""
    length: dict[str, int] = {}
    for operator in query.topological:
        before = [length[stream.producer] for stream in query.inputs(operator.name)]
        length[operator.name] = 1 + max(before, default=0) if operator.thins else 0
    return max(length.values())
