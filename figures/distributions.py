"""Figures of cumulative distributions: of a few samples, or from profiling (BriskStream, Fig. 3)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.figure import Figure

from figures.style import FONT_PT, looks, new_figure


def distributions(
    samples: Mapping[str, Sequence[float]], quantity: str, *, marked: float | None = None, log: bool = False
) -> Figure:
    """Figure with a step function for each sample. quantity: label of the axis. marked: value to draw a line at."""
    figure, axes = new_figure(5.4, 3.2)
    for name, look in looks(samples).items():
        axes.ecdf(np.asarray(samples[name], dtype=float), color=look.colour, linestyle=look.dashes, label=name)
    if marked is not None:
        axes.axvline(marked, color="#333333", linewidth=0.9, linestyle="--")
    if log:
        axes.set_xscale("log")
    axes.set_xlabel(quantity)
    axes.set_ylabel("cumulative share")
    figure.legend(fontsize=FONT_PT - 1, frameon=False, loc="outside upper left", ncols=4)
    return figure


def profile_times(times_s: Mapping[str, Sequence[float]]) -> Figure:
    """Figure with a distribution for each operator. times_s: by operator, quantiles > 0 at equal steps from 0 to 1."""
    figure, axes = new_figure(5.2, 3.2)
    for number, (operator, quantiles) in enumerate(times_s.items()):
        shares = np.linspace(0.0, 1.0, len(quantiles))
        dashes = ("-", "--", ":")[number // 10 % 3]  # ten colours, then other dashes
        axes.plot(np.asarray(quantiles) * 1e9, shares, dashes, linewidth=1.4, label=operator)
    axes.set_xscale("log")
    axes.set_ylim(0.0, 1.0)
    axes.set_xlabel("execution time (ns a tuple, log scale)")
    axes.set_ylabel("share of tuples")
    figure.legend(fontsize=FONT_PT - 1, frameon=False, loc="outside right upper")
    return figure
