"""Traits of a partitioning."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

PROBED = 9
"""Up to so many replicas, less one, shares are looked at when a partitioning is made."""
TINY = 1e-9


class Ends(NamedTuple):
    """Ends of a stream at one producer replica. producer: its number. consumers: number of consumer replicas. values:
    number of distinct values of the key. near: numbers of the consumer replicas on the producer's host."""

    producer: int
    consumers: int
    values: int
    near: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Partitioning:
    """Partitioning of a stream: how its tuples are dealt to the consumer's replicas.

    shares: of a producer replica's output, by consumer replica; they sum to 1, but for copies. The traits:

    by_key: tuples go by their key, whose values come at random, so by any shares. keeps_keys: all tuples of a key go to
    one replica.
    two_choices: each key group has two replicas, and each tuple goes to the less loaded one of them.
    in_turn: tuples go to one replica after the other. even: replicas share the stream evenly, whatever sends it.
    copies: every replica gets every tuple. whole: a replica that gets any tuple gets all of them.
    paired: producer replica k sends to consumer replica k alone, so both have as many.
    near: a producer replica sends only to the consumer replicas on its own host, if there are any.
    one_queue: the replicas take from a common queue, so they are on one host.
    fixes_replicas: their number cannot change while the job runs. alone: all inputs of the consumer are dealt so.
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
    near: bool = False
    one_queue: bool = False
    fixes_replicas: bool = False
    alone: bool = False

    def __post_init__(self) -> None:
        """Raises ValueError for uneven shares of a stream that is dealt in turn, as all but streams by key are."""
        for consumers in () if self.by_key else range(1, PROBED):
            some = [share for share in self.shares(Ends(0, consumers, consumers)) if share > 0.0]
            if max(some) - min(some) > TINY:
                raise ValueError(
                    f"partitioning {self.name!r} deals in turn, and its shares for {consumers} replicas are uneven "
                    f"({', '.join(f'{share:.3g}' for share in some)}); give it by_key, which deals at random"
                )

    def __str__(self) -> str:
        return self.name

    def count_of_copies(self, replicas: int) -> int:
        """Number of copies of each tuple for that number of consumer replicas."""
        return replicas if self.copies else 1
