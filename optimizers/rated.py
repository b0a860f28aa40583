"""The same job at another rate."""

from __future__ import annotations

from typing import TypeVar

from twin.deployment import Deployment

Job = TypeVar("Job", bound=Deployment)


def at_rate(deployment: Job, factor: float) -> Job:
    """Every source is offered `factor` times as much, > 0."""
    arrivals = {name: law.scaled(factor) for name, law in deployment.workload.arrivals.items()}
    workload = deployment.workload.model_copy(update={"arrivals": arrivals})
    return deployment.model_copy(update={"workload": workload})
