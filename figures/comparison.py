"""Figure of variants beside each other, with intervals: a panel a metric."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from figures.style import BLUE, FONT_PT, GREEN, GREY, ORANGE, quiet, rows_where

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
            figure.legend(handles, labels, fontsize=FONT_PT - 1, frameon=False, loc="outside upper left", ncols=2)
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
    axes.set_ylim(bottom=0)


def _listed(axes: Axes, table: Mapping[str, Sequence[Any]], rows: Sequence[int], variants: Sequence[str]) -> None:
    for row in rows:
        at = variants.index(table["variant"][row])
        half = np.nan_to_num(table["half_width"][row])
        axes.errorbar(table["mean"][row], at, xerr=half, color=BLUE if at else GREY, marker="o", capsize=3)
    axes.set_yticks(range(len(variants)), variants)
    axes.set_ylim(len(variants) - 0.5, -0.5)
    axes.set_xlim(left=0)
