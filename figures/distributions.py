"""Cumulative distributions of a few samples on one pair of axes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.figure import Figure

from figures.style import FONT_PT, looks, new_figure


def distributions(
    samples: Mapping[str, Sequence[float]], quantity: str, *, marked: float | None = None, log: bool = False
) -> Figure:
    """A step function a sample. quantity: labels the axis. marked: a value to draw a line at."""
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
