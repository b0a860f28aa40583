"""A source of tuples with event time: its segments end where panes do, and it tells how far it is (Enorm, Section 6.2).

Event time is when a tuple came to the broker, less a random part of `disorder_s`. A punctuation says that no tuple with
a smaller event time will come: the newest, less the slack. It is sent where it crosses the end of a pane, as nothing
changes for anybody in between.
"""

from __future__ import annotations

import math

from twin.engine.event_time.dated import DIGEST_BITS, Dated, dated
from twin.engine.event_time.timed import MODIFICATION, WATERMARK
from twin.engine.logic import depart
from twin.engine.logics.source import ReplayableSource
from twin.engine.segment import Segment
from twin.engine.streams.control import Mark
from twin.event_windows.panes import Panes
from twin.event_windows.window import US_PER_S


class TimedSource(ReplayableSource):
    """panes: so short that all panes of all operators are made of them. replayable: whether a failure may have it read
    tuples again. In an exact run they are the same tuples then, of the same event times."""

    __slots__ = ("_marked_us", "_newest_us", "disorder_us", "panes", "replayable", "slack_us")

    def __init__(self, panes: Panes, disorder_us: int, slack_us: int, replayable: bool) -> None:
        super().__init__()
        self.replayable = replayable
        self.panes = panes
        self.disorder_us = disorder_us
        self.slack_us = slack_us
        self._newest_us = -math.inf
        self._marked_us = -math.inf

    # failures --------------------------------------------------------------------------------------------------------

    def plan(self, segment: Segment) -> float:
        """Notes it only where it may be read again."""
        return super().plan(segment) if self.replayable else segment.n * self.out.send_s

    def snapshot(self, again: bool) -> object:
        """Where it is, and how far it has said it is."""
        return super().snapshot(again), self._newest_us, self._marked_us

    def complete(self, kept: object, now_s: float) -> None:
        """See ReplayableSource."""
        assert isinstance(kept, tuple)
        super().complete(kept[0], now_s)

    def restore(self, kept: object, at_s: float, now_s: float) -> int:
        """See ReplayableSource."""
        assert isinstance(kept, tuple)
        _, self._newest_us, self._marked_us = kept
        return super().restore(kept[0], at_s, now_s)

    def _lasting(self, piece: Segment, at_us: int) -> Dated:
        """A single tuple with an event time and a digest, which it keeps when it is read again."""
        noted = self.log[-1]
        if not isinstance(noted, Dated):
            noted = self.log[-1] = dated(noted, at_us)
            noted.digest = int(self.station.draws.rng.integers(1, 1 << DIGEST_BITS))
        found = dated(piece, noted.at_us)
        found.digest = noted.digest
        return found

    # tuples ----------------------------------------------------------------------------------------------------------

    def emit(self, segment: Segment, first_s: float, last_s: float) -> None:
        """In pieces that lie in one pane each, with punctuations between them."""
        since_us, until_us = (int(at_s * US_PER_S) for at_s in (segment.a_s, segment.b_s))
        self.stamp(segment)
        segment = depart(segment, segment.n, first_s, last_s)
        n, done = segment.n, 0
        step_us = (until_us - since_us) / (n - 1) if n > 1 else 0.0
        while done < n:
            at_us = since_us + int(step_us * done)
            end_us = self.panes.bounds(self.panes.pane(at_us)).end
            upto = n if end_us > until_us or step_us <= 0.0 else max(done + 1, math.ceil((end_us - since_us) / step_us))
            upto = min(n, upto)
            piece = segment if upto - done == n else segment.part(upto - done, done / n, upto / n)
            self._send_dated(piece, at_us, since_us + int(step_us * (upto - 1)))
            done = upto

    def _send_dated(self, piece: Segment, first_us: int, last_us: int) -> None:
        """Tuples that arrived in one pane."""
        if self.replayable and self.station.exact:
            at_us = first_us - int(self.station.draws.uniform() * self.disorder_us)
            found = self._lasting(piece, at_us)
            self._tell(max(found.at_us, self._newest_us), piece.a_s)
            self.out.send(found)
        elif not self.disorder_us:
            self._tell(first_us, piece.a_s)
            self.out.send(dated(piece, first_us))
        elif piece.n == 1:
            at_us = first_us - int(self.station.draws.uniform() * self.disorder_us)
            self._tell(max(at_us, self._newest_us), piece.a_s)
            self.out.send(dated(piece, at_us))
        else:
            self._tell(first_us, piece.a_s)
            for n, at_us in self._spread(piece.n, first_us, last_us):
                self.out.send(dated(piece.part(n, 0.0, 1.0), at_us))

    def _spread(self, n: int, first_us: int, last_us: int) -> list[tuple[int, int]]:
        """Tuples by the pane of their event times, the latest pane last; each with a time in it."""
        found, left, rest, pane = list[tuple[int, int]](), n, 1.0, self.panes.pane(first_us)
        while left and rest > 1e-12:
            start_us = self.panes.bounds(pane).start
            before = self._share_before(start_us, first_us, last_us)
            here = left if before <= 0.0 else left - self.station.draws.binomial(left, min(1.0, before / rest))
            if here:
                found.append((here, start_us if found else max(start_us, first_us - self.disorder_us)))
            left, rest, pane = left - here, before, pane - 1
        return found[::-1]

    def _share_before(self, us: int, first_us: int, last_us: int) -> float:
        """Of tuples that arrived evenly between two times after `us`, those with an event time before it."""
        wide, span = float(self.disorder_us), float(last_us - first_us)
        behind = [max(0.0, wide - (at_us - us)) for at_us in (first_us, last_us)]
        if span <= 0.0:
            return min(1.0, behind[0] / wide)
        return min(1.0, (behind[0] ** 2 - behind[1] ** 2) / (2.0 * wide * span))

    def _tell(self, newest_us: float, at_s: float) -> None:
        """How far it is, if it has passed the end of a pane since it last told."""
        if newest_us <= self._newest_us:
            return
        self._newest_us = newest_us
        passed_us = self.panes.bounds(self.panes.pane(int(newest_us) - self.slack_us)).start
        if passed_us > self._marked_us:
            self._marked_us = float(passed_us)
            for port in self.station.ports:
                port.mark(Mark(WATERMARK, float(passed_us), self.station.name, at_s))

    def announce(self, cut_us: int) -> None:
        """A modification from that event time on, which none of its tuples has reached."""
        at_s = float(self.station.env.now) if self.station.exact else self.station.free_s
        for port in self.station.ports:
            port.mark(Mark(MODIFICATION, float(cut_us), self.station.name, at_s))
