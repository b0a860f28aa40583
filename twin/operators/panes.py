"""Contents of windows over event time, by pane and key, and the forms in which they are kept."""

from __future__ import annotations

import math
from collections.abc import Iterable
from copy import copy
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, Generic, Self, TypeVar

from twin.operators.key_groups import KeyGroups
from twin.operators.records import Leaves, Record
from twin.windows import US_PER_S, EventWindow, Panes, Span, covering

# contents ------------------------------------------------------------------------------------------------------------
# Contents of windows over event time, by pane and key; and the notes by which a run is audited.


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
    def records(self) -> int:
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
        if len(by_key) == 1:
            return by_key[0][2:]
        born_s = sum([found[2] for found in by_key]) / len(by_key) if by_key else 0.0
        taken_s = sum([found[3] for found in by_key]) / len(by_key) if by_key else 0.0
        return born_s, taken_s

    def merge(self, other: SpanContent) -> None:
        """Adds the records of another content."""
        held = self.held
        for key, found in other.held.items():  # as `add`, without a call for each key
            before = held.get(key)
            if before is not None:
                oldest = before if before[2] <= found[2] else found
                found = before[0] + found[0], before[1] ^ found[1], oldest[2], oldest[3]
            held[key] = found

    def only(self, groups: Iterable[int]) -> SpanContent:
        """Copy of the content of these key groups."""
        wanted = set(groups)
        return self.of_keys(lambda key: self.groups.group_of(key) in wanted)

    def of_keys(self, wanted: Leaves) -> SpanContent:
        """Copy of the content of the wanted keys."""
        part = SpanContent(self.groups)
        part.held = {key: found for key, found in self.held.items() if wanted(key)}
        return part

    def part(self, keys: int) -> SpanContent:
        """Copy of the content of so many keys."""
        part = SpanContent(self.groups)
        part.held = dict(islice(self.held.items(), keys))
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
        again.fetch_s, again.inbox, again.channel, again.sender = self.fetch_s, self.inbox, self.channel, self.sender
        again.ready_s = self.ready_s
        return again


def ready_s(taken_s: float, at_us: int) -> float:
    """When all was there that a record of that event time had waited for: it was taken, or its window had ended."""
    return max(taken_s, (at_us + 1) / US_PER_S)


def dated(record: Record, at_us: int) -> Dated:
    """Makes a copy of a record, with an event time."""
    return Dated(record.born_s, record.taken_s, record.at_s, at_us)


class Partial(Record):
    """Partial result: the one key in `content`, over a span of event time."""

    __slots__ = ("content", "span")

    def __init__(self, at_s: float, span: Span, content: SpanContent) -> None:
        born_s, taken_s = content.stamps()
        super().__init__(born_s, taken_s, at_s)
        self.left_s, self.ready_s = at_s - taken_s, span.end / US_PER_S
        self.span = span
        self.content = content

    def copy(self) -> Record:
        again = Partial(self.at_s, self.span, self.content)
        again.left_s, again.fetch_s, again.inbox, again.sender = self.left_s, self.fetch_s, self.inbox, self.sender
        return again


Missed = tuple[int, int, int]
"""Start and end of a partial result, and its key."""


@dataclass(slots=True)
class History:
    """Audits of all operators, and the progress of their subtasks. far_us: by operator, the watermark of each subtask;
    held: partial results that it has not handed over yet, by operator; under_way: those that were handed over but not
    taken yet, of all operators. Each failure keeps what it undoes as one more history."""

    audits: dict[str, WindowAudit]
    far_us: dict[str, list[float]]
    held: dict[str, list[Missed]]
    under_way: list[Missed]


Came = tuple[int, int, int]
"""Event time, key and digest of a record."""
Emitted = tuple[int, int, int, int, int]
"""Start and end of a window, key, number of its records and XOR of their digests."""
Noted = tuple[int, int, int, int, int, int, int]
"""Lengths of the lists of notes, by which a checkpoint knows them."""


class WindowNotes:
    """Notes of one subtask on the windows of one operator; those of a producer are on the records that it sends there.

    came, lost: records that it sent, and digests of those that found no room. kept, late: digests of records that it
    took in, and that came too late. behind: digest of a record that was taken in though the watermark had passed it,
    and that watermark. emitted: windows. missed: partial results that came when a window with them was over, as their
    sender had been idle. keys: of the operator, by digest, for records that will be the same when they are read again.
    All lists only grow, until a failure takes the subtask back to a checkpoint.
    """

    def __init__(self, operator: OperatorNotes) -> None:
        self.operator = operator
        self.keys = operator.keys
        self.came: list[Came] = []
        self.kept: list[int] = []
        self.late: list[int] = []
        self.behind: list[tuple[int, float]] = []
        self.emitted: list[Emitted] = []
        self.lost: list[int] = []
        self.missed: list[Missed] = []

    def keep(self, record: Dated, watermark_us: float) -> None:
        """Notes a record that was taken at that watermark."""
        if watermark_us > record.at_us:
            self.behind.append((record.digest, watermark_us))
        self.kept.append(record.digest)

    def emit(self, span: Span, content: SpanContent) -> None:
        """Notes a complete window that was emitted."""
        for key, found in content.held.items():
            self.emitted.append((span.start, span.end, key, found[0], found[1]))

    @property
    def noted(self) -> Noted:
        """How far the notes have come."""
        came, emitted = len(self.came), len(self.emitted)
        return came, len(self.kept), len(self.late), len(self.behind), emitted, len(self.lost), len(self.missed)

    def back(self, noted: Noted) -> None:
        """Goes back to where the notes had come to."""
        taken = self.came, self.kept, self.late, self.behind
        lists: tuple[list[Any], ...] = *taken, self.emitted, self.lost, self.missed
        for notes, length in zip(lists, noted, strict=True):
            del notes[length:]


class OperatorNotes:
    """Notes of all subtasks on the windows of one operator. keys: see `WindowNotes`."""

    def __init__(self) -> None:
        self.keys: dict[int, int] = {}
        self.each: list[WindowNotes] = []

    def more(self) -> WindowNotes:
        """Notes of one more subtask."""
        return self.take(WindowNotes(self))

    def of_producer(self) -> WindowNotes:
        """Notes of one more subtask that sends records to the operator."""
        return self.more()

    def take(self, notes: WindowNotes) -> WindowNotes:
        """Takes the notes of one more subtask."""
        self.each.append(notes)
        return notes

    def audit(self) -> WindowAudit:
        """All that is noted so far."""
        found = WindowAudit(keys=self.keys)
        for notes in self.each:
            found.came += notes.came
            found.kept.update(notes.kept)
            found.late.update(notes.late)
            found.behind.update(notes.behind)
            found.emitted += notes.emitted
            found.lost.update(notes.lost)
            found.missed += notes.missed
        return found


@dataclass(slots=True)
class WindowAudit:
    """What was noted on the windows of one operator, by which they are audited; see `WindowNotes`. came: each record
    once for all copies. A record that was sent to two owners can be both kept and late."""

    came: list[Came] = field(default_factory=list)
    kept: set[int] = field(default_factory=set)
    late: set[int] = field(default_factory=set)
    behind: dict[int, float] = field(default_factory=dict)
    emitted: list[Emitted] = field(default_factory=list)
    keys: dict[int, int] = field(default_factory=dict)
    lost: set[int] = field(default_factory=set)
    missed: list[Missed] = field(default_factory=list)


# forms ---------------------------------------------------------------------------------------------------------------
# Forms of windows: they share the states of panes, or each has its own state (Enorm, Fig. 5). This may change in a
# run.
#
# A window has the form that held at its beginning, so that windows under way keep theirs.


PANES, WINDOWS = "panes", "windows"


class Forms:
    """Forms of the windows of one compute, over event time. since: the forms, with the event times from which they
    hold. to_come: forms announced for later event times."""

    def __init__(self, panes: Panes | None, windows: tuple[EventWindow, ...], form: str) -> None:
        self.panes = panes
        self.windows = windows
        self.since: list[tuple[float, str]] = [(-math.inf, form)]
        self.to_come: dict[int, str] = {}
        self._executions: dict[int, int] = {}

    def at(self, start_us: int) -> str:
        """Form of windows that begin at `start_us`."""
        return next(form for since, form in reversed(self.since) if start_us >= since)

    def any_windows(self) -> bool:
        """Whether windows have, or had, states of their own."""
        return any(form == WINDOWS for _, form in self.since)

    def by_panes(self, pane: Span) -> bool:
        """Whether the pane is in any window that is made of panes."""
        if len(self.since) == 1:
            return self.since[0][1] == PANES
        windows = (span for window in self.windows for span in covering(window, pane.start))
        return any(self.at(window.start) == PANES for window in windows)

    def executions(self, at_us: int) -> int:
        """Number of states for which the user's logic is executed for a record of event time `at_us`."""
        if self.panes is None or not self.windows:
            return 1
        pane = self.panes.pane(at_us)
        count = self._executions.get(pane)
        if count is None:
            starts = [span.start for window in self.windows for span in covering(window, at_us)]
            forms = [self.at(start) for start in starts]
            count = self._executions[pane] = forms.count(WINDOWS) + (1 if PANES in forms else 0)
        return count

    def modify(self, cut_us: int) -> None:
        """Lets the form that was announced for `cut_us` hold from there on."""
        form = self.to_come.get(cut_us)
        if form is not None and cut_us > self.since[-1][0]:
            self.since.append((cut_us, form))
            self._executions.clear()

    def become(self, since: list[tuple[float, str]]) -> None:
        """Replaces the forms by `since`."""
        self.since = since.copy()
        self._executions.clear()

    def come(self, sibling: Forms, cut_us: float) -> None:
        """Takes over the forms of a sibling; those announced up to the cut hold already."""
        self.since, self.to_come = sibling.since.copy(), sibling.to_come.copy()
        for at_us in sorted(self.to_come):
            if at_us <= cut_us:
                self.modify(at_us)

    def forget(self, now_us: int) -> None:
        """Drops counts of panes that end by `now_us`, to which no record comes any more."""
        assert self.panes is not None
        for pane in [pane for pane in self._executions if self.panes.bounds(pane).end <= now_us]:
            del self._executions[pane]
