"""Windows: sets of records that an operator evaluates together; panes, and complete windows formed from these."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Literal, NamedTuple, Self

from pydantic import AfterValidator, Field, model_validator

from twin.errors import BadInput
from twin.spec import Spec

# windows -------------------------------------------------------------------------------------------------------------
# Windows: sets of records that an operator evaluates together. In processing time, by count, or over event time.


US_PER_S = 1_000_000


def _whole_microseconds(seconds: float) -> float:
    if abs(seconds * US_PER_S - round(seconds * US_PER_S)) > 1e-3:
        raise ValueError(f"must be a whole number of microseconds, got {seconds!r} s; round it")
    return seconds


Seconds = Annotated[float, Field(ge=1e-6, le=10**9), AfterValidator(_whole_microseconds)]
Offset = Annotated[float, Field(ge=-(10**9), le=10**9), AfterValidator(_whole_microseconds)]


def microseconds(seconds: float) -> int:
    """Nearest whole number of microseconds."""
    return round(seconds * US_PER_S)


TimeOf = Literal["processing", "event"]
"""Time by which records count: that of the subtask which processes them, or their own."""


class CountWindow(Spec):
    """Window of the last `size_records` records of all inputs together, evaluated every `slide_records` records."""

    policy: Literal["count"] = "count"
    size_records: Annotated[int, Field(gt=0, le=10**9)]
    slide_records: Annotated[int | None, Field(gt=0, description="absent: tumbling, slide = size")] = None

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.slide_records is not None and self.slide_records > self.size_records:
            raise ValueError(f"slide_records must be <= size_records ({self.size_records}), got {self.slide_records}")
        return self

    @property
    def size(self) -> float:
        """Size in the window's own unit: records."""
        return self.size_records

    @property
    def slide(self) -> float:
        """Slide in the window's own unit: records."""
        return self.size_records if self.slide_records is None else self.slide_records

    @property
    def tumbling(self) -> bool:
        """Whether windows do not overlap."""
        return self.slide == self.size


class EventWindow(Spec):
    """Window over event time, with instances [start + k every, start + k every + length) for all whole k; ends are
    exclusive.

    It is tumbling if instances abut, and overlapping if they begin more often. Windows with gaps between instances,
    which some systems call hopping, are refused: records in a gap would be in no window.
    """

    length_s: Seconds
    every_s: Annotated[Seconds | None, Field(description="absent: tumbling, every = length")] = None
    start_s: Offset = 0.0

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.every_s is not None and self.every_s > self.length_s:
            raise ValueError(
                f"every_s must be <= length_s ({self.length_s:g}), got {self.every_s:g}; "
                "events between two instances would be in none"
            )
        return self

    @property
    def length_us(self) -> int:
        """Length of every instance in microseconds."""
        return microseconds(self.length_s)

    @property
    def every_us(self) -> int:
        """Microseconds from the beginning of an instance to that of the next."""
        return self.length_us if self.every_s is None else microseconds(self.every_s)

    @property
    def slide_s(self) -> float:
        """Seconds from the beginning of an instance to that of the next."""
        return self.every_us / US_PER_S

    @property
    def start_us(self) -> int:
        """Beginning of one of the instances, in microseconds."""
        return microseconds(self.start_s)

    @property
    def tumbling(self) -> bool:
        """Whether instances do not overlap."""
        return self.every_us == self.length_us


class TimeWindow(Spec):
    """Window of `size_s` seconds, evaluated every `slide_s` seconds.

    Over processing time it holds the records that were processed within its seconds. Over event time, those whose own
    times lie within; it is evaluated when the watermark reaches its end. A record that comes later is late. Within
    `allowed_lateness_s` of event time it still counts, and each window that was evaluated before is evaluated again for
    its key (Flink's allowed lateness).
    """

    policy: Literal["time"] = "time"
    size_s: Annotated[float, Field(ge=1e-6, le=10**9)]
    slide_s: Annotated[float | None, Field(ge=1e-6, description="absent: tumbling, slide = size")] = None
    time: Annotated[
        TimeOf, Field(exclude_if=lambda time: time == "processing", description="by which records are in a window")
    ] = "processing"
    offset_s: Annotated[
        Offset, Field(exclude_if=lambda offset_s: not offset_s, description="event time at which a window begins")
    ] = 0.0
    allowed_lateness_s: Annotated[
        float,
        Field(ge=0, le=10**9, exclude_if=lambda late_s: not late_s, description="for which a late record counts"),
        AfterValidator(_whole_microseconds),
    ] = 0.0

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.slide_s is not None and self.slide_s > self.size_s:
            raise ValueError(f"slide_s must be <= size_s ({self.size_s}), got {self.slide_s}")
        for name in () if self.time == "event" else ("offset_s", "allowed_lateness_s"):
            if getattr(self, name):
                raise ValueError(f"{name} is about event time; add time: event, or leave {name} out")
        if self.time == "event":
            for name, seconds in (("size_s", self.size_s), ("slide_s", self.slide)):
                try:
                    _whole_microseconds(seconds)
                except ValueError as error:
                    raise ValueError(f"{name} {error}") from None
        return self

    @property
    def size(self) -> float:
        """Size in the window's own unit: seconds."""
        return self.size_s

    @property
    def slide(self) -> float:
        """Slide in the window's own unit: seconds."""
        return self.size_s if self.slide_s is None else self.slide_s

    @property
    def tumbling(self) -> bool:
        """Whether windows do not overlap."""
        return self.slide == self.size

    @property
    def event(self) -> EventWindow | None:
        """The window over event time; None if it is over processing time."""
        if self.time == "processing":
            return None
        return EventWindow(length_s=self.size_s, every_s=self.slide_s, start_s=self.offset_s)


Window = Annotated[CountWindow | TimeWindow, Field(discriminator="policy")]

WindowState = Literal["records", "accumulators", "slices"]
"""What windows of an aggregate hold: all records; or an accumulator for each key and open window, to which records are
added as they come; or one for each key and slice, where windows that overlap share their slices."""
Holds = Literal["records", "copies", "accumulators", "slices"]
"""The same as an engine does it. Copies: each record in each open window, where windows do not share them."""


def slice_of(window: CountWindow | TimeWindow) -> float:
    """Length of the slices that windows share, in seconds or records: the longest of which both size and slide are
    whole multiples, to a microsecond."""
    if isinstance(window, CountWindow):
        return float(math.gcd(window.size_records, round(window.slide)))
    return math.gcd(microseconds(window.size_s), microseconds(window.slide)) / US_PER_S


# panes ---------------------------------------------------------------------------------------------------------------
# Instances of windows over event time, and the panes that they are made of. Times are whole microseconds.
#
# An instance is complete when its end has been reached by the watermark: the newest event time of all sources, less
# the slack, by how much events may come late (Enorm, Sections 4.2 and 6.2; the paper's `t >= ts_i + s` would close a
# window after its beginning, and its slack is counted twice: at the sources and at the operators. Here it is at the
# sources.) Panes are the longest pieces of which all instances are made (Section 6.1): an event is in exactly one
# pane.


class Span(NamedTuple):
    """Half-open interval [start, end): of event time in microseconds, or of panes by number."""

    start: int
    end: int

    @property
    def length(self) -> int:
        """Length of the span, in the unit of its ends."""
        return self.end - self.start


def instance(window: EventWindow, number: int) -> Span:
    """Instance of a window by its number; number 0 begins at the window's start, earlier ones have negative numbers."""
    start_us = window.start_us + number * window.every_us
    return Span(start_us, start_us + window.length_us)


def covering(window: EventWindow, at_us: int) -> list[Span]:
    """All instances that an event of that time is in, the earliest first; at least one."""
    return [instance(window, number) for number in instances_with(window, at_us)]


def last_end(windows: Iterable[EventWindow], at_us: int) -> int:
    """End of the last instance of any of the windows that an event of that time is in, in microseconds."""
    return max([instance(window, _number_after(window, at_us) - 1).end for window in windows])


def instances_with(window: EventWindow, at_us: int, since_us: float = -math.inf) -> range:
    """Numbers of the instances that an event of that time is in, of those alone that end after `since_us`."""
    first = _number_after(window, int(max(at_us, since_us)) - window.length_us)
    return range(first, _number_after(window, at_us))


def watermark_us(newest_us: Iterable[int], slack_us: int = 0) -> int:
    """Watermark in microseconds, given the newest event time of each source: no event with a smaller time will come.

    One with the watermark's own time may come. Raises BadInput for negative slack, or if there is no source.
    """
    if slack_us < 0:
        raise BadInput(f"slack must be >= 0, got {slack_us} us; 0 if events come in order")
    newest = list(newest_us)
    if not newest:
        raise BadInput("a watermark needs the newest event time of at least one source")
    return min(newest) - slack_us


def completed(window: EventWindow, before_us: int, now_us: int, held_us: Collection[int] | None = None) -> list[Span]:
    """Instances that become complete as the watermark moves from `before_us` to `now_us`, in the order of their ends.

    An instance whose end is the watermark is complete: its end is exclusive. held_us: event times of all that is held;
    if these are fewer than the instances, only those with one of them are listed, as there may be millions of empty
    ones. Raises BadInput if the watermark moves backwards.
    """
    if now_us < before_us:
        raise BadInput(f"a watermark cannot move backwards, from {before_us} us to {now_us} us")
    first, end = (_number_after(window, us - window.length_us) for us in (before_us, now_us))
    numbers: Sequence[int] = range(first, end)
    if held_us is not None and len(held_us) < len(numbers):
        found = (instances_with(window, at_us) for at_us in held_us)
        numbers = sorted({number for each in found for number in range(max(first, each.start), min(end, each.stop))})
    return [instance(window, number) for number in numbers]


def _number_after(window: EventWindow, us: int) -> int:
    """Number of the first instance that begins after a time."""
    return (us - window.start_us) // window.every_us + 1


class Panes(NamedTuple):
    """Division of event time: pane k is [offset + k length, offset + (k + 1) length), in microseconds."""

    length_us: int
    offset_us: int

    def pane(self, at_us: int) -> int:
        """Number of the pane that an event of that time is in."""
        return (at_us - self.offset_us) // self.length_us

    def bounds(self, pane: int) -> Span:
        """Beginning and end of a pane, in microseconds."""
        start_us = self.offset_us + pane * self.length_us
        return Span(start_us, start_us + self.length_us)

    def of(self, span: Span) -> Span:
        """Panes of an instance, by number. Raises ValueError if the instance does not begin and end with one."""
        first, end = (divmod(us - self.offset_us, self.length_us) for us in span)
        if first[1] or end[1]:
            raise ValueError(f"{span} does not begin and end with a pane of {self}")
        return Span(first[0], end[0])


def panes_of(windows: Sequence[EventWindow], partial_s: float | None = None) -> Panes:
    """Longest panes that make up all instances of all windows, or panes of `partial_s`.

    Their length is the greatest common divisor of all lengths, frequencies and distances between starts. Raises
    BadInput without windows, or if instances cannot be made of panes of `partial_s`.
    """
    if not windows:
        raise BadInput("panes need at least one window")
    apart = (window.start_us - windows[0].start_us for window in windows)
    longest = math.gcd(*apart, *(us for window in windows for us in (window.length_us, window.every_us)))
    length_us = longest if partial_s is None else microseconds(partial_s)
    if length_us < 1 or longest % length_us:
        raise BadInput(
            f"partial windows of {partial_s:g} s do not make up all windows; "
            f"take {longest / US_PER_S:g} s or a divisor of it"
        )
    return Panes(length_us, windows[0].start_us % length_us)


def ending(windows: Sequence[EventWindow], panes: Panes, pane: int) -> list[Span]:
    """All instances, as panes, that end where a pane begins; each once, the shortest first."""
    end_us = panes.bounds(pane).start
    lengths = {
        window.length_us for window in windows if (end_us - window.length_us - window.start_us) % window.every_us == 0
    }
    return [panes.of(Span(end_us - length_us, end_us)) for length_us in sorted(lengths)]


# forming complete windows --------------------------------------------------------------------------------------------
# Cheapest way to form complete windows from partial ones and from shorter complete ones (Enorm, Section 6.1).
#
# All windows that end together are formed in one pass backwards over the pieces that there are, a shortest path from
# the end of time to each beginning. A window that has just been formed is a piece of the longer ones. As each must be
# formed anyway, the cheapest way for each is the cheapest for all.
#
# Pieces are put together without gap or overlap, as sums need it. A maximum could also be taken of pieces that
# overlap, a sum from a longer window less the rest of it; neither is considered.


Keys = Callable[[Span], float]
"""Function that gives the keys in the result over a span, the cost to merge that result into another."""


@dataclass(frozen=True, slots=True)
class Formation:
    """Complete window and the pieces it is made of, in order of time. keys: of all pieces together."""

    window: Span
    pieces: tuple[Span, ...]
    keys: float


def one_each(_span: Span) -> float:
    """Cost of 1 for every piece, with which the number of merged pieces is least."""
    return 1.0


def form(due: Collection[Span], ends: Mapping[int, Iterable[int]], keys: Keys = one_each) -> list[Formation]:
    """Cheapest formation of each window in `due`, the shortest first; they all end at the same time.

    ends: the pieces at hand, by beginning; those that end later are ignored. Of equally cheap ways, the one with fewer
    pieces is taken. Raises BadInput if windows do not end together, or one is not made of whole pieces.
    """
    if not due:
        return []
    end, *others = {span.end for span in due}
    if others:
        raise BadInput(f"windows that end at {sorted([end, *others])} cannot be formed together; form them one by one")
    cost: dict[int, tuple[float, int]] = {end: (0.0, 0)}
    step: dict[int, int] = {}
    wanted, found = {span.start for span in due}, list[Formation]()
    first = min(wanted)
    for start in range(end - 1, first - 1, -1):
        ways = [
            (onwards[0] + keys(Span(start, stop)), onwards[1] + 1, stop)
            for stop in ends.get(start, ())
            if (onwards := cost.get(stop)) is not None
        ]
        if ways:
            least, pieces, step[start] = min(ways)
            cost[start] = least, pieces
        if start in wanted:
            if start not in cost:
                raise BadInput(f"the window [{start}, {end}) is not made of whole pieces; add windows that tile it")
            found.append(Formation(Span(start, end), _path(step, start, end), cost[start][0]))
            if start > first and (whole := (keys(Span(start, end)), 1)) < cost[start]:
                cost[start], step[start] = whole, end
    return found


def _path(step: Mapping[int, int], start: int, end: int) -> tuple[Span, ...]:
    pieces = []
    while start < end:
        pieces.append(Span(start, step[start]))
        start = step[start]
    return tuple(pieces)


def formations(
    due_at: Callable[[int], Sequence[Span]], first: int, last: int, longest: int, keys: Keys = one_each
) -> Iterator[Formation]:
    """Formations of all windows that lie in the panes [first, last), in the order of time.

    due_at: windows that end where a pane begins. longest: panes of the longest of them; pieces are kept for so long.
    """
    ends: defaultdict[int, list[int]] = defaultdict(list)
    for pane in range(first, last):
        ends[pane].append(pane + 1)
        found = form([span for span in due_at(pane + 1) if span.start >= first], ends, keys)
        for formation in found:
            if formation.window.length > 1:
                ends[formation.window.start].append(formation.window.end)
            yield formation
        ends.pop(pane + 1 - longest, None)


def naive(formation: Formation) -> int:
    """Number of partial results in the window if it is made of panes alone (Enorm, Fig. 8)."""
    return formation.window.length


def expected_keys(keys: float, events_per_pane: float) -> Keys:
    """Expected number of different keys, by span of panes: G (1 - exp(-n / G)) of G keys in n Poisson events.

    It is not drawn, as drawn numbers could make a window hold fewer keys than a part of it. Raises BadInput without
    keys, or for a negative number of events.
    """
    if not 0.0 < keys < math.inf:
        raise BadInput(f"keys must be > 0, got {keys}")
    if not 0.0 <= events_per_pane < math.inf:
        raise BadInput(f"events_per_pane must be >= 0, got {events_per_pane}")
    return lambda span: -keys * math.expm1(-events_per_pane * span.length / keys)
