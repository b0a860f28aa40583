"""Where what a logic makes goes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from twin.engine.outcome import Outcome, Result
from twin.engine.record import Record

if TYPE_CHECKING:
    from twin.engine.logic import Logic


class Outlet:
    """A station's ports are one, the next logic at the same station is another.

    send_s: CPU seconds that it takes to hand a tuple over.
    """

    __slots__ = ("send_s",)

    def __init__(self) -> None:
        self.send_s = 0.0

    def send(self, record: Record) -> None:
        """Takes a record over."""
        raise NotImplementedError

    def know_send(self, send_s: float) -> None:
        """What it costs the station to send a tuple has changed."""

    def followers(self) -> list[Logic]:
        """Logics that tuples pass on the way to where they leave the station."""
        return []

    def came(self, number: int) -> int:
        """Tuples that have come to one of those."""
        return 0

    def offer(self, results: Sequence[Result]) -> tuple[Outcome, float]:
        """What results that leave all at once come to in the end, and the CPU seconds that this takes."""
        return Outcome(results, self, []), len(results) * self.send_s
