"""Panes: the longest pieces of time of which all instances of some windows are made (Enorm, Section 6.1).

An event is in exactly one pane, however many windows overlap.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from twin.errors import BadInput
from twin.event_windows.instances import Span
from twin.event_windows.window import US_PER_S, EventWindow, microseconds


class Panes(NamedTuple):
    """Pane k is [offset + k length, offset + (k + 1) length), in microseconds."""

    length_us: int
    offset_us: int

    def pane(self, at_us: int) -> int:
        """The number of the pane that an event of that time is in."""
        return (at_us - self.offset_us) // self.length_us

    def bounds(self, pane: int) -> Span:
        """From when to when it lasts."""
        start_us = self.offset_us + pane * self.length_us
        return Span(start_us, start_us + self.length_us)

    def of(self, span: Span) -> Span:
        """The panes, by number, of which an instance is made. Raises ValueError if it does not begin and end with
        one."""
        first, end = (divmod(us - self.offset_us, self.length_us) for us in span)
        if first[1] or end[1]:
            raise ValueError(f"{span} does not begin and end with a pane of {self}")
        return Span(first[0], end[0])


def panes_of(windows: Sequence[EventWindow], partial_s: float | None = None) -> Panes:
    """The longest panes of which all instances of all windows are made, or such of `partial_s`.

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
