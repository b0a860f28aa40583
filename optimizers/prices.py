"""What the hosts of a plan cost."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from twin.deployment import Deployment
from twin.errors import BadInput, suggest
from twin.plan import ExecutionPlan

USUAL = 1.0
"""Of a host that nobody gave a price: hosts are counted."""


def priced(deployment: Deployment, prices: Mapping[str, float]) -> bool:
    """Whether any host has a price. prices: by name, before those of the deployment."""
    return bool(prices) or any(host.price_per_hour is not None for host in deployment.cluster.hosts)


def prices_h(deployment: Deployment, prices: Mapping[str, float]) -> np.ndarray:
    """Of all hosts [H]. Raises BadInput for a price of a host that there is not."""
    hosts = deployment.cluster.hosts
    names = [host.name for host in hosts]
    for name in prices:
        if name not in names:
            raise BadInput(f"unknown host {name!r} has a price; {suggest(name, names)}")
    own = [USUAL if host.price_per_hour is None else host.price_per_hour for host in hosts]
    return np.array([prices.get(name, price) for name, price in zip(names, own, strict=True)], float)


def price_of(deployment: Deployment, plan: ExecutionPlan, prices: Mapping[str, float]) -> float:
    """Of the hosts that a plan uses. Raises as `prices_h`."""
    by_name = dict(zip((host.name for host in deployment.cluster.hosts), prices_h(deployment, prices), strict=True))
    used = {place.host for name in plan.placement for place in plan.locations(name)}
    return float(sum(by_name[name] for name in used))
