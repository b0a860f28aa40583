"""Partitions of a topic: each is read by one replica, so what a replica gets comes in whole partitions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from twin.arrivals.law import ArrivalLaw
from twin.arrivals.replay import Replay
from twin.errors import BadInput

if TYPE_CHECKING:
    from twin.query import AnyOperator


def counts(partitions: int, replicas: int) -> tuple[int, ...]:
    """Number of partitions that each replica reads: number k reads k, k + R, k + 2 R, ..."""
    return tuple(partitions // replicas + (k < partitions % replicas) for k in range(replicas))


def even(partitions: int, replicas: int) -> bool:
    """Whether all replicas read equal numbers of partitions."""
    return partitions % replicas == 0


def busiest(partitions: int, replicas: int) -> float:
    """Records of the replica that reads most, over the mean of all."""
    return counts(partitions, replicas)[0] * replicas / partitions


def read_shares(source: AnyOperator, replicas: int, law: ArrivalLaw) -> Sequence[float | None]:
    """Share of the records that each replica reads, without replicas that read nothing; None: an equal share.

    Raises BadInput for single recorded tuples, which are dealt in turn, if shares are uneven.
    """
    if source.parts is None:
        return [None] * replicas
    each = [count for count in counts(source.parts, replicas) if count]
    if even(source.parts, len(each)):
        return [None] * len(each)
    if isinstance(law, Replay) and law.recording.rates_per_s is None:
        raise BadInput(
            f"source {source.name!r}: single recorded tuples are dealt to replicas in turn, which {source.parts} "
            f"partitions on {replicas} replicas do not allow; use a number of replicas that divides {source.parts}"
        )
    return [count / source.parts for count in each]
