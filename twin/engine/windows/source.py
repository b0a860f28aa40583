"""Sources of tuples with event time, which announce their progress by punctuations (Enorm, Section 6.2).

Event time is when a record came to the broker, less a random part of `disorder_s`. A punctuation says that no record
with a smaller event time will come: the newest, less the slack. It is sent where it crosses the end of a pane, as
nothing changes for anybody in between.
"""

from __future__ import annotations

import math

from twin.engine.logics.source import ReplayableSource, SourceLogic
from twin.engine.record import Mark, Record
from twin.engine.windows.panes import DIGEST_BITS, Dated, dated
from twin.engine.windows.watermark import MODIFICATION, WATERMARK
from twin.panes import Panes
from twin.windows import US_PER_S


class TimedSource(ReplayableSource):
    """Logic of a source of tuples with event time. panes: panes of which all operators' panes are made. replayable:
    whether a failure may have it read records again; these are then the same records, with the same event times."""

    def __init__(self, panes: Panes, disorder_us: int, slack_us: int, replayable: bool) -> None:
        super().__init__()
        self.replayable = replayable
        self.panes = panes
        self.disorder_us = disorder_us
        self.slack_us = slack_us
        self._newest_us = -math.inf
        self._marked_us = -math.inf

    # failures --------------------------------------------------------------------------------------------------------

    def plan(self, record: Record) -> float:
        """Stamps a record as taken; notes it only if it may be read again."""
        return super().plan(record) if self.replayable else SourceLogic.plan(self, record)

    def snapshot(self, again: bool) -> object:
        """Number of records taken and emitted, its progress, and the progress that it has announced."""
        return super().snapshot(again), self._newest_us, self._marked_us

    def complete(self, kept: object, now_s: float) -> None:
        assert isinstance(kept, tuple)
        super().complete(kept[0], now_s)

    def restore(self, kept: object, at_s: float) -> int:
        assert isinstance(kept, tuple)
        _, self._newest_us, self._marked_us = kept
        return super().restore(kept[0], at_s)

    def _lasting(self, record: Record, at_us: int) -> Dated:
        """Copy of a record with an event time and a digest, which are the same when it is read again."""
        noted = self.log[-1]
        if not isinstance(noted, Dated):
            noted = self.log[-1] = dated(noted, at_us)
            noted.digest = int(self.station.draws.rng.integers(1, 1 << DIGEST_BITS))
        found = dated(record, noted.at_us)
        found.digest = noted.digest
        return found

    # records ---------------------------------------------------------------------------------------------------------

    def emit(self, record: Record, at_s: float) -> None:
        """Sends a record with its event time, behind the punctuation that it gives rise to."""
        at_us = int(record.born_s * US_PER_S)
        if self.disorder_us or self.replayable:
            at_us -= int(self.station.draws.uniform() * self.disorder_us)
        record.at_s = at_s
        found = self._lasting(record, at_us) if self.replayable else dated(record, at_us)
        self._tell(max(found.at_us, self._newest_us), at_s)
        self.out.send(found)

    def _tell(self, newest_us: float, at_s: float) -> None:
        """Announces its progress, if that has passed the end of a pane since the last time."""
        if newest_us <= self._newest_us:
            return
        self._newest_us = newest_us
        passed_us = self.panes.bounds(self.panes.pane(int(newest_us) - self.slack_us)).start
        if passed_us > self._marked_us:
            self._marked_us = float(passed_us)
            for port in self.station.output.ports:
                port.mark(Mark(WATERMARK, float(passed_us), self.station.name, at_s))

    def announce(self, cut_us: int) -> None:
        """Announces a modification from `cut_us` on, an event time which none of its tuples has reached."""
        self.station.output.mark(MODIFICATION, float(cut_us))
