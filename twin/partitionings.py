"""Partitionings: how a stream's records are dealt to the subtasks of its consumer, as traits that other code asks for.

A new one is a function from `Ends` to shares here, and a `Partitioning` with its traits in `PARTITIONINGS`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, NamedTuple

# traits --------------------------------------------------------------------------------------------------------------


PROBED = 9
"""Number of subtasks below which shares are checked when a partitioning is made."""
TINY = 1e-9
"""Difference of two shares that is rounding."""


class Ends(NamedTuple):
    """Ends of a stream at one producer subtask. producer: its number. consumers: number of consumer subtasks. values:
    number of distinct values of the key. near: numbers of the consumer subtasks on the producer's host. producers:
    number of producer subtasks."""

    producer: int
    consumers: int
    values: int
    near: tuple[int, ...] = ()
    producers: int = 1


@dataclass(frozen=True, slots=True)
class Partitioning:
    """Partitioning of a stream: how its records are dealt to the consumer's subtasks.

    shares: of a producer subtask's output, by consumer subtask; they sum to 1, but for copies. The traits:

    by_key: records go by their key, whose values come at random, so by any shares. keeps_keys: all records of a key go
    to one subtask.
    two_choices: each key group has two subtasks, and each record goes to the less loaded one of them.
    in_turn: records go to one subtask after the other. even: subtasks share the stream evenly, whatever sends it.
    copies: every subtask gets every record. whole: a subtask that gets any record gets all of them.
    paired: producer subtask k sends to consumer subtask k alone, so both have as many.
    pointwise: a producer subtask has channels only to the consumer subtasks to which it sends, by their numbers.
    splits: its ends never run as one, even where records would go straight on.
    near: a producer subtask sends only to the consumer subtasks on its own host, if there are any.
    one_queue: the subtasks take from a common queue, so they are on one host.
    fixes_subtasks: their number cannot change while the job runs. alone: all inputs of the consumer are dealt so.
    """

    name: str
    shares: Callable[[Ends], list[float]]
    by_key: bool = False
    keeps_keys: bool = False
    two_choices: bool = False
    in_turn: bool = False
    even: bool = False
    copies: bool = False
    whole: bool = False
    paired: bool = False
    pointwise: bool = False
    splits: bool = False
    near: bool = False
    one_queue: bool = False
    fixes_subtasks: bool = False
    alone: bool = False

    def __post_init__(self) -> None:
        """Raises ValueError for uneven shares of a stream that is dealt in turn, as all but streams by key are."""
        for consumers in () if self.by_key else range(1, PROBED):
            some = [share for share in self.shares(Ends(0, consumers, consumers)) if share > 0.0]
            if max(some) - min(some) > TINY:
                raise ValueError(
                    f"partitioning {self.name!r} deals in turn, and its shares for {consumers} subtasks are uneven "
                    f"({', '.join(f'{share:.3g}' for share in some)}); give it by_key, which deals at random"
                )

    def __str__(self) -> str:
        return self.name

    def pairs(self, producers: int, consumers: int) -> list[tuple[int, int, float]]:
        """Producer and consumer subtasks between which records go, and the share of the producer's output."""
        rows = [self.shares(Ends(p, consumers, consumers, producers=producers)) for p in range(producers)]
        return [(p, c, share) for p, row in enumerate(rows) for c, share in enumerate(row) if share > 0.0]

    def count_of_copies(self, parallelism: int) -> int:
        """Number of copies of each record for that number of consumer subtasks."""
        return parallelism if self.copies else 1


# partitionings by name -----------------------------------------------------------------------------------------------
# All partitionings by name, and their shares by consumer subtask of the records that a producer subtask sends.


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
