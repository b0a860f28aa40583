"""Load shedding: a port that loses what a full channel cannot take, instead of holding its producer up."""

from __future__ import annotations

from twin.engine.record import Record
from twin.engine.streams.channel import Path, Port


class SheddingPort(Port):
    """Never waits: a record for which there is no credit is dropped."""

    __slots__ = ()

    def pass_on(self, path: Path, record: Record) -> None:
        """See Port."""
        if path.inbox.credits >= record.n:
            self.transfer(path, record)
        else:
            self.dropped += record.n
