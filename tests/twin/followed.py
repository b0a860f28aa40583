"""Records that a logic in Python has taken in, one by one, with what it sent for each, for comparison with brute
force."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any
from unittest.mock import patch

from twin.operators.records import Record
from twin.world.python_logics import Out


@dataclass(frozen=True)
class Taken:
    """Record that was taken in: when its service began and ended, its key and input, its stamps, the results that left
    with it, and the value by which it is ranked."""

    came_s: float
    at_s: float
    key: int
    side: int
    born_s: float
    at_us: int
    results: list[Record]
    value: float


@dataclass
class Followed:
    """Records by logic; those that a failure has undone are not among them. order: all, in the order of their ends.

    sent: what left otherwise, with the time.
    """

    by_logic: dict[Any, list[Taken]] = field(default_factory=dict)
    order: list[Taken] = field(default_factory=list)
    undone: int = 0

    @property
    def sent(self) -> int:
        """Number of results of all records."""
        return sum(len(each.results) for each in self.order)


@contextmanager
def following(kind: Any) -> Iterator[Followed]:
    """What logics of a kind take in during a block."""
    found, sending = Followed(), list[Record]()
    kept_at: dict[int, tuple[object, int]] = {}
    emit, send, snapshot, restore = kind.emit, Out.send, kind.snapshot, kind.restore

    def emitted(logic: Any, record: Any, at_s: float) -> None:
        sending.clear()
        side = record.inbox.side if record.inbox is not None else 0
        stamps = record.key, side, record.born_s, getattr(record, "at_us", 0)
        emit(logic, record, at_s)
        taken = Taken(logic.came_s, at_s, *stamps, results=list(sending), value=getattr(logic, "value", 0.0))
        found.by_logic.setdefault(logic, []).append(taken)
        found.order.append(taken)

    def sent(out: Any, record: Record) -> None:
        sending.append(record)
        send(out, record)

    def kept(logic: Any, again: bool) -> object:
        made = snapshot(logic, again)
        kept_at[id(made)] = made, len(found.by_logic.get(logic, ()))
        return made

    def restored(logic: Any, made: Any, at_s: float) -> int:
        before = found.by_logic.get(logic, [])
        count = kept_at[id(made)][1]
        gone = {id(each) for each in before[count:]}
        found.undone += len(gone)
        found.by_logic[logic] = before[:count]
        found.order = [each for each in found.order if id(each) not in gone]
        return restore(logic, made, at_s)

    with (
        patch.object(kind, "emit", emitted),
        patch.object(Out, "send", sent),
        patch.object(kind, "snapshot", kept),
        patch.object(kind, "restore", restored),
    ):
        yield found
