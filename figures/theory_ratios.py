"""Figure of simulation against queueing theory: a line a law, with the ratio of the means."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from figures.style import BLUE, FONT_PT, GREY, new_figure

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
