"""Figure of the share of repetitions in which a condition holds, over the value that it depends on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.figure import Figure

from figures.style import BLUE, FONT_PT, GREY, ORANGE, new_figure


def border(table: Mapping[str, Sequence[float]], horizontal: str, interval: tuple[float, float] | None) -> Figure:
    """Figure of a border. table: columns with an entry for each value tried in a repetition: value, holds (0 or 1).

    A dot is the share of repetitions that hold at a value; larger dots stand for more. interval: of the border, a band.
    """
    figure, axes = new_figure(5.2, 2.8)
    value, holds = np.asarray(table["value"], dtype=float), np.asarray(table["holds"], dtype=float)
    if interval is not None:
        axes.axvspan(*interval, color=ORANGE, alpha=0.3, linewidth=0, label="border, 95 %")
    for tried in np.unique(value):
        here = holds[value == tried]
        colour = BLUE if here.mean() == 1.0 else GREY
        axes.plot(tried, here.mean(), "o", color=colour, markersize=3 + np.sqrt(len(here)), alpha=0.8)
    axes.set_ylim(-0.08, 1.08)
    axes.set_yticks([0, 0.5, 1], ["none", "half", "all"])
    axes.set_ylabel("holds in ... of the runs")
    axes.set_xlabel(horizontal)
    if interval is not None:
        figure.legend(fontsize=FONT_PT - 1, frameon=False, loc="outside upper right")
    return figure
