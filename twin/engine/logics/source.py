"""Logics of sources: they stamp records with the time at which they were taken, and may note them for a replay."""

from __future__ import annotations

from twin.engine.logic import Logic
from twin.engine.record import Record


class SourceLogic(Logic):
    """Logic of a source: passes every record of a broker on."""

    def __init__(self) -> None:
        super().__init__()
        self.law = "in = out + in service + stopped"

    def plan(self, record: Record) -> float:
        """Stamps a record as taken when its service begins."""
        station = self.station
        record.taken_s = max(station.env.now, station.free_s)
        return self.out.send_s


class ReplayableSource(SourceLogic):
    """Logic of a source that can read records again. log: copies of the records taken since the last checkpoint, and of
    the one that was in service then. forgotten: number of records taken before."""

    def __init__(self) -> None:
        super().__init__()
        self.log: list[Record] = []
        self.forgotten = 0

    def plan(self, record: Record) -> float:
        """Notes a record as it is taken, with the broker's stamps still on it."""
        self.log.append(record.copy())
        return super().plan(record)

    def snapshot(self, again: bool) -> object:
        """Number of records that it took and emitted. Its queue is the broker's, which loses nothing."""
        return self.forgotten + len(self.log) - (1 if again else 0)

    def complete(self, kept: object, now_s: float) -> None:
        """Forgets records that will not be read again."""
        assert isinstance(kept, int)
        del self.log[: kept - self.forgotten]
        self.forgotten = kept

    def restore(self, kept: object, at_s: float) -> int:
        """Puts the records taken since the checkpoint back into the queue. Returns their number."""
        assert isinstance(kept, int)
        again = self.log[kept - self.forgotten :]
        del self.log[kept - self.forgotten :]
        self.station.queue.extendleft(reversed(again))
        self.station.queued += len(again)
        return len(again)
