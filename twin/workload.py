"""Workloads: the arrival law of each source, the skew of keys, and which subtask reads what of a source."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, NamedTuple

import numpy as np
from pydantic import Field

from twin.arrivals.laws import ArrivalLaw, BurstState, Bursty, Constant, Diurnal, Poisson, Spikes, Step, Steps
from twin.arrivals.replay import Replay
from twin.errors import BadInput
from twin.key_skew import KeySkew
from twin.spec import Spec

if TYPE_CHECKING:
    from twin.query import AnyOperator

__all__ = [
    "ArrivalLaw",
    "Arrivals",
    "BurstState",
    "Bursty",
    "Constant",
    "Diurnal",
    "Poisson",
    "Replay",
    "Spikes",
    "Step",
    "Steps",
    "Workload",
]

# workloads -----------------------------------------------------------------------------------------------------------


Arrivals = Annotated[
    Constant | Poisson | Bursty | Diurnal | Steps | Spikes | Replay,
    Field(discriminator="law"),
]


class Workload(Spec):
    """Workload of a job: the arrival law of each source, and the spread of keyed operators' input over key groups."""

    arrivals: dict[str, Arrivals]
    keys: dict[str, KeySkew] = Field(default_factory=dict, description="by operator; absent: all key groups alike")


# partitions of a topic -----------------------------------------------------------------------------------------------
# Partitions of a topic: each is read by one subtask, so what a subtask gets comes in whole partitions.
#
# Subtasks are dealt partitions in turn, from the topic's first reader on: number `first + p` modulo R reads partition
# p.


ROUNDING = 1e-9


class Reader(NamedTuple):
    """Subtask that reads something. subtask: its number. share: of the source's records; None: as all others."""

    subtask: int
    share: float | None


def read_by(source: AnyOperator, parallelism: int, partitions: int) -> list[range]:
    """Numbers of the partitions that each subtask reads, of so many."""
    first = source.first_reader(parallelism)
    return [range((k - first) % parallelism, partitions, parallelism) for k in range(parallelism)]


def read_shares(source: AnyOperator, parallelism: int) -> np.ndarray:
    """Share of the records that each subtask reads; 0 without a partition, or with silent ones alone. [replicas]"""
    if source.parts is None:
        return np.full(parallelism, 1.0 / parallelism)
    dealt, shares = read_by(source, parallelism, source.parts), source.part_shares
    if shares is None:
        return np.array([len(own) for own in dealt]) / source.parts
    return np.array([shares[own.start : own.stop : own.step].sum() for own in dealt])


def even(source: AnyOperator, parallelism: int) -> bool:
    """Whether all subtasks read equal shares."""
    shares = read_shares(source, parallelism)
    return float(np.ptp(shares)) <= ROUNDING * float(shares.max())


def readers(source: AnyOperator, parallelism: int, law: ArrivalLaw) -> list[Reader]:
    """Subtasks that read something, in order.

    Raises BadInput for single recorded records, which are dealt in turn, if shares are uneven.
    """
    shares = read_shares(source, parallelism)
    reading = np.flatnonzero(shares)
    if np.ptp(shares[reading]) <= ROUNDING * shares.max():
        return [Reader(k, None) for k in reading.tolist()]
    if isinstance(law, Replay) and law.recording.rates_per_s is None:
        raise BadInput(
            f"source {source.name!r}: single recorded records are dealt to subtasks in turn, which {source.parts} "
            f"partitions on {parallelism} subtasks do not allow; {_remedy(source)}"
        )
    return [Reader(k, float(shares[k])) for k in reading.tolist()]


def _remedy(source: AnyOperator) -> str:
    if source.part_shares is not None:
        return "give a recording of rates, or leave partition_shares out"
    return f"use a number of subtasks that divides {source.parts}"
