"""Figure of the cost of a bad start that a monitor repairs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter

from figures.style import BLUE, FONT_PT, GREY, ORANGE, new_figure


def monitoring_overhead(table: Mapping[str, Sequence[Any]], horizon_s: float) -> Figure:
    """Figure with a dot a job: seconds until it is competitive, and slow-down before that, on a logarithmic axis.

    Columns: slow_down (>= 0; None is not drawn), overhead_s (None: not within the run, drawn beyond its end).
    """
    slow_down = np.array(table["slow_down"], dtype=float)
    overhead_s = np.array(table["overhead_s"], dtype=float)
    never = np.isnan(overhead_s)
    figure, axes = new_figure(5.2, 3.4)
    axes.axvline(horizon_s, color=GREY, linewidth=0.9, linestyle=":")
    axes.axhline(1.0, color="#333333", linewidth=0.8)
    axes.plot(overhead_s[~never], slow_down[~never], "o", color=BLUE, alpha=0.75, label="competitive within the run")
    if never.any():
        beyond_s = np.full(int(never.sum()), 1.04 * horizon_s)
        axes.plot(beyond_s, slow_down[never], ">", color=ORANGE, alpha=0.75, label="not within the run")
    axes.set_xlim(-0.03 * horizon_s, 1.1 * horizon_s)
    axes.set_yscale("log")
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}×"))
    axes.set_xlabel("monitoring overhead (simulated seconds)")
    axes.set_ylabel("initial slow-down in Lp")
    axes.legend(fontsize=FONT_PT - 1, frameon=False)
    return figure
