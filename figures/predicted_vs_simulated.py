"""Figure of a cost model's predictions: one dot a run, predicted against simulated."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from figures.style import BLUE, FONT_PT, GREY, new_figure


def predicted_vs_simulated(table: Mapping[str, Sequence[Any]], quantity: str) -> Figure:
    """Log-log scatter with the diagonal and a factor of two around it; median and 95th percentile of the q-error.

    Columns, one entry a run: simulated, predicted, in the unit that `quantity` names (it labels the axes). Rows in
    which either is not a positive number are left out. Raises ValueError if none remains.
    """
    simulated = np.asarray(table["simulated"], dtype=float)
    predicted = np.asarray(table["predicted"], dtype=float)
    usable = (simulated > 0) & (predicted > 0) & np.isfinite(simulated) & np.isfinite(predicted)
    if not usable.any():
        raise ValueError(f"none of {len(simulated)} rows has both values positive")
    simulated, predicted = simulated[usable], predicted[usable]
    figure, axes = new_figure(4.4, 4.2)
    low = min(simulated.min(), predicted.min()) / 1.5
    high = max(simulated.max(), predicted.max()) * 1.5
    line = np.array([low, high])
    axes.fill_between(line, line / 2, line * 2, color="#eeeeee", zorder=0, label="within a factor of 2")
    axes.plot(line, line, color=GREY, linewidth=1.0, zorder=1, label="perfect")
    axes.plot(simulated, predicted, "o", markersize=3.5, alpha=0.6, color=BLUE, markeredgewidth=0, zorder=2)
    axes.set(xscale="log", yscale="log", xlim=(low, high), ylim=(low, high), aspect="equal")
    axes.set_xlabel(f"simulated {quantity}")
    axes.set_ylabel(f"predicted {quantity}")
    q_error = np.maximum(simulated / predicted, predicted / simulated)
    words = f"{len(simulated)} runs\nq-error: median {np.median(q_error):.2f}, 95 % {np.quantile(q_error, 0.95):.2f}"
    axes.text(0.03, 0.97, words, transform=axes.transAxes, va="top", fontsize=FONT_PT)
    axes.legend(loc="lower right", fontsize=FONT_PT - 1, frameon=False)
    return figure
