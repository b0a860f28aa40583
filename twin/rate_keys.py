"""What the analytic cost model knows of key groups: how much more than its share the busiest replica gets."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from twin.deployment import Deployment
from twin.keys import KeySkew, contiguous, distinct_groups, group_count, zipf_shares
from twin.plan import ExecutionPlan
from twin.randomness import stream

ORDERS = 16
"""Random orders of frequency averaged over: which key groups are frequent is known to a run's seed alone."""


def crowding(deployment: Deployment, name: str, plans: Sequence[ExecutionPlan]) -> np.ndarray:
    """Input of an operator's busiest replica over the mean of all; >= 1. [plans]"""
    query, skew = deployment.query, deployment.workload.keys.get(name, KeySkew())
    two_choice = any(query.partitioning(each) == "two-choice" for each in query.inputs(name))
    found: dict[tuple[int, tuple[int, ...]], float] = {}
    factors = []
    for plan in plans:
        replicas = plan.replicas(name)
        groups = group_count(query, name, replicas)
        if groups is None:
            return np.ones(len(plans))
        owners = plan.key_groups.get(name) or contiguous(groups, replicas)
        if (replicas, owners) not in found:
            populated = np.flatnonzero(distinct_groups(query.operator(name), groups))
            shares = zipf_shares(len(populated), skew.zipf)
            if two_choice:  # even, but for what the most frequent key group alone brings to its two candidates
                found[replicas, owners] = max(1.0, replicas * float(shares[0]) / min(2, replicas))
            else:
                found[replicas, owners] = replicas * _hottest(shares, np.array(owners)[populated], replicas)
        factors.append(found[replicas, owners])
    return np.array(factors)


def _hottest(shares: np.ndarray, owners: np.ndarray, replicas: int) -> float:
    rng = stream(0, "rate-keys")
    orders = [rng.permutation(shares) for _ in range(ORDERS)]
    return float(np.mean([np.bincount(owners, order, minlength=replicas).max() for order in orders]))
