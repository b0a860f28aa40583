"""Traits of a partitioning."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

PROBED = 9
"""Up to so many subtasks, less one, shares are looked at when a partitioning is made."""
TINY = 1e-9


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
