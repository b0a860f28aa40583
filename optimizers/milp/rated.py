"""The same job at another rate."""

from __future__ import annotations

from twin.deployment import Deployment


def at_rate(deployment: Deployment, factor: float) -> Deployment:
    """Every source is offered `factor` times as much, > 0."""
    arrivals = {name: law.scaled(factor) for name, law in deployment.workload.arrivals.items()}
    workload = deployment.workload.model_copy(update={"arrivals": arrivals})
    return deployment.model_copy(update={"workload": workload})
