"""Charts of any subject: bars, lines, heat maps and distributions; and times of a record, and means over theory."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, StrMethodFormatter

from figures.style import BLUE, FONT_PT, GREY, ORANGE, legend, looks, new_figure, quiet, rows_where

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


NARROW = 3.0
"""Ratio of the ends of samples up to which an axis stays linear: a logarithmic one would have no power of ten in it and
label each tick with one."""


def distributions(
    samples: Mapping[str, Sequence[float]], quantity: str, *, marked: float | None = None, log: bool = False
) -> Figure:
    """Figure with a step function for each sample. quantity: label of the axis. marked: value to draw a line at. log:
    on a logarithmic axis, unless values lie close together."""
    figure, axes = new_figure(5.4, 3.2)
    for name, look in looks(samples).items():
        axes.ecdf(np.asarray(samples[name], dtype=float), color=look.colour, linestyle=look.dashes, label=name)
    if marked is not None:
        axes.axvline(marked, color="#333333", linewidth=0.9, linestyle="--")
    known = [each for values in samples.values() for each in values]
    if log and max(known) > NARROW * min(known):
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


# times of a record ---------------------------------------------------------------------------------------------------
# Bars, a panel an engine or operator: by activity, and by NUMA distance.


def time_breakdown(table: Mapping[str, Sequence[Any]]) -> Figure:
    """Figure with a panel an engine, each with an axis of its own.

    Columns, one entry a bar: engine, bar (its label), execute_ns, rma_ns (>= 0).
    """
    engines = list(dict.fromkeys(table["engine"]))
    figure = Figure(figsize=(4.0 * len(engines), 3.0), layout="constrained", dpi=130)
    for axes, engine in zip(figure.subplots(1, len(engines), squeeze=False)[0], engines, strict=True):
        rows = rows_where(table, engine=engine)
        execute, rma = ([table[name][row] for row in rows] for name in ("execute_ns", "rma_ns"))
        axes.bar(range(len(rows)), execute, 0.75, color=BLUE, label="Execute")
        axes.bar(range(len(rows)), rma, 0.75, bottom=execute, color=ORANGE, label="RMA")
        axes.set_title(engine, fontsize=FONT_PT + 1)
        quiet(axes)
        axes.set_xticks(range(len(rows)), [table["bar"][row] for row in rows], rotation=60, fontsize=FONT_PT - 1)
    figure.axes[0].set_ylabel("ns a record")
    figure.axes[0].legend(fontsize=FONT_PT - 1, frameon=False)
    return figure


def numa_times(table: Mapping[str, Sequence[Any]]) -> Figure:
    """Figure with a panel an operator, and a group of bars a pair of sockets.

    Columns, one entry an operator and pair: operator, sockets (text), measured, estimated, simulated (ns a record).
    """
    operators = list(dict.fromkeys(table["operator"]))
    figure = Figure(figsize=(3.6 * len(operators), 2.8), layout="constrained", dpi=130)
    panels = figure.subplots(1, len(operators), squeeze=False)[0]
    for axes, operator in zip(panels, operators, strict=True):
        rows = rows_where(table, operator=operator)
        where = np.arange(len(rows))
        for shift, (name, colour) in enumerate((("measured", GREY), ("estimated", ORANGE), ("simulated", BLUE))):
            axes.bar(where + 0.27 * (shift - 1), [table[name][row] for row in rows], 0.25, color=colour, label=name)
        axes.set_xticks(where, [table["sockets"][row] for row in rows])
        axes.set_title(operator, fontsize=FONT_PT + 1)
        quiet(axes)
    panels[0].set_ylabel("ns a record")
    panels[0].legend(fontsize=FONT_PT - 1, frameon=False)
    return figure


# means over theory ---------------------------------------------------------------------------------------------------
# Simulation against queueing theory: a line a law, with the ratio of the means.


LINE_IN = 0.2
WIDTH_IN = 11.0
"""Width in inches: names of laws take up to half of it; the axis has an octave."""


def theory_ratios(table: Mapping[str, Sequence[Any]]) -> Figure:
    """Figure of simulated means over theory with two standard errors to each side; the band is 5 %.

    Columns, one entry a law: law (text), ratio (to theory), error (its standard error).
    """
    names = list(table["law"])
    figure, axes = new_figure(WIDTH_IN, 0.9 + LINE_IN * len(names))
    rows = np.arange(len(names))[::-1]
    axes.axvspan(0.95, 1.05, color="#eeeeee", zorder=0)
    axes.axvline(1.0, color=GREY, linewidth=1.0, zorder=1)
    ratio, error = np.asarray(table["ratio"], dtype=float), 2 * np.asarray(table["error"], dtype=float)
    axes.errorbar(ratio, rows, xerr=error, fmt="o", markersize=3, linewidth=1.0, color=BLUE)
    axes.set_yticks(rows, names, fontsize=FONT_PT - 2)
    axes.set_ylim(-0.8, len(names) - 0.2)
    axes.set_xscale("log")
    ticks = [0.7, 0.8, 0.9, 1.0, 1.1, 1.2, 1.4]
    axes.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
    axes.minorticks_off()
    axes.set_xlabel("simulated / theory (bars: two standard errors; band: 5 %)")
    return figure
