"""All partitionings, with their traits. Their names are known nowhere else."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Literal

from twin.partitionings import shares
from twin.partitionings.traits import Partitioning

HASH = Partitioning("hash", shares.by_value, by_key=True, keeps_keys=True, even=True)
REBALANCE = Partitioning("rebalance", shares.even, in_turn=True, even=True)

PARTITIONINGS: Mapping[str, Partitioning] = {
    each.name: each
    for each in (
        Partitioning("forward", shares.own, in_turn=True, paired=True, fixes_replicas=True),
        REBALANCE,
        Partitioning("local", shares.local, in_turn=True, near=True, fixes_replicas=True),
        HASH,
        Partitioning("broadcast", shares.every, copies=True, whole=True, fixes_replicas=True),
        Partitioning("global", shares.first, whole=True, fixes_replicas=True),
        Partitioning(
            "two-choice", shares.even, by_key=True, two_choices=True, even=True, fixes_replicas=True, alone=True
        ),
        Partitioning("shared", shares.even, even=True, one_queue=True, fixes_replicas=True, alone=True),
    )
}

if TYPE_CHECKING:
    PartitioningName = str
else:
    PartitioningName = Literal[tuple(PARTITIONINGS)]
