"""Contents of windows over event time, by pane and key; and the notes by which a run is audited."""

from __future__ import annotations

from collections.abc import Iterable
from copy import copy
from dataclasses import dataclass, field
from typing import Generic, Self, TypeVar

from twin.engine.keys.groups import KeyGroups
from twin.engine.record import Record
from twin.engine.state import Leaves
from twin.panes import Span

Found = tuple[int, int, float, float]
"""Content of one key: number of records, XOR of their digests, and seconds at which the oldest was born and taken."""


Place = TypeVar("Place", int, Span)


class SpanContent:
    """Content of one span of event time, or of several that are merged. held: by key. groups: those of the keys."""

    def __init__(self, groups: KeyGroups) -> None:
        self.groups = groups
        self.held: dict[int, Found] = {}

    @property
    def keys(self) -> int:
        """Number of distinct keys."""
        return len(self.held)

    @property
    def tuples(self) -> int:
        """Number of records."""
        return sum([found[0] for found in self.held.values()])

    def add(self, key: int, found: Found) -> None:
        """Adds records of a key; the oldest of them decides on the age."""
        before = self.held.get(key)
        if before is not None:
            oldest = before if before[2] <= found[2] else found
            found = before[0] + found[0], before[1] ^ found[1], oldest[2], oldest[3]
        self.held[key] = found

    def stamps(self) -> tuple[float, float]:
        """Times at which the oldest record of a key was born and taken, as means over the keys."""
        by_key = list(self.held.values())
        born_s = sum([found[2] for found in by_key]) / len(by_key) if by_key else 0.0
        taken_s = sum([found[3] for found in by_key]) / len(by_key) if by_key else 0.0
        return born_s, taken_s

    def merge(self, other: SpanContent) -> None:
        """Adds the records of another content."""
        for key, found in other.held.items():
            self.add(key, found)

    def only(self, groups: Iterable[int]) -> SpanContent:
        """Copy of the content of these key groups."""
        wanted = set(groups)
        return self.of_keys(lambda key: self.groups.group_of(key) in wanted)

    def of_keys(self, wanted: Leaves) -> SpanContent:
        """Copy of the content of the wanted keys."""
        part = SpanContent(self.groups)
        part.held = {key: found for key, found in self.held.items() if wanted(key)}
        return part

    def copy(self) -> SpanContent:
        """Independent copy."""
        return self.of_keys(lambda _: True)

    def drop(self, gone: Leaves) -> None:
        """Drops the keys that are gone."""
        self.held = {key: found for key, found in self.held.items() if not gone(key)}

    def single(self, key: int) -> SpanContent:
        """Copy of the content of one key."""
        part = SpanContent(self.groups)
        part.held[key] = self.held[key]
        return part


class SpanStore(Generic[Place]):
    """Contents by place in event time: the number of a pane, or a span of panes."""

    def __init__(self, groups: KeyGroups) -> None:
        self.groups = groups
        self.held: dict[Place, SpanContent] = {}

    def at(self, place: Place) -> SpanContent:
        """Content at a place; a new, empty one if there was none."""
        content = self.held.get(place)
        if content is None:
            content = self.held[place] = SpanContent(self.groups)
        return content

    def add(self, place: Place, content: SpanContent) -> None:
        """Merges content into a place, as several senders may each have a part of it."""
        self.at(place).merge(content)

    def copy(self) -> Self:
        """Independent copy."""
        again = copy(self)
        again.held = {place: content.copy() for place, content in self.held.items()}
        return again


DIGEST_BITS = 63


class Dated(Record):
    """Record with an event time, `at_us`. digest: 63 random bits, by which contents that hold it are audited."""

    __slots__ = ("at_us", "digest")

    def __init__(self, born_s: float, taken_s: float, at_s: float, at_us: int) -> None:
        super().__init__(born_s, taken_s, at_s)
        self.at_us = at_us
        self.digest = 0

    def copy(self) -> Record:
        again = dated(self, self.at_us)
        again.key, again.lot, again.digest, again.left_s = self.key, self.lot, self.digest, self.left_s
        again.fetch_s, again.inbox, again.sender = self.fetch_s, self.inbox, self.sender
        return again


def dated(record: Record, at_us: int) -> Dated:
    """Makes a copy of a record, with an event time."""
    return Dated(record.born_s, record.taken_s, record.at_s, at_us)


class Partial(Record):
    """Partial result: the one key in `content`, over a span of event time."""

    __slots__ = ("content", "span")

    def __init__(self, at_s: float, span: Span, content: SpanContent) -> None:
        born_s, taken_s = content.stamps()
        super().__init__(born_s, taken_s, at_s)
        self.span = span
        self.content = content

    def copy(self) -> Record:
        again = Partial(self.at_s, self.span, self.content)
        again.left_s, again.fetch_s, again.inbox, again.sender = self.left_s, self.fetch_s, self.inbox, self.sender
        return again


@dataclass(slots=True)
class History:
    """Audits of all operators, and the progress of their replicas. far_us: by operator, the watermark of each replica.
    Each failure keeps what it undoes as one more history."""

    audits: dict[str, WindowAudit]
    far_us: dict[str, list[float]]

    def copy(self) -> History:
        """Copy of what is noted so far."""
        return History({name: audit.copy() for name, audit in self.audits.items()}, self.far_us)


@dataclass(slots=True)
class WindowAudit:
    """Notes on the windows of one operator. came: event time, key and digest of each tuple sent to it, once for all
    copies.

    kept, late: digests of tuples that it took, and that it dropped; a tuple that was sent to two owners can be both.
    behind: by digest of a tuple that was taken though the watermark had passed it, that watermark.
    emitted: start and end of a window, key, number of its tuples and XOR of their digests. keys: by digest, for tuples
    that will be the same when they are read again.
    """

    came: list[tuple[int, int, int]] = field(default_factory=list)
    kept: set[int] = field(default_factory=set)
    late: set[int] = field(default_factory=set)
    behind: dict[int, float] = field(default_factory=dict)
    emitted: list[tuple[int, int, int, int, int]] = field(default_factory=list)
    keys: dict[int, int] = field(default_factory=dict)

    def keep(self, record: Dated, watermark_us: float) -> None:
        """Notes a tuple that was taken at that watermark."""
        if watermark_us > record.at_us:
            self.behind[record.digest] = watermark_us
        self.kept.add(record.digest)

    def emit(self, span: Span, content: SpanContent) -> None:
        """Notes a complete window that was emitted."""
        for key, found in content.held.items():
            self.emitted.append((span.start, span.end, key, found[0], found[1]))

    def copy(self) -> WindowAudit:
        """Copy of what is noted so far."""
        noted = self.came.copy(), self.kept.copy(), self.late.copy(), self.behind.copy(), self.emitted.copy()
        return WindowAudit(*noted, self.keys)

    def become(self, kept: WindowAudit) -> None:
        """Goes back to the notes in `kept`."""
        again = kept.copy()
        self.came, self.kept, self.late, self.behind = again.came, again.kept, again.late, again.behind
        self.emitted = again.emitted
