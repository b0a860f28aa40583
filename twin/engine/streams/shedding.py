"""Load shedding: a port that loses what a full channel cannot take, instead of holding its producer up."""

from __future__ import annotations

from twin.engine.segment import Segment
from twin.engine.streams.channel import Path, Port


class SheddingPort(Port):
    """Never waits. Single tuples need a credit each; of a segment, as many tuples pass as there are credits."""

    __slots__ = ()

    def _pass(self, path: Path, segment: Segment) -> None:
        room = path.inbox.credits
        if room >= segment.n:
            self._transfer(path, segment)
            return
        kept = max(0, room)
        self.dropped += segment.n - kept
        if kept:
            self._transfer(path, segment.part(kept, 0.0, 1.0))
