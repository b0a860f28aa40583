"""Instances of windows over event time, and the panes that they are made of. Times are whole microseconds.

An instance is complete when its end has been reached by the watermark: the newest event time of all sources, less the
slack, by how much events may come late (Enorm, Sections 4.2 and 6.2; the paper's `t >= ts_i + s` would close a window
after its beginning, and its slack is counted twice: at the sources and at the operators. Here it is at the sources.)
Panes are the longest pieces of which all instances are made (Section 6.1): an event is in exactly one pane.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from twin.errors import BadInput
from twin.windows import US_PER_S, EventWindow, microseconds


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
    first, end = _number_after(window, at_us - window.length_us), _number_after(window, at_us)
    return [instance(window, number) for number in range(first, end)]


def last_end(windows: Iterable[EventWindow], at_us: int) -> int:
    """End of the last instance of any of the windows that an event of that time is in, in microseconds."""
    return max(covering(window, at_us)[-1].end for window in windows)


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


def completed(window: EventWindow, before_us: int, now_us: int) -> list[Span]:
    """Instances that become complete as the watermark moves from `before_us` to `now_us`, in the order of their ends.

    An instance whose end is the watermark is complete: its end is exclusive. Raises BadInput if the watermark moves
    backwards.
    """
    if now_us < before_us:
        raise BadInput(f"a watermark cannot move backwards, from {before_us} us to {now_us} us")
    first, end = (_number_after(window, us - window.length_us) for us in (before_us, now_us))
    return [instance(window, number) for number in range(first, end)]


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
