"""Which instances of a window an event belongs to, and which are complete. Times are whole microseconds.

An instance is complete when its end has been reached by the watermark: the newest event time of all sources, less the
slack, by how much events may come late (Enorm, Sections 4.2 and 6.2; the paper's `t >= ts_i + s` would close a window
after its beginning, and its slack is counted twice: at the sources and at the operators. Here it is at the sources.)
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from twin.errors import BadInput
from twin.event_windows.window import EventWindow


class Span(NamedTuple):
    """[start, end): of event time in microseconds, or of panes by number."""

    start: int
    end: int

    @property
    def length(self) -> int:
        """In the unit of its ends."""
        return self.end - self.start


def instance(window: EventWindow, number: int) -> Span:
    """The instance of a number; number 0 begins at the window's start, earlier ones have negative numbers."""
    start_us = window.start_us + number * window.every_us
    return Span(start_us, start_us + window.length_us)


def covering(window: EventWindow, at_us: int) -> list[Span]:
    """All instances that an event of that time is in, the earliest first; at least one."""
    return overlapping(window, at_us, at_us)


def containing(window: EventWindow, result: Span) -> list[Span]:
    """All instances that a result over a span of time lies in wholly, the earliest first.

    The result of [0, 5) is in the instances that contain it, not in one that begins at 5.
    """
    last_us = max(result.start, result.end - 1)
    return [each for each in overlapping(window, result.start, last_us) if each.start <= result.start]


def overlapping(window: EventWindow, first_us: int, last_us: int) -> list[Span]:
    """All instances that hold the time last_us and end after first_us, so also those that begin in between."""
    first = _number_after(window, last_us - window.length_us)
    last = (last_us - window.start_us) // window.every_us
    return [found for number in range(first, last + 1) if (found := instance(window, number)).end > first_us]


def per_event(window: EventWindow) -> tuple[int, int]:
    """In how many instances an event is: the least and the most. Their mean is length / frequency."""
    least, rest = divmod(window.length_us, window.every_us)
    return least, least + (1 if rest else 0)


def watermark_us(newest_us: Iterable[int], slack_us: int = 0) -> int:
    """Up to where all events are there, given the newest event time of each source.

    Smaller times will not come, this one may. Raises BadInput for negative slack, or if there is no source.
    """
    if slack_us < 0:
        raise BadInput(f"slack must be >= 0, got {slack_us} us; 0 if events come in order")
    newest = list(newest_us)
    if not newest:
        raise BadInput("a watermark needs the newest event time of at least one source")
    return min(newest) - slack_us


def completed(window: EventWindow, before_us: int, now_us: int) -> list[Span]:
    """Instances that become complete as the watermark moves from `before_us` to `now_us`, in the order of their ends.

    One whose end is the watermark is complete: its end is exclusive. Raises BadInput if the watermark moves backwards.
    """
    if now_us < before_us:
        raise BadInput(f"a watermark cannot move backwards, from {before_us} us to {now_us} us")
    first, end = (_number_after(window, us - window.length_us) for us in (before_us, now_us))
    return [instance(window, number) for number in range(first, end)]


def is_late(at_us: int, watermark: int) -> bool:
    """Whether an event comes after the watermark said that all before it are there; it is dropped then."""
    return at_us < watermark


def _number_after(window: EventWindow, us: int) -> int:
    """The number of the first instance that begins after a time."""
    return (us - window.start_us) // window.every_us + 1
