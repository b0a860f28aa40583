"""Charts of any subject: bars, lines, heat maps and distributions."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, StrMethodFormatter

from figures.style import FONT_PT, legend, looks, new_figure, rows_where

# bars ----------------------------------------------------------------------------------------------------------------
# Groups of bars, each with its value written on it: from zero, or factors on a logarithmic axis.


def bars(table: Mapping[str, Sequence[Any]], quantity: str) -> Figure:
    """Figure of bars from zero. Columns, one entry a bar: group, series (text, in order of appearance), value (>= 0).

    quantity: labels the axis.
    """
    figure, _ = _drawn(table, quantity, width_in=0.6, height_in=3.2, bottom=0.0)
    legend(figure, "outside upper left", most=2)
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
    legend(figure, "outside upper left")
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


# lines ---------------------------------------------------------------------------------------------------------------
# Figures of one quantity over another: a line a contestant, with its points.


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
    legend(figure, "outside upper left", most=2)
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


# matrices ------------------------------------------------------------------------------------------------------------
# Figure of square matrices as heat maps beside each other.


def matrices(panels: Mapping[str, np.ndarray], rows: str, columns: str, quantity: str) -> Figure:
    """Figure with one panel a title. rows, columns: label the axes; quantity: of the colours, scaled by panel."""
    figure = Figure(figsize=(3.9 * len(panels), 3.4), layout="constrained", dpi=150)
    drawn = figure.subplots(1, len(panels), squeeze=False)[0]
    for axes, (title, values) in zip(drawn, panels.items(), strict=True):
        image = axes.imshow(values, cmap="Blues", vmin=0.0)
        bar = figure.colorbar(image, ax=axes, shrink=0.8)
        bar.set_label(quantity, fontsize=FONT_PT)
        bar.ax.tick_params(labelsize=FONT_PT - 1)
        axes.set_title(title, fontsize=FONT_PT + 1)
        axes.set_xlabel(columns, fontsize=FONT_PT)
        axes.set_ylabel(rows, fontsize=FONT_PT)
        axes.set_xticks(range(values.shape[1]))
        axes.set_yticks(range(values.shape[0]))
        axes.tick_params(labelsize=FONT_PT - 1)
    return figure


# distributions -------------------------------------------------------------------------------------------------------
# Figures of cumulative distributions: of a few samples, or from profiling (BriskStream, Fig. 3).


def distributions(
    samples: Mapping[str, Sequence[float]], quantity: str, *, marked: float | None = None, log: bool = False
) -> Figure:
    """Figure with a step function for each sample. quantity: label of the axis. marked: value to draw a line at."""
    figure, axes = new_figure(5.4, 3.2)
    for name, look in looks(samples).items():
        axes.ecdf(np.asarray(samples[name], dtype=float), color=look.colour, linestyle=look.dashes, label=name)
    if marked is not None:
        axes.axvline(marked, color="#333333", linewidth=0.9, linestyle="--")
    if log:
        axes.set_xscale("log")
    axes.set_xlabel(quantity)
    axes.set_ylabel("cumulative share")
    legend(figure, "outside upper left", most=4)
    return figure


def profile_times(times_s: Mapping[str, Sequence[float]]) -> Figure:
    """Figure with a distribution for each operator. times_s: by operator, quantiles > 0 at equal steps from 0 to 1."""
    figure, axes = new_figure(5.2, 3.2)
    for number, (operator, quantiles) in enumerate(times_s.items()):
        shares = np.linspace(0.0, 1.0, len(quantiles))
        dashes = ("-", "--", ":")[number // 10 % 3]  # ten colours, then other dashes
        axes.plot(np.asarray(quantiles) * 1e9, shares, dashes, linewidth=1.4, label=operator)
    axes.set_xscale("log")
    axes.set_ylim(0.0, 1.0)
    axes.set_xlabel("execution time (ns a record, log scale)")
    axes.set_ylabel("share of records")
    legend(figure, "outside right upper", share=0.4)
    return figure
