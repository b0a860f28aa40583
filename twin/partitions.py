"""Partitions of a topic: each is read by one replica, in turn, so what a replica gets comes in whole partitions."""

from __future__ import annotations


def counts(partitions: int, replicas: int) -> tuple[int, ...]:
    """Partitions that each replica reads: number k reads k, k + R, k + 2 R, ..."""
    return tuple(partitions // replicas + (k < partitions % replicas) for k in range(replicas))


def even(partitions: int, replicas: int) -> bool:
    """Whether all replicas read as many."""
    return partitions % replicas == 0


def busiest(partitions: int, replicas: int) -> float:
    """What the replica that reads most gets, over the mean of all."""
    return counts(partitions, replicas)[0] * replicas / partitions
