"""Figure of quantities over time: a panel a quantity, a line a series, with a band for the interval over runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from figures.style import FONT_PT, looks, quiet, rows_where

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
    figure.legend(handles, labels, fontsize=FONT_PT - 1, frameon=False, loc="outside upper left", ncols=3)
    return figure


def _scale(axes: Any, values: np.ndarray) -> None:
    known = values[np.isfinite(values) & (values > 0.0)]
    if len(known) and known.max() > FAR * np.median(known):
        axes.set_yscale("symlog", linthresh=max(float(np.median(known)), 1e-12))
    axes.set_ylim(bottom=0)
