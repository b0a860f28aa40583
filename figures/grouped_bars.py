"""A few numbers beside each other: a group of bars a case, a bar a contestant, each with its value written on it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from figures.style import FONT_PT, looks, new_figure


def grouped_bars(table: Mapping[str, Sequence[Any]], quantity: str) -> Figure:
    """Bars on a logarithmic axis that starts at 1, because the quantity is a factor such as a q-error.

    Columns, one entry a bar: group, series (text, each in order of appearance; a line break in a group is
    one on the axis), value (>= 1, or NaN for none). quantity: labels the axis.
    """
    groups, series = (list(dict.fromkeys(table[name])) for name in ("group", "series"))
    width = 0.8 / len(series)
    figure, axes = new_figure(1.4 + 0.75 * len(groups) * len(series), 3.4)
    for s, (name, look) in enumerate(looks(series).items()):
        rows = [i for i, each in enumerate(table["series"]) if each == name]
        where = np.array([groups.index(table["group"][i]) for i in rows]) + (s - (len(series) - 1) / 2) * width
        values = np.array([table["value"][i] for i in rows], dtype=float)
        there = np.isfinite(values)
        bars = axes.bar(
            where[there], values[there] - 1, width * 0.92, bottom=1.0, color=look.colour, hatch=look.hatch, label=name
        )
        axes.bar_label(bars, [f"{value:.3g}" for value in values[there]], fontsize=FONT_PT - 1, padding=2)
    axes.set_yscale("log")
    axes.set_ylim(1.0, max(1.1, float(np.nanmax(np.asarray(table["value"], dtype=float)))) ** 1.15)
    axes.set_xticks(range(len(groups)), groups)
    axes.yaxis.set_major_formatter(lambda value, _: f"{value:g}")
    axes.yaxis.set_minor_formatter(lambda value, _: f"{value:g}" if f"{value:.0e}"[0] in "1235" else "")
    axes.tick_params(which="minor", labelsize=FONT_PT - 1)
    axes.grid(visible=False, axis="x")
    axes.set_ylabel(quantity)
    figure.legend(fontsize=FONT_PT - 1, frameon=False, loc="outside upper left")
    return figure
