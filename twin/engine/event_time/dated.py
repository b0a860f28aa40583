"""Records that know event time, and partial results over a span of it."""

from __future__ import annotations

from twin.engine.event_time.content import Content
from twin.engine.record import Record
from twin.event_windows.instances import Span

DIGEST_BITS = 63


class Dated(Record):
    """at_us: its event time. digest: its 63 random bits, by which whatever holds it can be audited."""

    __slots__ = ("at_us", "digest")

    def __init__(self, born_s: float, taken_s: float, at_s: float, at_us: int) -> None:
        super().__init__(born_s, taken_s, at_s)
        self.at_us = at_us
        self.digest = 0

    def copy(self) -> Record:
        """See Record."""
        again = dated(self, self.at_us)
        again.key, again.digest, again.left_s = self.key, self.digest, self.left_s
        again.fetch_s, again.inbox, again.sender = self.fetch_s, self.inbox, self.sender
        return again


def dated(record: Record, at_us: int) -> Dated:
    """The same record with an event time."""
    return Dated(record.born_s, record.taken_s, record.at_s, at_us)


class Partial(Record):
    """The result of the one key in `content`, over a span of event time."""

    __slots__ = ("content", "span")

    def __init__(self, at_s: float, span: Span, content: Content) -> None:
        born_s, taken_s = content.stamps()
        super().__init__(born_s, taken_s, at_s)
        self.span = span
        self.content = content

    def copy(self) -> Record:
        """See Record."""
        again = Partial(self.at_s, self.span, self.content)
        again.left_s, again.fetch_s, again.inbox, again.sender = self.left_s, self.fetch_s, self.inbox, self.sender
        return again
