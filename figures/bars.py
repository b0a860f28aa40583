"""Groups of bars, each with its value written on it: from zero, or factors on a logarithmic axis."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from figures.style import FONT_PT, looks, new_figure, rows_where


def bars(table: Mapping[str, Sequence[Any]], quantity: str) -> Figure:
    """Figure of bars from zero. Columns, one entry a bar: group, series (text, in order of appearance), value (>= 0).

    quantity: labels the axis.
    """
    figure, _ = _drawn(table, quantity, width_in=0.6, height_in=3.2, bottom=0.0)
    figure.legend(fontsize=FONT_PT - 1, frameon=False, loc="outside upper left", ncols=2)
    return figure


def grouped_bars(table: Mapping[str, Sequence[Any]], quantity: str) -> Figure:
    """Figure of bars on a logarithmic axis that starts at 1, because the quantity is a factor such as a q-error.

    Columns, one entry a bar: group, series (text, each in order of appearance; a line break in a group is
    one on the axis), value (>= 1, or NaN for none). quantity: labels the axis.
    """
    figure, axes = _drawn(table, quantity, width_in=0.75, height_in=3.4, bottom=1.0)
    axes.set_yscale("log")
    axes.set_ylim(1.0, max(1.1, float(np.nanmax(np.asarray(table["value"], dtype=float)))) ** 1.15)
    axes.yaxis.set_major_formatter(lambda value, _: f"{value:g}")
    axes.yaxis.set_minor_formatter(lambda value, _: f"{value:g}" if f"{value:.0e}"[0] in "1235" else "")
    axes.tick_params(which="minor", labelsize=FONT_PT - 1)
    figure.legend(fontsize=FONT_PT - 1, frameon=False, loc="outside upper left")
    return figure


def _drawn(
    table: Mapping[str, Sequence[Any]], quantity: str, *, width_in: float, height_in: float, bottom: float
) -> tuple[Figure, Axes]:
    """Bars from `bottom` up, each `width_in` wide; those without a value are left out."""
    groups, series = (list(dict.fromkeys(table[name])) for name in ("group", "series"))
    figure, axes = new_figure(1.4 + width_in * len(groups) * len(series), height_in)
    width = 0.8 / len(series)
    for number, (name, look) in enumerate(looks(series).items()):
        rows = rows_where(table, series=name)
        shift = (number - (len(series) - 1) / 2) * width
        where = np.array([groups.index(table["group"][row]) for row in rows]) + shift
        values = np.array([table["value"][row] for row in rows], dtype=float)
        there = np.isfinite(values)
        look_of: dict[str, Any] = {"color": look.colour, "hatch": look.hatch, "label": name}
        drawn = axes.bar(where[there], values[there] - bottom, width * 0.92, bottom=bottom, **look_of)
        axes.bar_label(drawn, [f"{value:.3g}" for value in values[there]], fontsize=FONT_PT - 1, padding=2)
    axes.set_xticks(range(len(groups)), groups)
    axes.grid(visible=False, axis="x")
    axes.set_ylabel(quantity)
    return figure, axes
