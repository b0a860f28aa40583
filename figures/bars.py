"""Groups of bars from zero, each with its value written on it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from figures.style import FONT_PT, looks, new_figure


def bars(table: Mapping[str, Sequence[Any]], quantity: str) -> Figure:
    """Columns, one entry a bar: group, series (text, in order of appearance), value (>= 0).

    quantity: labels the axis.
    """
    groups, series = (list(dict.fromkeys(table[name])) for name in ("group", "series"))
    width = 0.8 / len(series)
    figure, axes = new_figure(1.4 + 0.6 * len(groups) * len(series), 3.2)
    for s, (name, look) in enumerate(looks(series).items()):
        rows = [i for i, each in enumerate(table["series"]) if each == name]
        where = np.array([groups.index(table["group"][i]) for i in rows]) + (s - (len(series) - 1) / 2) * width
        values = [table["value"][i] for i in rows]
        drawn = axes.bar(where, values, width * 0.92, color=look.colour, hatch=look.hatch, label=name)
        axes.bar_label(drawn, [f"{value:.3g}" for value in values], fontsize=FONT_PT - 1, padding=2)
    axes.set_xticks(range(len(groups)), groups)
    axes.grid(visible=False, axis="x")
    axes.set_ylabel(quantity)
    figure.legend(fontsize=FONT_PT - 1, frameon=False, loc="outside upper left", ncols=2)
    return figure
