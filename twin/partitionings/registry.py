"""All partitionings by name, and their shares by consumer subtask of the records that a producer subtask sends."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Literal

from twin.partitionings.traits import Ends, Partitioning


def own(ends: Ends) -> list[float]:
    """All records to the subtask of the same number."""
    return [float(k == ends.producer) for k in range(ends.consumers)]


def first(ends: Ends) -> list[float]:
    """All records to the first subtask."""
    return [float(k == 0) for k in range(ends.consumers)]


def every(ends: Ends) -> list[float]:
    """All records to each subtask."""
    return [1.0] * ends.consumers


def even(ends: Ends) -> list[float]:
    """Equal shares to all subtasks."""
    return [1.0 / ends.consumers] * ends.consumers


def receivers(ends: Ends) -> range:
    """Numbers of the consumer subtasks that have channels from a producer's in Flink's pointwise pattern.

    With more consumers each producer has a contiguous range of them; else each consumer has one of producers.
    """
    p, producers, consumers = ends.producer, ends.producers, ends.consumers
    if producers >= consumers:
        taker = ((p + 1) * consumers - 1) // producers
        return range(taker, taker + 1)
    return range(-(-p * consumers // producers), -(-(p + 1) * consumers // producers))


def in_range(ends: Ends) -> list[float]:
    """Equal shares to the subtasks of the pointwise pattern."""
    some = receivers(ends)
    return [(k in some) / len(some) for k in range(ends.consumers)]


def first_in_turn(how: Partitioning, ends: Ends) -> int:
    """Number of the consumer subtask with which the turns of a producer's begin: in the pointwise pattern that of its
    first channel, as in Flink; else another one for each producer, as these begin at random there."""
    if how.pointwise:
        some = receivers(ends)
        return next(k for k in some if k % len(some) == 0)
    return ends.producer * ends.consumers // ends.producers


def local(ends: Ends) -> list[float]:
    """Equal shares to the subtasks on the producer's host, or to all subtasks if it has none."""
    near = set(ends.near or range(ends.consumers))
    return [(k in near) / len(near) for k in range(ends.consumers)]


def by_value(ends: Ends) -> list[float]:
    """Shares by the number of key values on each subtask. Values are dealt evenly; some subtasks have one more."""
    return [groups_of(ends.values, k, ends.consumers) / ends.values for k in range(ends.consumers)]


def groups_of(groups: int, subtask: int, parallelism: int) -> int:
    """Number of an operator's distinct group-by values on one subtask, if they are dealt round robin."""
    return groups // parallelism + (1 if subtask < groups % parallelism else 0)


HASH = Partitioning("hash", by_value, by_key=True, keeps_keys=True, even=True)
REBALANCE = Partitioning("rebalance", even, in_turn=True, even=True)

PARTITIONINGS: Mapping[str, Partitioning] = {
    each.name: each
    for each in (
        Partitioning("forward", own, in_turn=True, paired=True, pointwise=True, fixes_subtasks=True),
        REBALANCE,
        Partitioning("rescale", in_range, in_turn=True, pointwise=True, splits=True, fixes_subtasks=True),
        Partitioning("local", local, in_turn=True, near=True, fixes_subtasks=True),
        HASH,
        Partitioning("broadcast", every, copies=True, whole=True, fixes_subtasks=True),
        Partitioning("global", first, whole=True, fixes_subtasks=True),
        Partitioning("two-choice", even, by_key=True, two_choices=True, even=True, fixes_subtasks=True, alone=True),
        Partitioning("shared", even, even=True, one_queue=True, fixes_subtasks=True, alone=True),
    )
}

if TYPE_CHECKING:
    PartitioningName = str
else:
    PartitioningName = Literal[tuple(PARTITIONINGS)]
