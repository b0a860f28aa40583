"""The fewest replicas that will do, where their numbers are free."""

from __future__ import annotations

import numpy as np

from optimizers.divisible import free_o, tied
from optimizers.space import Space, counts_of
from twin.query import AnyOperator
from twin.rates.coefficients import PlacementCoefficients
from twin.rates.placements import CountedPlans


def replicated(job: PlacementCoefficients, space: Space, most: float, more: float) -> PlacementCoefficients:
    """The job with `more` times the fewest replicas that use no core to more than `most`, where they are free."""
    deployment, work_o = job.deployment, job.operators.work
    free = free_o(deployment, space.pinned_o(deployment))
    core_o = np.where(space.allows_ol(deployment), job.places.core_l, 0.0).max(axis=1)
    wanted_o = np.maximum(np.ceil(work_o / (most * np.maximum(core_o, 1e-9)) * more), 1.0)
    most_o = [_most_useful(each, space.most_replicas) for each in deployment.query.topological]
    replicas_o = np.where(free, np.minimum(wanted_o, most_o), job.operators.replicas).astype(np.int64)
    for group in tied(deployment):
        replicas_o[group] = replicas_o[group].max()
    return _with_replicas(job, replicas_o)


def _with_replicas(job: PlacementCoefficients, replicas_o: np.ndarray) -> PlacementCoefficients:
    """The same job, planned with as many replicas as that; those of operators that keep their number stay."""
    counts_ol = counts_of(job.deployment, job.deployment.plan)
    changed = counts_ol.sum(axis=1) != replicas_o
    counts_ol[changed] = 0
    counts_ol[changed, 0] = replicas_o[changed]
    plan = CountedPlans(job.deployment, counts_ol[None])[0]
    return PlacementCoefficients.of(job.deployment.model_copy(update={"plan": plan}))


def _most_useful(operator: AnyOperator, most: int) -> int:
    """A group of keys is on one replica, so no more replicas than groups have work."""
    return min(most, operator.values(most))
