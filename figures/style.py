"""Style of all figures: sizes, colours that survive colour-blindness and grey printing, quiet axes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from figures.svg import BLUE as BLUE
from figures.svg import GREEN as GREEN
from figures.svg import GREY as GREY
from figures.svg import ORANGE as ORANGE
from figures.svg import shortened, width_px

FONT_PT = 9

_COLOURS = (BLUE, ORANGE, GREEN, GREY, "#111111", "#a05ab4")
_MARKERS = ("o", "s", "^", "D", "v", "P")
_DASHES = ("-", "--", "-.", ":", (0, (6, 1, 1, 1)), (0, (1, 2)))
_HATCHES = ("", "///", "...", "xxx", "+++")


class SeriesStyle(NamedTuple):
    """Style of one series: no two series of a figure share all of it."""

    colour: str
    marker: str
    dashes: str | tuple[int, tuple[int, ...]]
    hatch: str


def looks(series: Iterable[str]) -> dict[str, SeriesStyle]:
    """Style of each different name, in order; repeated colours come with other markers, dashes and hatches.

    Raises ValueError if there are more than 30 series: nobody could tell them apart.
    """
    names = list(dict.fromkeys(series))
    if len(names) > len(_COLOURS) * len(_HATCHES):
        raise ValueError(f"{len(names)} series cannot be told apart; draw fewer")
    styles = {}
    for index, name in enumerate(names):
        turn, which = divmod(index, len(_COLOURS))
        other = (which + turn) % len(_COLOURS)
        styles[name] = SeriesStyle(_COLOURS[which], _MARKERS[other], _DASHES[other], _HATCHES[turn])
    return styles


def new_figure(width_in: float, height_in: float) -> tuple[Figure, Axes]:
    """Empty figure with one quiet pair of axes; no pyplot, so nothing global."""
    figure = Figure(figsize=(width_in, height_in), layout="constrained", dpi=150)
    axes = figure.subplots()
    quiet(axes)
    return figure, axes


def quiet(axes: Axes) -> None:
    """Removes decoration from axes: no box, light grid behind the data, small labels."""
    axes.spines[["top", "right"]].set_visible(False)
    axes.tick_params(labelsize=FONT_PT)
    axes.grid(visible=True, color="#dddddd", linewidth=0.6)
    axes.set_axisbelow(True)
    axes.xaxis.label.set_fontsize(FONT_PT + 1)
    axes.yaxis.label.set_fontsize(FONT_PT + 1)


def rows_where(table: Mapping[str, Sequence[Any]], **columns: Any) -> list[int]:
    """Rows of a table of columns that have these values in these columns."""
    wanted = tuple(columns.values())
    return [row for row, values in enumerate(zip(*(table[name] for name in columns), strict=True)) if values == wanted]


LABEL_PT = 210.0
"""Most points of a name beside an axis, which leaves room for what is drawn."""
INCH_PT, HANDLE, SPACE, EDGES = 72.0, 2.8, 2.0, 2.0
"""Points of an inch; and widths in a legend as shares of the font's size: of a line with its space, between columns,
and at both edges."""


def legend(
    figure: Figure,
    loc: Any,
    handles: Sequence[Any] | None = None,
    labels: Sequence[str] | None = None,
    *,
    most: int = 1,
    share: float = 1.0,
) -> None:
    """Puts a legend beside all axes, which takes at most a share of the figure's width. handles, labels: of the first
    axes by default. most: columns."""
    if handles is None or labels is None:
        handles, labels = figure.axes[0].get_legend_handles_labels()
    names, columns = arranged(labels, share * INCH_PT * figure.get_figwidth(), FONT_PT - 1, most)
    figure.legend(handles, names, fontsize=FONT_PT - 1, frameon=False, loc=loc, ncols=columns)


def arranged(names: Sequence[str], width_pt: float, size: float, most: int) -> tuple[list[str], int]:
    """Names of a legend that is no wider than `width_pt` points, with an ellipsis where they are, and the number of its
    columns, at most `most`. size: of the font."""
    named = [shortened(each, width_pt - (HANDLE + EDGES) * size, size) for each in names]
    columns = range(min(most, len(named)), 1, -1)
    return named, next((count for count in columns if _legend_pt(named, count, size) <= width_pt), 1)


def _legend_pt(names: Sequence[str], columns: int, size: float) -> float:
    """Width of a legend in points. Columns are filled one after the other, the first ones with a name more."""
    wide = [max(width_px(name, size) for name in part) for part in np.array_split(names, columns)]
    return sum(wide) + size * (columns * HANDLE + (columns - 1) * SPACE + EDGES)
