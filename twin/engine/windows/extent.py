"""How long a window is and how often it is evaluated."""

from __future__ import annotations

from dataclasses import dataclass

from twin.windows import TimeWindow, Window


@dataclass(frozen=True, slots=True)
class Extent:
    """Positions are times in seconds if `by_time`, else they count tuples."""

    size: float
    slide: float
    by_time: bool


def extent_of(window: Window) -> Extent:
    """That of a window."""
    return Extent(float(window.size), float(window.slide), isinstance(window, TimeWindow))
