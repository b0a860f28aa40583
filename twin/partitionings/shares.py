"""Shares of what a producer replica sends, by consumer replica."""

from __future__ import annotations

from twin.partitionings.traits import Ends


def own(ends: Ends) -> list[float]:
    """All to the replica of the same number."""
    return [float(k == ends.producer) for k in range(ends.consumers)]


def first(ends: Ends) -> list[float]:
    """All to the first."""
    return [float(k == 0) for k in range(ends.consumers)]


def every(ends: Ends) -> list[float]:
    """All to each."""
    return [1.0] * ends.consumers


def even(ends: Ends) -> list[float]:
    """To all alike."""
    return [1.0 / ends.consumers] * ends.consumers


def local(ends: Ends) -> list[float]:
    """Equal shares to the replicas on the producer's host, or to all replicas if it has none."""
    near = set(ends.near or range(ends.consumers))
    return [(k in near) / len(near) for k in range(ends.consumers)]


def by_value(ends: Ends) -> list[float]:
    """Shares by the number of key values on each replica. Values are dealt evenly; some replicas have one more."""
    return [groups_of(ends.values, k, ends.consumers) / ends.values for k in range(ends.consumers)]


def groups_of(groups: int, replica: int, replicas: int) -> int:
    """How many of an operator's distinct group-by values live on one replica, dealt round robin."""
    return groups // replicas + (1 if replica < groups % replicas else 0)
