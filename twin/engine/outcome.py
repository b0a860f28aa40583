"""What evaluations of windows come to: results, which leave all at one moment."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from twin.engine.record import Record

if TYPE_CHECKING:
    from twin.engine.logic import Logic
    from twin.engine.streams.outlet import Outlet

Result = tuple[int, float, float]
"""Its key, and when the oldest record that it is of was born and taken in, in seconds."""


class Outcome:
    """What evaluations come to in the end: results that leave by an outlet, and what has entered other windows then."""

    __slots__ = ("entered", "out", "results")

    def __init__(self, results: Sequence[Result], out: Outlet, entered: list[tuple[Logic, Record]]) -> None:
        self.results = results
        self.out = out
        self.entered = entered

    def leave(self, at_s: float) -> None:
        """All of it, at one moment."""
        for logic, record in self.entered:
            logic.emit(record, at_s)
        send_results(self.results, self.out, at_s)


def send_results(results: Sequence[Result], out: Outlet, at_s: float) -> None:
    """Sends results, one after the other."""
    for result in results:
        out.send(as_record(result, at_s))


def as_record(result: Result, at_s: float) -> Record:
    """A result that leaves at that time."""
    key, born_s, taken_s = result
    made = Record(born_s, taken_s, at_s)
    made.key = key
    return made
