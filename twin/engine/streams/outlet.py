"""Where what a logic makes goes."""

from __future__ import annotations

from twin.engine.outcome import Outcome, Results
from twin.engine.segment import Segment


class Outlet:
    """A station's ports are one, the next logic at the same station is another.

    send_s: CPU seconds that it takes to hand a tuple over.
    """

    __slots__ = ("send_s",)

    def __init__(self) -> None:
        self.send_s = 0.0

    def send(self, segment: Segment) -> None:
        """Takes a segment over."""
        raise NotImplementedError

    def offer(self, results: Results) -> tuple[Outcome, float]:
        """What results that leave all at once come to in the end, and the CPU seconds that this takes."""
        return Outcome([results], self, []), results.n * self.send_s
