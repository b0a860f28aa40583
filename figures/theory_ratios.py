"""Simulation against queueing theory: one line a law, how far each fidelity's mean is from it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from figures.style import BLUE, FONT_PT, GREY, ORANGE, new_figure

LINE_IN = 0.2
WIDTH_IN = 11.0
"""Names of laws take up to half of it; the axis has five octaves."""


def theory_ratios(table: Mapping[str, Sequence[Any]]) -> Figure:
    """Simulated mean over theory with two standard errors to each side; the band is 7 %.

    Columns, one entry a law: law (text), exact, exact_error, fast, fast_error (ratios to theory and their standard
    errors; NaN where there is no such run).
    """
    names = list(table["law"])
    figure, axes = new_figure(WIDTH_IN, 0.9 + LINE_IN * len(names))
    rows = np.arange(len(names))[::-1]
    axes.axvspan(0.93, 1.07, color="#eeeeee", zorder=0)
    axes.axvline(1.0, color=GREY, linewidth=1.0, zorder=1)
    for fidelity, colour, shift in (("exact", BLUE, 0.13), ("fast", ORANGE, -0.13)):
        ratio = np.asarray(table[fidelity], dtype=float)
        error = 2 * np.asarray(table[f"{fidelity}_error"], dtype=float)
        there = np.isfinite(ratio)
        axes.errorbar(
            ratio[there], rows[there] + shift, xerr=error[there], fmt="o", markersize=3, linewidth=1.0, color=colour,
            label=fidelity,
        )  # fmt: skip
    axes.set_yticks(rows, names, fontsize=FONT_PT - 2)
    axes.set_ylim(-0.8, len(names) - 0.2)
    axes.set_xscale("log")
    ticks = [0.5, 0.7, 1.0, 1.4, 2.0, 4.0, 8.0]
    axes.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
    axes.minorticks_off()
    axes.set_xlabel("simulated / theory (bars: two standard errors; band: 7 %)")
    axes.legend(fontsize=FONT_PT - 1, frameon=False, loc="upper right")
    return figure
