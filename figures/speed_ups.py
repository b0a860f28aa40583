"""Figure of speed-ups of plans over a baseline, by query type and planner."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter

from figures.style import FONT_PT, new_figure, rows_where

COLOURS = ("#7a7a7a", "#bdbdbd", "#d9730d", "#9ec3ea", "#3465a4", "#16325c", "#a5d6b7", "#2e8b57", "#1b5235")


def speed_ups(table: Mapping[str, Sequence[Any]]) -> Figure:
    """Figure of bars in groups, a group a query type and a bar a planner, with 95 % intervals, on a logarithmic axis.

    Columns, one entry a bar: type, planner, speed_up (median; None is not drawn), speed_up_low, speed_up_high.
    """
    types, planners = (list(dict.fromkeys(table[name])) for name in ("type", "planner"))
    figure, axes = new_figure(7.6, 3.8)
    width = 0.85 / len(planners)
    for number, planner in enumerate(planners):
        rows = rows_where(table, planner=planner)
        x = np.array([types.index(table["type"][row]) for row in rows]) + (number - (len(planners) - 1) / 2) * width
        height, low, high = (
            np.array([table[name][row] for row in rows], dtype=float)
            for name in ("speed_up", "speed_up_low", "speed_up_high")
        )
        errors = np.nan_to_num(np.abs(np.array([height - low, high - height])))
        axes.bar(x, height, 0.92 * width, color=COLOURS[number % len(COLOURS)], label=planner)
        axes.errorbar(x, height, yerr=errors, fmt="none", ecolor="#333333", elinewidth=0.9)
    axes.axhline(1.0, color="#333333", linewidth=0.8)
    axes.set_yscale("log")
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}×"))
    axes.set_xticks(range(len(types)), types)
    axes.set_ylabel("median speed-up in simulated Lp")
    axes.legend(fontsize=FONT_PT - 1, frameon=False, ncols=2, loc="lower center", bbox_to_anchor=(0.5, 1.0))
    return figure
