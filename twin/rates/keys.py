"""What the analytic cost model knows of key groups, and of partitions of sources: how much more than its share the
busiest replica gets."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from twin.deployment import Deployment
from twin.key_skew import KeySkew, zipf_shares
from twin.keys import contiguous, distinct_values, group_count
from twin.partitions import busiest
from twin.randomness import stream

ORDERS = 16
"""Random orders of frequency averaged over: which key groups are frequent is known to a run's seed alone."""


def crowding(
    deployment: Deployment,
    names: Sequence[str],
    replicas_on: np.ndarray,
    owners_n: Mapping[int, Mapping[str, tuple[int, ...]]],
) -> np.ndarray | None:
    """Input of an operator's busiest replica over the mean of all, >= 1 [O, N]; None if no operator has either.

    owners_n: by plan, the replica of each key group of operators where they are not in contiguous ranges.
    """
    query = deployment.query
    keyed = [o for o, name in enumerate(names) if group_count(query, name, 1) is not None]
    read = {o: parts for o, name in enumerate(names) if (parts := query.operator(name).parts) is not None}
    if not keyed and not read:
        return None
    found = np.ones_like(replicas_on)
    for o, parts in read.items():
        found[o] = [busiest(parts, count) for count in replicas_on[o].astype(int).tolist()]
    for o in keyed:
        known: dict[tuple[int, tuple[int, ...]], float] = {}
        for number, count in enumerate(replicas_on[o].astype(int).tolist()):
            owners = owners_n.get(number, {}).get(names[o], ())
            if (count, owners) not in known:
                known[count, owners] = _crowding(deployment, names[o], count, owners)
            found[o, number] = known[count, owners]
    return found


def _crowding(deployment: Deployment, name: str, replicas: int, owners: tuple[int, ...]) -> float:
    query, skew = deployment.query, deployment.workload.keys.get(name, KeySkew())
    groups = group_count(query, name, replicas)
    assert groups is not None
    populated = np.flatnonzero(distinct_values(query.operator(name), skew, groups))
    shares = np.sort(skew.by_group(groups))[::-1] if skew.placed else zipf_shares(len(populated), skew.zipf)
    if any(query.partitioning(each).two_choices for each in query.inputs(name)):
        # even, but for what the most frequent key group alone brings to its two candidates
        return max(1.0, replicas * float(shares[0]) / min(2, replicas))
    if skew.placed:
        return replicas * float(np.bincount(owners or contiguous(groups, replicas), skew.by_group(groups)).max())
    return replicas * _hottest(shares, np.array(owners or contiguous(groups, replicas))[populated], replicas)


def _hottest(shares: np.ndarray, owners: np.ndarray, replicas: int) -> float:
    rng = stream(0, "rate-keys")
    orders = [rng.permutation(shares) for _ in range(ORDERS)]
    return float(np.mean([np.bincount(owners, order, minlength=replicas).max() for order in orders]))
