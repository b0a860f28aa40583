"""Figures of answers: variants, borders, sensitivities, quantities over time, and a run in panels."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator

from figures.style import (
    BLUE,
    FONT_PT,
    GREEN,
    GREY,
    INCH_PT,
    LABEL_PT,
    ORANGE,
    arranged,
    legend,
    looks,
    new_figure,
    quiet,
    rows_where,
)
from figures.svg import shortened
from figures.time_line import MARK, Panel, axis_of, band, points

# variants ------------------------------------------------------------------------------------------------------------
# Figure of variants beside each other, with intervals: a panel a metric.


_STYLES = ((BLUE, "o"), (ORANGE, "s"), (GREEN, "^"), (GREY, "D"), ("#000000", "v"))
WIDE = 50.0
"""Ratio of the ends of positions above which they are drawn on a logarithmic axis."""


def comparison(table: Mapping[str, Sequence[Any]], horizontal: str) -> Figure:
    """Figure of means. Columns, one entry each: metric, variant, series (text), x (or NaN), mean, half_width (or NaN).

    Where every entry has an x, means are drawn over it, a line a series (at most five); else variants stand below each
    other. horizontal: labels the x axis then. Means that are not finite are left out.
    """
    metrics = list(dict.fromkeys(table["metric"]))
    numeric = all(math.isfinite(x) for x in table["x"])
    variants = list(dict.fromkeys(table["variant"]))
    height = 2.1 * len(metrics) if numeric else len(metrics) * (0.7 + 0.26 * len(variants))
    figure = Figure(figsize=(5.6, max(2.4, height)), layout="constrained", dpi=150)
    panels = figure.subplots(len(metrics), 1, squeeze=False)[:, 0]
    for axes, metric in zip(panels, metrics, strict=True):
        quiet(axes)
        rows = rows_where(table, metric=metric)
        rows = [row for row in rows if math.isfinite(table["mean"][row])]
        (_over_x if numeric else _listed)(axes, table, rows, variants)
        (axes.set_ylabel if numeric else axes.set_title)(metric, fontsize=FONT_PT)
    if numeric:
        panels[-1].set_xlabel(horizontal)
        if len(set(table["series"])) > 1:
            handles, labels = panels[0].get_legend_handles_labels()
            legend(figure, "outside upper left", handles, labels, most=2)
    return figure


def _over_x(axes: Axes, table: Mapping[str, Sequence[Any]], rows: Sequence[int], _variants: Sequence[str]) -> None:
    for name, (colour, marker) in zip(dict.fromkeys(table["series"]), _STYLES, strict=False):
        points = sorted((row for row in rows if table["series"][row] == name), key=lambda row: table["x"][row])
        x, mean, half = (np.array([table[key][row] for row in points]) for key in ("x", "mean", "half_width"))
        axes.errorbar(
            x, mean, yerr=np.nan_to_num(half), color=colour, marker=marker, markersize=4, capsize=2, label=name
        )
    positions = table["x"]
    if min(positions) > 0.0 and max(positions) > WIDE * min(positions):
        axes.set_xscale("log")
    elif all(float(each).is_integer() for each in positions):
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.set_ylim(0, _room(axes.get_ylim()))


def _listed(axes: Axes, table: Mapping[str, Sequence[Any]], rows: Sequence[int], variants: Sequence[str]) -> None:
    for row in rows:
        at = variants.index(table["variant"][row])
        half = np.nan_to_num(table["half_width"][row])
        axes.errorbar(table["mean"][row], at, xerr=half, color=BLUE if at else GREY, marker="o", capsize=3)
    axes.set_yticks(range(len(variants)), [shortened(each, LABEL_PT, FONT_PT) for each in variants])
    axes.set_ylim(len(variants) - 0.5, -0.5)
    axes.set_xlim(0, _room(axes.get_xlim()))


def _room(ends: tuple[float, float]) -> float:
    """Upper end of an axis from 0, with room for a marker: the range of values that hardly differ leaves none."""
    return 1.05 * ends[1]


# borders -------------------------------------------------------------------------------------------------------------
# Figure of the share of repetitions in which a condition holds, over the value that it depends on.


def border(table: Mapping[str, Sequence[float]], horizontal: str, interval: tuple[float, float] | None) -> Figure:
    """Figure of a border. table: columns with an entry for each value tried in a repetition: value, holds (0 or 1).

    A dot is the share of repetitions that hold at a value; larger dots stand for more. interval: of the border, a band.
    """
    figure, axes = new_figure(5.2, 2.8)
    value, holds = np.asarray(table["value"], dtype=float), np.asarray(table["holds"], dtype=float)
    if interval is not None:
        axes.axvspan(*interval, color=ORANGE, alpha=0.3, linewidth=0, label="border, 95 %")
    for tried in np.unique(value):
        here = holds[value == tried]
        colour = BLUE if here.mean() == 1.0 else GREY
        axes.plot(tried, here.mean(), "o", color=colour, markersize=3 + np.sqrt(len(here)), alpha=0.8)
    axes.set_ylim(-0.08, 1.08)
    axes.set_yticks([0, 0.5, 1], ["none", "half", "all"])
    axes.set_ylabel("holds in ... of the runs")
    axes.set_xlabel(horizontal)
    if interval is not None:
        legend(figure, "outside upper right")
    return figure


# tornados ------------------------------------------------------------------------------------------------------------
# Tornado figure: changes of a result as one input after the other goes to its ends, a bar an input, widest on top.


def tornado(table: Mapping[str, Sequence[Any]], given: float, quantity: str) -> Figure:
    """Tornado figure. Columns, one entry an input: input, low, high (labels of its ends), at_low, at_high (results
    there).

    given: the result with all inputs as given. quantity: labels the axis.
    """
    count = len(table["input"])
    figure, axes = new_figure(6.0, 1.0 + 0.42 * count)
    order = sorted(range(count), key=lambda row: abs(table["at_high"][row] - table["at_low"][row]))
    for at, row in enumerate(order):
        for side, colour in (("low", BLUE), ("high", ORANGE)):
            end = table[f"at_{side}"][row]
            axes.barh(
                at, end - given, left=given, height=0.55, color=colour, label=f"at its {side} end" if not at else None
            )
            left = end < given or (end == given and side == "low")
            axes.annotate(
                table[side][row], (end, at), (-3 if left else 3, 0), textcoords="offset points",
                ha="right" if left else "left", va="center", fontsize=FONT_PT - 2,
            )  # fmt: skip
    axes.axvline(given, color="#333333", linewidth=0.9)
    axes.set_yticks(range(count), [shortened(table["input"][row], LABEL_PT, FONT_PT) for row in order])
    axes.margins(x=0.15)
    axes.set_xlabel(quantity)
    legend(figure, "outside upper right", most=2)
    return figure


# quantities over time ------------------------------------------------------------------------------------------------
# Figure of quantities over time: a panel a quantity, a line a series, with a band for the interval over runs.


FAR = 50.0
"""Ratio of maximum and median above which the axis is linear near 0 and logarithmic beyond."""


def over_time(table: Mapping[str, Sequence[Any]]) -> Figure:
    """Figure of a table with columns, one entry a point: panel, series (text), x (s), mean, half_width (NaN: unknown).

    Means that are not finite are gaps in their line.
    """
    panels = list(dict.fromkeys(table["panel"]))
    figure = Figure(figsize=(6.0, 2.0 * len(panels) + 0.4), layout="constrained", dpi=150)
    places = figure.subplots(len(panels), 1, squeeze=False, sharex=True)[:, 0]
    for axes, panel in zip(places, panels, strict=True):
        quiet(axes)
        for name, look in looks(table["series"]).items():
            rows = rows_where(table, panel=panel, series=name)
            x, mean, half = (np.array([table[key][k] for k in rows], float) for key in ("x", "mean", "half_width"))
            axes.plot(x, mean, color=look.colour, linestyle=look.dashes, linewidth=1.3, label=name)
            low, high = mean - np.nan_to_num(half), mean + np.nan_to_num(half)
            axes.fill_between(x, np.maximum(low, 0.0), high, color=look.colour, alpha=0.15, linewidth=0)
        axes.set_ylabel(panel, fontsize=FONT_PT)
        values = [table["mean"][row] for row in rows_where(table, panel=panel)]
        _scale(axes, np.array(values, float))
    places[-1].set_xlabel("simulated time (s)")
    handles, labels = places[0].get_legend_handles_labels()
    legend(figure, "outside upper left", handles, labels, most=3)
    return figure


def _scale(axes: Any, values: np.ndarray) -> None:
    known = values[np.isfinite(values) & (values > 0.0)]
    if len(known) and known.max() > FAR * np.median(known):
        axes.set_yscale("symlog", linthresh=10.0 ** np.ceil(np.log10(max(np.median(known), 1e-12))))
    axes.set_ylim(0, _room(axes.get_ylim()))


def search_path(table: Mapping[str, Sequence[Any]], runs: int, objective: str) -> Figure:
    """Figure of the plan that a search keeps, against its runs: steps, grey while no plan was as required. Its value is
    as known then: further runs of the same plan correct it, up or down. Who found a plan is told beside, by the number
    at its step.

    Columns, one entry a step: runs, best (NaN if unknown), as_required, found_by. runs: of the whole search. objective:
    labels the axis.
    """
    figure, axes = new_figure(7.6, 3.2)
    starts, best = np.asarray(table["runs"], float), np.asarray(table["best"], float)
    ends, required = [*starts[1:], float(runs)], list(table["as_required"])
    axes.step([*starts, float(runs)], [*best, best[-1]], where="post", color=GREY, linewidth=0.8)
    for start, end, value, good in zip(starts, ends, best, required, strict=True):
        axes.plot([start, end], [value, value], color=BLUE if good else GREY, linewidth=2.2)
    firsts = {name: row for row, name in reversed([*enumerate(table["found_by"])])}
    handles = list[Line2D]()
    for number, (name, row) in enumerate(sorted(firsts.items(), key=lambda pair: pair[1]), 1):
        colour = BLUE if required[row] else GREY
        axes.plot(starts[row], best[row], "o", color=colour, markersize=9, zorder=3)
        axes.annotate(
            str(number),
            (starts[row], best[row]),
            ha="center",
            va="center",
            color="white",
            fontsize=FONT_PT - 3,
            zorder=4,
        )
        label = f"{number}  {name}" + ("" if required[row] else ", not as required")
        handles.append(Line2D([], [], linestyle="", marker="o", color=colour, label=label))
    legend(figure, "outside right upper", handles, [str(each.get_label()) for each in handles], share=0.4)
    known = best[np.isfinite(best)]
    if len(known) and known.min() > 0.0 and known.max() > 5.0 * known.min():
        axes.set_yscale("log")
    axes.margins(x=0.05, y=0.15)
    axes.set_xlabel("runs")
    axes.set_ylabel(f"{objective}\nof the plan kept, as known then")
    return figure


# a run in panels -----------------------------------------------------------------------------------------------------
# Figure of a run over time for print: the pictures of a report beside each other, with axes and a legend each.


COLUMNS, WIDTH_IN, ROOM_PT = 2, 7.2, 36.0
"""Panels beside each other, width of all, and room that a panel needs for the numbers of its axis."""


def run_panels(panels: Sequence[Panel]) -> Figure:
    """Figure with the panels in two columns; events are dashed verticals, shaded as long as they last."""
    rows = math.ceil(len(panels) / COLUMNS)
    figure = Figure(figsize=(WIDTH_IN, 2.3 * rows), layout="constrained", dpi=150)
    places = list(figure.subplots(rows, COLUMNS, squeeze=False).flat)
    for axes, panel in zip(places, panels, strict=False):
        _panel(axes, panel)
    for axes in places[len(panels) :]:
        axes.set_visible(False)
    return figure


def _panel(axes: Axes, panel: Panel) -> None:
    quiet(axes)
    if panel.nested:
        for number, (lower, upper) in enumerate(pairwise(panel.series.values())):
            low, high = (np.array(each, float) for each in (lower, upper))
            axes.fill_between(panel.at_s, low, high, color=BLUE, alpha=band(number), linewidth=0)
    for (name, values), look in zip(panel.series.items(), looks(panel.series).values(), strict=True):
        at_s, joined = zip(*points(panel, values), strict=True) if values else ((), ())
        shown = [math.nan if value is None else value for value in joined]
        alone = look.marker if sum(value is not None for value in values) == 1 else None
        colour = BLUE if panel.nested else look.colour
        style = {"color": colour, "linestyle": look.dashes, "linewidth": 1.2, "marker": alone}
        axes.plot(at_s, shown, label=name, **style)  # type: ignore[arg-type]
    for mark in panel.marks:
        axes.axvline(mark.at_s, color=MARK, linewidth=0.8, linestyle=":")
        if mark.end_s is not None:
            axes.axvspan(mark.at_s, mark.end_s, color=MARK, alpha=0.1, linewidth=0)
    axis = axis_of(panel)
    axes.set_yscale("log" if axis.logarithmic else "linear")
    axes.set_ylim(axis.low, axis.high * (1.0 if axis.logarithmic else 1.05))
    axes.set_xlim(0.0, panel.end_s)
    axes.set_xlabel("simulated time (s)", fontsize=FONT_PT - 1)
    axes.tick_params(labelsize=FONT_PT - 1)
    _legend(axes, panel.title)


def _legend(axes: Axes, title: str) -> None:
    """Puts the legend under the title, above the data."""
    handles, labels = axes.get_legend_handles_labels()
    names, columns = arranged(labels, INCH_PT * WIDTH_IN / COLUMNS - ROOM_PT, FONT_PT - 3, 3)
    legend = axes.legend(handles, names, title=title, ncols=columns, fontsize=FONT_PT - 3, frameon=False,
                         loc="lower left", bbox_to_anchor=(0.0, 1.0), borderaxespad=0.1, columnspacing=1.0,
                         handlelength=1.6)  # fmt: skip
    legend.get_title().set_fontsize(FONT_PT)
    legend.set_alignment("left")
