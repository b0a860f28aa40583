"""A source that can read tuples again: it notes what it takes from its broker."""

from __future__ import annotations

from typing import TYPE_CHECKING

import simpy

from twin.engine.operators import SourceTask
from twin.engine.segment import Segment
from twin.engine.snapshot import Snapshot

if TYPE_CHECKING:
    from twin.engine.compute.processor import Processor
    from twin.engine.draws import Draws


class ReplayableSource(SourceTask):
    """`log`: copies of all that it took and had not emitted at the last checkpoint, or took since."""

    __slots__ = ("log",)

    def __init__(
        self,
        env: simpy.Environment,
        name: str,
        processor: Processor,
        draws: Draws,
        service_s: float,
        service_scv: float,
        exact: bool,
    ) -> None:
        super().__init__(env, name, processor, draws, service_s, service_scv, exact)
        self.log: list[Segment] = []

    def plan(self, segment: Segment) -> float:
        """Called for each segment taken, with the broker's stamps still on it."""
        self.log.append(segment.copy())
        return super().plan(segment)

    def snapshot(self) -> Snapshot:
        """From here on it can go back to this point. Its queue is the broker's, which loses nothing."""
        self.log = self.log[-1:] if self.busy else []
        return Snapshot([])

    def restore(self, snapshot: Snapshot, at_s: float, now_s: float) -> int:
        """Goes back to the last point."""
        again, self.log = self.log, []
        for segment in again:
            segment.waited = True
        self.queue.extendleft(reversed(again))
        tuples = sum([segment.n for segment in again])
        self.queued += tuples
        return tuples
