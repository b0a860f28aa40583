"""Figures of one quantity over another: a line a contestant, with its points."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, StrMethodFormatter

from figures.style import FONT_PT, looks, new_figure, rows_where

MARKED = 15
"""Most ticks of the horizontal axis."""


def lines(table: Mapping[str, Sequence[Any]], horizontal: str, vertical: str, *, logarithmic: bool = False) -> Figure:
    """Figure of lines from 0 upwards, or with a logarithmic vertical axis.

    Columns, one entry a point: series (text, in order of appearance), x, y (numbers). horizontal,
    vertical: label the axes; each x is marked, or every so many beyond MARKED.
    """
    figure, axes = new_figure(5.2, 3.2)
    for name, look in looks(table["series"]).items():
        rows = rows_where(table, series=name)
        points = sorted((table["x"][row], table["y"][row]) for row in rows)
        axes.plot(
            *zip(*points, strict=True), color=look.colour, marker=look.marker, markersize=4, linewidth=1.4, label=name
        )
    if logarithmic:
        axes.set_yscale("log")
        axes.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))  # an axis of one decade has labels, too
        axes.yaxis.set_major_formatter(StrMethodFormatter("{x:g}"))
    else:
        axes.set_ylim(bottom=0)
    marked = sorted(set(table["x"]))
    marked = marked[:: math.ceil(len(marked) / MARKED)]
    axes.set_xticks(marked, [f"{value:g}" for value in marked])
    axes.minorticks_off()
    axes.set_xlabel(horizontal)
    axes.set_ylabel(vertical)
    figure.legend(fontsize=FONT_PT - 1, frameon=False, loc="outside upper left", ncols=2)
    return figure


def scalability(table: Mapping[str, Sequence[Any]]) -> Figure:
    """Figure of speed-ups over the number of sockets: a line a series, and the linear one in grey.

    Columns, one entry a point: series (text), sockets, speed_up (against one socket).
    """
    figure, axes = new_figure(4.4, 3.2)
    sockets = sorted(set(table["sockets"]))
    axes.plot(sockets, sockets, color="#bbbbbb", linewidth=1.0, label="linear")
    for name, look in looks(table["series"]).items():
        rows = rows_where(table, series=name)
        x, y = ([table[key][row] for row in rows] for key in ("sockets", "speed_up"))
        style: dict[str, Any] = {"color": look.colour, "marker": look.marker, "linestyle": look.dashes}
        axes.plot(x, y, **style, linewidth=1.4, markersize=4, label=name)
    axes.set_xticks(sockets)
    axes.set_ylim(bottom=0.0)
    axes.set_xlabel("sockets")
    axes.set_ylabel("simulated throughput, 1 = one socket")
    axes.legend(fontsize=FONT_PT - 1, frameon=False)
    return figure
