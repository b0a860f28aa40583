"""Figures of cost models: their training, their predictions, and their errors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from figures.style import BLUE, FONT_PT, GREY, ORANGE, looks, new_figure, quiet, rows_where

# training ------------------------------------------------------------------------------------------------------------
# Figure of a training: loss by step, training and validation.


def learning_curve(table: Mapping[str, Sequence[Any]]) -> Figure:
    """Figure with two lines a member of the ensemble, training and validation; a ring at its best validation loss.

    Columns, one entry a member and step: member, step, training_loss, validation_loss (both > 0).
    """
    member = np.asarray(table["member"])
    step = np.asarray(table["step"], dtype=float)
    training = np.asarray(table["training_loss"], dtype=float)
    validation = np.asarray(table["validation_loss"], dtype=float)
    figure, axes = new_figure(5.2, 3.2)
    for number, name in enumerate(np.unique(member)):
        rows = np.flatnonzero(member == name)
        rows = rows[np.argsort(step[rows])]
        first = number == 0
        axes.plot(step[rows], training[rows], color=BLUE, linewidth=1.1, label="training" if first else None)
        axes.plot(step[rows], validation[rows], color=ORANGE, linewidth=1.4, label="validation" if first else None)
        if np.isfinite(validation[rows]).any():
            best = rows[np.nanargmin(validation[rows])]
            axes.plot(step[best], validation[best], "o", markerfacecolor="none", color=GREY, markersize=7)
    axes.set_yscale("log")
    axes.set_xlabel("step")
    axes.set_ylabel("loss (log scale)")
    axes.legend(fontsize=FONT_PT, frameon=False, title="ring: the weights that are kept", title_fontsize=FONT_PT - 1)
    return figure


# predictions ---------------------------------------------------------------------------------------------------------
# Figure of a cost model's predictions: one dot a run, predicted against simulated.


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


# errors by group -----------------------------------------------------------------------------------------------------
# Figure of a cost model's error by groups of runs: q-errors above, accuracies below, a panel a dimension.


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
