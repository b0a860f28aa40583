"""Picture of quantities over simulated time as lines, with events marked: small, for a grid or a phone.

Data in, SVG text out.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple

from figures.svg import BLUE, GREEN, ORANGE, element, label, picture, rectangle, shortened, text, width_px

WIDTH_PX, PLOT_PX = 390.0, 130.0
LEFT_PX, RIGHT_PX, TITLE_PX, FOOT_PX, NUMBERS_PX = 46.0, 10.0, 20.0, 22.0, 12.0
FONT_PX = 11.0
GREY, INK, GRID, MARK = "#555555", "#222222", "#e1e5ea", "#a05ab4"
COLOURS = (BLUE, ORANGE, GREEN, "#111111", MARK, "#7a7a7a")
DASHES = (None, "6 3", "2 2", "8 3 2 3", "1 3", "10 4")
"""Dashes of series: each has a colour and a dash of its own, so that it is told apart in grey."""
WIDE_PX, THIN_PX = 2.6, 1.2
"""Widths of the first line and of the last ones: lower lines are wider, so that lines on each other stay visible."""
BANDS = (0.3, 0.14)
"""Opacities of the bands between the quantiles of a panel, from the lowest ones up."""
DECADES = 1.5
"""Factors of ten in a range above which its axis is logarithmic."""


def band(number: int) -> float:
    """Opacity of the band above a quantile."""
    return BANDS[min(number, len(BANDS) - 1)]


class EventMark(NamedTuple):
    """Event in a picture. end_s: its end; None if it was a moment, or lasts. told: description."""

    at_s: float
    end_s: float | None
    told: str


class Panel(NamedTuple):
    """Content of one picture. at_s: times of the values. series: by name, a value or None at each. top: end of the
    axis.

    shares: values are shares, written in per cent. logarithmic: may have such an axis. levels: values are of moments
    rather than of periods; a line stays level up to a mark, so that no effect is drawn before its cause. nested: series
    are quantiles, the lowest first, with bands between them.
    """

    title: str
    at_s: Sequence[float]
    series: Mapping[str, Sequence[float | None]]
    marks: Sequence[EventMark] = ()
    end_s: float = 0.0
    top: float | None = None
    shares: bool = False
    logarithmic: bool = False
    levels: bool = False
    nested: bool = False


class Axis(NamedTuple):
    """Axis that converts values to pixels below the upper end. ticks: values at which lines are drawn."""

    low: float
    high: float
    ticks: Sequence[float]
    logarithmic: bool

    def pixels(self, value: float) -> float:
        """Pixels of a value below the upper end."""
        if self.logarithmic:
            value = max(value, self.low)
            share = math.log(value / self.low) / math.log(self.high / self.low)
        else:
            share = (value - self.low) / (self.high - self.low)
        return PLOT_PX * (1.0 - share)


Across = Callable[[float], float]
"""Converts simulated seconds to pixels from the left."""


def time_line(panel: Panel) -> str:
    """SVG picture. Series without any value are named all the same; marks are numbered from 1."""
    legend, lines = _legend(panel)
    top = TITLE_PX + 14.0 * lines + 6 + (NUMBERS_PX if panel.marks else 0.0)
    axis = axis_of(panel)
    end_s = max(panel.end_s, max(panel.at_s, default=0.0)) or 1.0
    width = WIDTH_PX - LEFT_PX - RIGHT_PX

    def across(at_s: float) -> float:
        return LEFT_PX + width * min(1.0, at_s / end_s)

    runs = [_runs(panel, values, axis, across, top) for values in panel.series.values()]
    drawn = [_line(runs_of, _look(panel, number)) for number, runs_of in enumerate(runs)]
    return picture(
        WIDTH_PX,
        top + PLOT_PX + FOOT_PX,
        panel.title,
        label(panel.title, 4, 13, FONT_PX + 1, font_weight="bold", fill=INK),
        legend,
        *_grid(axis, panel.shares, top, width),
        *_times(end_s, across, top),
        *(_mark(mark, across, top) for mark in panel.marks),
        *_numbers(panel.marks, across, top),
        *(_bands(runs) if panel.nested else ()),
        *(line for lines_of in drawn for line in lines_of),
    )


def axis_of(panel: Panel) -> Axis:
    """Axis of a panel, from 0 up, or logarithmic if values differ much and all are above 0."""
    values = [each for line in panel.series.values() for each in line if each is not None]
    high = panel.top or max(values, default=0.0) or 1.0
    low = min(values, default=0.0)
    if panel.logarithmic and low > 0.0 and math.log10(high / low) > DECADES:
        first, last = math.floor(math.log10(low)), math.ceil(math.log10(high))
        step = max(1, (last - first) // 4)
        return Axis(10.0**first, 10.0**last, [10.0**each for each in range(first, last + 1, step)], True)
    ticks = nice(high)
    if panel.top is None and high > ticks[-1]:  # so that no line ends between the highest tick and the edge
        ticks = [*ticks, ticks[-1] + ticks[1]]
    return Axis(0.0, max(high, ticks[-1]), ticks, False)


def nice(high: float, about: int = 4) -> list[float]:
    """Round numbers, about so many, from 0 up to at most a step below `high` > 0."""
    rough = high / about
    scale = 10.0 ** math.floor(math.log10(rough))
    step = next(each * scale for each in (1, 2, 2.5, 5, 10) if each * scale >= rough * 0.999)
    return [step * number for number in range(math.floor(high / step + 1e-9) + 1)]


def short(value: float, shares: bool = False) -> str:
    """Label of a tick in a few characters."""
    if shares:
        return f"{100 * value:g} %"
    for factor, letter in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= factor:
            return f"{value / factor:.3g} {letter}"
    return f"{value:.3g}"


def points(panel: Panel, values: Sequence[float | None]) -> Iterator[tuple[float, float | None]]:
    """Points (time, value) of a series that lines join; None for a gap."""
    last_s, last = math.inf, None
    for at_s, value in zip(panel.at_s, values, strict=True):
        if panel.levels and value is not None and last is not None:
            yield from ((mark.at_s, last) for mark in panel.marks if last_s < mark.at_s < at_s)
        yield at_s, value
        last_s, last = at_s, value


def _runs(panel: Panel, values: Sequence[float | None], axis: Axis, across: Across, top: float) -> list[list[str]]:
    """Points of a series in pixels, in runs without gaps."""
    runs: list[list[str]] = [[]]
    for time_s, value in points(panel, values):
        if value is None:
            runs.append([])
        else:
            runs[-1].append(f"{across(time_s):.1f},{top + axis.pixels(value):.1f}")
    return [run for run in runs if run]


class _Look(NamedTuple):
    """Look of a line. band: opacity of the band below it; 0: none."""

    colour: str
    dash: str | None
    wide: float
    band: float = 0.0


def _look(panel: Panel, number: int) -> _Look:
    """Look of a series: by colour and dash, or, of nested ones, by the band below it."""
    if panel.nested:
        below = band(number - 1) if number else 0.0
        return _Look(BLUE, None, THIN_PX if number else WIDE_PX - 0.6, below)
    wide = max(THIN_PX, WIDE_PX - 0.6 * number)
    return _Look(COLOURS[number % len(COLOURS)], DASHES[number % len(DASHES)], wide)


def _bands(runs: Sequence[Sequence[Sequence[str]]]) -> Iterator[str]:
    """Shades the room between each series and the next one, which have the same gaps."""
    for number, (lower, upper) in enumerate(pairwise(runs)):
        for below, above in zip(lower, upper, strict=True):
            outline = " ".join([*below, *reversed(above)])
            yield element("polygon", points=outline, fill=BLUE, opacity=band(number))


def _line(runs: Sequence[Sequence[str]], look: _Look) -> list[str]:
    stroke = {"fill": "none", "stroke": look.colour, "stroke_width": look.wide, "stroke_dasharray": look.dash}
    lines = []
    for run in runs:
        if len(run) == 1:
            x, y = run[0].split(",")
            lines.append(element("circle", cx=x, cy=y, r=1.1 * look.wide, fill=look.colour))
        else:
            lines.append(element("polyline", points=" ".join(run), **stroke))
    return lines


def _legend(panel: Panel) -> tuple[str, int]:
    """Legend: names with their lines, in as many rows as they need; and the number of rows."""
    parts, x, row = [], 4.0, 0
    for number, name in enumerate(panel.series):
        words = shortened(name, 150, FONT_PX)
        width = 24 + width_px(words, FONT_PX) + 8
        if x > 4 and x + width > WIDTH_PX:
            x, row = 4.0, row + 1
        y = TITLE_PX + 14 * row + 8
        look = _look(panel, number)
        line = {"stroke": look.colour, "stroke_width": 1.2 if look.band else 2.2, "stroke_dasharray": look.dash}
        parts.append(element("path", d=f"M{x:.0f} {y - (8 if look.band else 3):.0f}h18", **line))
        if look.band:
            parts.append(rectangle(x, y - 8, 18, 9, fill=look.colour, opacity=look.band))
        parts.append(label(words, x + 22, y, FONT_PX, fill=GREY))
        x += width
    return element("g", *parts), row + 1


def _grid(axis: Axis, shares: bool, top: float, width: float) -> Iterator[str]:
    for tick in axis.ticks:
        y = top + axis.pixels(tick)
        yield element("path", d=f"M{LEFT_PX:.0f} {y:.1f}h{width:.0f}", stroke=GRID, stroke_width=1)
        yield label(short(tick, shares), LEFT_PX - 4, y + 4, FONT_PX - 1, fill=GREY, text_anchor="end")


def _times(end_s: float, across: Across, top: float) -> Iterator[str]:
    ticks = nice(end_s)
    for tick in ticks:
        last = tick == ticks[-1]
        words = f"{tick:g} s" if last else f"{tick:g}"
        near_edge = across(tick) > WIDTH_PX - RIGHT_PX - 15
        anchor = "end" if near_edge else "middle"
        x = WIDTH_PX - 2 if near_edge else across(tick)
        yield label(words, x, top + PLOT_PX + 15, FONT_PX - 1, fill=GREY, text_anchor=anchor)


def _mark(mark: EventMark, across: Across, top: float) -> str:
    x = across(mark.at_s)
    line = element("path", d=f"M{x:.1f} {top:.0f}v{PLOT_PX:.0f}", stroke=MARK, stroke_width=1, stroke_dasharray="3 2")
    wide = across(mark.end_s) - x if mark.end_s is not None else 0.0
    shade = [rectangle(x, top, wide, PLOT_PX, fill=MARK, opacity=0.12)] if wide >= 0.5 else []
    return element("g", element("title", text(mark.told)), *shade, line)


def _numbers(marks: Sequence[EventMark], across: Across, top: float) -> Iterator[str]:
    """Numbers above the marks, for a list of events; of marks that are too close, the first has its number."""
    free = 0.0
    for number, mark in enumerate(marks, 1):
        x = min(max(across(mark.at_s), LEFT_PX), WIDTH_PX - 8)
        half = 0.5 * width_px(str(number), FONT_PX)
        if x - half >= free:
            yield label(str(number), x, top - 3, FONT_PX - 1, fill=MARK, text_anchor="middle", font_weight="bold")
            free = x + half + 2
