"""All partitionings by name, and their shares by consumer replica of the tuples that a producer replica sends."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Literal

from twin.partitionings.traits import Ends, Partitioning


def own(ends: Ends) -> list[float]:
    """All tuples to the replica of the same number."""
    return [float(k == ends.producer) for k in range(ends.consumers)]


def first(ends: Ends) -> list[float]:
    """All tuples to the first replica."""
    return [float(k == 0) for k in range(ends.consumers)]


def every(ends: Ends) -> list[float]:
    """All tuples to each replica."""
    return [1.0] * ends.consumers


def even(ends: Ends) -> list[float]:
    """Equal shares to all replicas."""
    return [1.0 / ends.consumers] * ends.consumers


def local(ends: Ends) -> list[float]:
    """Equal shares to the replicas on the producer's host, or to all replicas if it has none."""
    near = set(ends.near or range(ends.consumers))
    return [(k in near) / len(near) for k in range(ends.consumers)]


def by_value(ends: Ends) -> list[float]:
    """Shares by the number of key values on each replica. Values are dealt evenly; some replicas have one more."""
    return [groups_of(ends.values, k, ends.consumers) / ends.values for k in range(ends.consumers)]


def groups_of(groups: int, replica: int, replicas: int) -> int:
    """Number of an operator's distinct group-by values on one replica, if they are dealt round robin."""
    return groups // replicas + (1 if replica < groups % replicas else 0)


HASH = Partitioning("hash", by_value, by_key=True, keeps_keys=True, even=True)
REBALANCE = Partitioning("rebalance", even, in_turn=True, even=True)

PARTITIONINGS: Mapping[str, Partitioning] = {
    each.name: each
    for each in (
        Partitioning("forward", own, in_turn=True, paired=True, fixes_replicas=True),
        REBALANCE,
        Partitioning("local", local, in_turn=True, near=True, fixes_replicas=True),
        HASH,
        Partitioning("broadcast", every, copies=True, whole=True, fixes_replicas=True),
        Partitioning("global", first, whole=True, fixes_replicas=True),
        Partitioning("two-choice", even, by_key=True, two_choices=True, even=True, fixes_replicas=True, alone=True),
        Partitioning("shared", even, even=True, one_queue=True, fixes_replicas=True, alone=True),
    )
}

if TYPE_CHECKING:
    PartitioningName = str
else:
    PartitioningName = Literal[tuple(PARTITIONINGS)]
