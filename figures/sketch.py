"""Small picture of a query: a dot an operator, from left to right in the direction of the data. Data in, SVG text out.

It has no words, as it stands beside a name: the shape tells a line of operators from a join or a fan.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from figures.svg import element, heat, picture

SIZE_PX = (160.0, 64.0)
PAD_PX, LEAST_PX, MOST_PX = 9.0, 1.5, 6.5
"""Space around the dots, and radius of the smallest and of the largest dots."""
LINE, EDGE = "#8795a8", "#51606f"


class Dot(NamedTuple):
    """Operator. column: from the left. busy: share of time, which gives its colour; None if not known."""

    column: int
    busy: float | None = None


class Sketch(NamedTuple):
    """Content of the picture. title: in words. dots: those of earlier columns first. streams: pairs of dots, by number,
    from producer to consumer."""

    title: str
    dots: Sequence[Dot]
    streams: Sequence[tuple[int, int]]


def sketch(drawn: Sketch) -> str:
    """SVG picture of SIZE_PX, however many operators there are."""
    places, radius = _places(drawn)
    lines = (_line(places[start], places[end]) for start, end in drawn.streams)
    dots = (
        element("circle", cx=x, cy=y, r=radius, fill=heat(dot.busy).fill, stroke=EDGE, stroke_width=1.2)
        for (x, y), dot in zip(places, drawn.dots, strict=True)
    )
    return picture(*SIZE_PX, drawn.title, *lines, *dots)


def _places(drawn: Sketch) -> tuple[list[tuple[float, float]], float]:
    """Middle of each dot, and the radius of all. Dots of a column are ordered by where their producers are, so that
    fewer lines cross."""
    count = 1 + max((dot.column for dot in drawn.dots), default=0)
    columns = [[number for number, dot in enumerate(drawn.dots) if dot.column == at] for at in range(count)]
    width, height = (each - 2 * PAD_PX for each in SIZE_PX)
    y = [SIZE_PX[1] / 2] * len(drawn.dots)
    for members in columns:
        above = {one: [y[start] for start, end in drawn.streams if end == one] for one in members}
        members.sort(key=lambda one, above=above: sum(above[one]) / len(above[one]) if above[one] else 0.0)  # type: ignore[misc]
        for row, one in enumerate(members):
            y[one] = PAD_PX + height * (row + 0.5) / len(members)
    x = [PAD_PX + width * (dot.column / (count - 1) if count > 1 else 0.5) for dot in drawn.dots]
    room = min(height / max(1, *map(len, columns)), width / count)
    return list(zip(x, y, strict=True)), min(MOST_PX, max(LEAST_PX, 0.36 * room))


def _line(start: tuple[float, float], end: tuple[float, float]) -> str:
    (x1, y1), (x2, y2) = start, end
    bend = (x2 - x1) / 2
    path = f"M{x1:.1f} {y1:.1f}C{x1 + bend:.1f} {y1:.1f} {x2 - bend:.1f} {y2:.1f} {x2:.1f} {y2:.1f}"
    return element("path", d=path, fill="none", stroke=LINE, stroke_width=1.4)
