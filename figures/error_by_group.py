"""Figure of a cost model's error by groups of runs: q-errors above, accuracies below, a panel a dimension."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from figures.style import FONT_PT, GREY, looks, quiet, rows_where


def error_by_group(table: Mapping[str, Sequence[Any]], bounds: Mapping[str, float], bound_label: str) -> Figure:
    """Figure with lines over the groups of each dimension.

    Columns, one entry a dimension, group and metric: dimension, group (text, in order), metric (label), quantity
    (`q_error` or `accuracy`), value (NaN where there is none). bounds: for either quantity a published bound, drawn
    grey under `bound_label`.
    """
    dimensions = list(dict.fromkeys(table["dimension"]))
    longest = max(map(len, table["group"]), default=0)  # labels are slanted, so they take height as well
    size = (max(6.0, 1.2 + 3.0 * len(dimensions)), 4.0 + 0.1 * longest)
    figure = Figure(figsize=size, layout="constrained", dpi=130)
    grid = figure.subplots(2, len(dimensions), squeeze=False, sharey="row")
    for quantity, row in zip(("q_error", "accuracy"), grid, strict=True):
        for dimension, axes in zip(dimensions, row, strict=True):
            _panel(axes, table, dimension, quantity)
            if quantity in bounds:
                axes.axhline(bounds[quantity], color=GREY, linewidth=1.0, linestyle=(0, (1, 2)), label=bound_label)
    for dimension, axes in zip(dimensions, grid[0], strict=True):
        axes.set_title(dimension, fontsize=FONT_PT + 1)
    grid[0][0].set_ylim(bottom=1.0)
    grid[0][0].set_ylabel("median q-error")
    grid[1][0].set_ylabel("balanced accuracy")
    for row in grid:
        if row[-1].get_legend_handles_labels()[1]:  # a dimension may have no metric of a kind, and no bound
            row[-1].legend(fontsize=FONT_PT - 1, frameon=False, loc="upper left", bbox_to_anchor=(1.0, 1.0))
    return figure


def _panel(axes: Axes, table: Mapping[str, Sequence[Any]], dimension: str, quantity: str) -> None:
    mine = rows_where(table, dimension=dimension, quantity=quantity)
    groups = list(dict.fromkeys(table["group"][i] for i in mine))
    for metric, look in looks(table["metric"][i] for i in mine).items():
        rows = rows_where(table, dimension=dimension, quantity=quantity, metric=metric)
        where = [groups.index(table["group"][i]) for i in rows]
        values = np.array([table["value"][i] for i in rows], dtype=float)
        style: dict[str, Any] = {"color": look.colour, "marker": look.marker, "linestyle": look.dashes}
        axes.plot(where, values, **style, linewidth=1.3, markersize=4, label=metric)
    axes.set_xticks(range(len(groups)), groups, rotation=40, ha="right")
    axes.set_xlim(-0.4, len(groups) - 0.6)
    quiet(axes)
