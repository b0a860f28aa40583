"""Segments that know event time: tuples of one pane, and partial results over a span of it."""

from __future__ import annotations

from twin.engine.event_time.content import Content
from twin.engine.segment import Segment
from twin.event_windows.instances import Span

DIGEST_BITS = 63


class Dated(Segment):
    """Tuples of one pane of event time; sources cut their segments where panes end.

    at_us: event time of the first of them. law: under which their key groups were dealt, to the index `seat` of the
    deal; -1: not yet dealt. In an exact run, key: of the single tuple, and digest: its 63 random bits, by which
    whatever holds it can be audited.
    """

    __slots__ = ("at_us", "digest", "key", "law", "seat")

    def __init__(
        self,
        n: int,
        a_s: float,
        b_s: float,
        born: tuple[float, float],
        taken: tuple[float, float],
        gap_scv: float,
        at_us: int,
    ) -> None:
        super().__init__(n, a_s, b_s, born[0], born[1], taken[0], taken[1], gap_scv)
        self.at_us = at_us
        self.law = -1
        self.seat = -1
        self.key = -1
        self.digest = 0

    def copy(self) -> Segment:
        """See Segment."""
        again = dated(self, self.at_us)
        again.law, again.seat, again.key, again.digest = self.law, self.seat, self.key, self.digest
        again.fetch_s, again.waited, again.came_s, again.inbox = self.fetch_s, self.waited, self.came_s, self.inbox
        return again

    def part(self, n: int, low: float, high: float) -> Segment:
        """See Segment; all of it in the same pane."""
        piece = dated(Segment.part(self, n, low, high), self.at_us)
        piece.law, piece.seat, piece.key, piece.digest = self.law, self.seat, self.key, self.digest
        return piece


def dated(segment: Segment, at_us: int) -> Dated:
    """The same tuples with an event time."""
    return Dated(
        segment.n,
        segment.a_s,
        segment.b_s,
        (segment.born0_s, segment.born1_s),
        (segment.taken0_s, segment.taken1_s),
        segment.gap_scv,
        at_us,
    )


class Partial(Segment):
    """Results of the n keys in `content`, each over the same span of event time; they leave at one moment."""

    __slots__ = ("content", "span")

    def __init__(self, n: int, at_s: float, span: Span, content: Content) -> None:
        born, taken = content.ages(n)
        super().__init__(n, at_s, at_s, born[0], born[1], taken[0], taken[1])
        self.span = span
        self.content = content

    def copy(self) -> Segment:
        """See Segment."""
        again = Partial(self.n, self.b_s, self.span, self.content)
        again.a_s, again.inbox, again.fetch_s = self.a_s, self.inbox, self.fetch_s
        return again
