"""Draws what sources took beside what they were offered, and what the twin said beforehand."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, NullFormatter

from benchmarks.real.nexmark.measuring import Measured
from figures.style import BLUE, FONT_PT, GREY, ORANGE, quiet

ACROSS = 3
"""Panels beside each other."""
STEPS = 200


def knees(queries: Mapping[str, tuple[float | None, Sequence[Measured]]]) -> Figure:
    """Figure with a panel a query, by its name: the knee that was predicted (events/s; None: none), and all points."""
    down = math.ceil(len(queries) / ACROSS)
    figure = Figure(figsize=(2.9 * min(ACROSS, len(queries)), 2.5 * down + 0.3), layout="constrained", dpi=150)
    panels = figure.subplots(down, min(ACROSS, len(queries)), squeeze=False).ravel().tolist()
    for axes in panels[len(queries) :]:
        axes.set_axis_off()
    for axes, (name, (knee_per_s, points)) in zip(panels, queries.items(), strict=False):
        _panel(axes, name, knee_per_s, points)
    handles, labels = panels[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper center", ncols=3, frameon=False, fontsize=FONT_PT)
    figure.supxlabel("events offered a second", fontsize=FONT_PT + 1)
    figure.supylabel("events taken a second", fontsize=FONT_PT + 1)
    return figure


def _panel(axes: Axes, name: str, knee_per_s: float | None, points: Sequence[Measured]) -> None:
    quiet(axes)
    offered = [each.rate_per_s for each in points]
    low, high = 0.7 * min(offered), 1.4 * max(offered)
    rates = [low * (high / low) ** (step / STEPS) for step in range(STEPS + 1)]
    if knee_per_s is not None:
        axes.plot(rates, [min(each, knee_per_s) for each in rates], color=BLUE, label="predicted")
    for seen, marker, label in ((True, "s", "measured, calibrated on"), (False, "o", "measured afterwards")):
        some = [each for number, each in enumerate(points) if (number < 2) == seen]
        colour = GREY if seen else ORANGE
        taken = [each.delivered_per_s for each in some]
        axes.plot([each.rate_per_s for each in some], taken, marker, color=colour, label=label)
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_title(name, fontsize=FONT_PT + 1)
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value / 1000:,.0f}k"))
        axis.set_minor_formatter(NullFormatter())
