"""Figure of a run over time for print: the pictures of a report beside each other, with axes and a legend each."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from figures.style import BLUE, FONT_PT, INCH_PT, arranged, looks, quiet
from figures.time_line import MARK, Panel, axis_of, band, points

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
