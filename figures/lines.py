"""How something grows with something else: a line a contestant, with its points."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, StrMethodFormatter

from figures.style import FONT_PT, looks, new_figure

MARKED = 15
"""Ticks of the horizontal axis, at most."""


def lines(table: Mapping[str, Sequence[Any]], horizontal: str, vertical: str, *, logarithmic: bool = False) -> Figure:
    """From 0 upwards, or with a logarithmic vertical axis.

    Columns, one entry a point: series (text, in order of appearance), x, y (numbers). horizontal,
    vertical: label the axes; each x is marked, or every so many beyond MARKED.
    """
    figure, axes = new_figure(5.2, 3.2)
    for name, look in looks(table["series"]).items():
        rows = [row for row, each in enumerate(table["series"]) if each == name]
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
