"""Figures of cost models, their training, predictions and errors, and of the plans that were chosen."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, NullFormatter

from figures.style import BLUE, FONT_PT, GREEN, GREY, ORANGE, looks, new_figure, quiet, rows_where
from figures.units import seconds

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


# plans beside a promise ----------------------------------------------------------------------------------------------
# Figure of chosen plans: the simulated latency of each, beside the latency that was promised.


def plans_beside_a_promise(table: Mapping[str, Sequence[Any]], promise_s: float, quantity: str) -> Figure:
    """Figure with a dot a plan with its 95 % interval, on a logarithmic axis; the promise as a line.

    Columns, one entry a plan: plan (its label), latency_s (NaN if nothing arrived), ci95_s (half-width), backpressured
    (bool). promise_s: the longest latency promised. quantity: which latency, for the axis. Raises ValueError if no plan
    has one.
    """
    latency_s = np.asarray(table["latency_s"], dtype=float)
    ci95_s = np.nan_to_num(np.asarray(table["ci95_s"], dtype=float))
    backpressured = np.asarray(table["backpressured"], dtype=bool)
    if not np.isfinite(latency_s).any():
        raise ValueError(f"no plan has a finite latency_s, got {latency_s.tolist()}")
    figure, axes = new_figure(7.6, 1.3 + 0.38 * len(latency_s))
    axes.axvspan(np.nextafter(0.0, 1.0), promise_s, color=GREEN, alpha=0.08, linewidth=0)
    axes.axvline(promise_s, color=GREEN, linewidth=1.2, zorder=1)
    for row, (mean_s, half_s) in enumerate(zip(latency_s, ci95_s, strict=True)):
        _dot(axes, row, mean_s, half_s, bool(backpressured[row]), promise_s)
    finite = latency_s[np.isfinite(latency_s)]
    axes.set_xscale("log")
    axes.set_xlim(min(finite.min(), promise_s) / 1.6, max(finite.max(), promise_s) * 1.6)
    axes.set_yticks(range(len(latency_s)), [str(label) for label in table["plan"]])
    axes.set_ylim(len(latency_s) - 0.4, -0.9)
    axes.text(promise_s, -0.55, f" promise: {seconds(promise_s)}", color=GREEN, fontsize=FONT_PT, va="center")
    axes.grid(visible=False, axis="y")
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: seconds(value).replace(".00 s", " s")))
    axes.xaxis.set_minor_formatter(NullFormatter())
    axes.set_xlabel(f"simulated {quantity}, with its 95 % interval (log scale)")
    return figure


def _dot(axes: Any, row: int, mean_s: float, half_s: float, backpressured: bool, promise_s: float) -> None:
    if not np.isfinite(mean_s):
        axes.text(promise_s, row, " no result reached the sink", color=GREY, fontsize=FONT_PT, va="center")
        return
    kept = mean_s <= promise_s and not backpressured
    colour = GREEN if kept else ORANGE
    low_s = max(mean_s - half_s, mean_s / 100)  # an interval may reach below zero, a log axis cannot
    axes.plot([low_s, mean_s + half_s], [row, row], color=colour, linewidth=2.2, zorder=2)
    axes.plot(mean_s, row, "o", color=colour, markerfacecolor="white" if backpressured else colour, zorder=3)
    says = "kept" if kept else "broken"
    axes.annotate(
        f"{seconds(mean_s)}, " + ("does not keep up" if backpressured else says),
        (1.02, row),
        xycoords=("axes fraction", "data"),
        va="center",
        fontsize=FONT_PT,
        color=colour,
        annotation_clip=False,
    )


# speed-ups -----------------------------------------------------------------------------------------------------------
# Figure of speed-ups of plans over a baseline, by query type and planner.


COLOURS = ("#7a7a7a", "#bdbdbd", "#d9730d", "#9ec3ea", "#3465a4", "#16325c", "#a5d6b7", "#2e8b57", "#1b5235")


def speed_ups(table: Mapping[str, Sequence[Any]]) -> Figure:
    """Figure of bars in groups, a group a query type and a bar a planner, with 95 % intervals, on a logarithmic axis.

    Columns, one entry a bar: type, planner, speed_up (median; None is not drawn), speed_up_low, speed_up_high.
    """
    types, planners = (list(dict.fromkeys(table[name])) for name in ("type", "planner"))
    figure, axes = new_figure(7.6, 3.8)
    width = 0.85 / len(planners)
    for number, planner in enumerate(planners):
        rows = rows_where(table, planner=planner)
        x = np.array([types.index(table["type"][row]) for row in rows]) + (number - (len(planners) - 1) / 2) * width
        height, low, high = (
            np.array([table[name][row] for row in rows], dtype=float)
            for name in ("speed_up", "speed_up_low", "speed_up_high")
        )
        errors = np.nan_to_num(np.abs(np.array([height - low, high - height])))
        axes.bar(x, height, 0.92 * width, color=COLOURS[number % len(COLOURS)], label=planner)
        axes.errorbar(x, height, yerr=errors, fmt="none", ecolor="#333333", elinewidth=0.9)
    axes.axhline(1.0, color="#333333", linewidth=0.8)
    axes.set_yscale("log")
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}×"))
    axes.set_xticks(range(len(types)), types)
    axes.set_ylabel("median speed-up in simulated Lp")
    axes.legend(fontsize=FONT_PT - 1, frameon=False, ncols=2, loc="lower center", bbox_to_anchor=(0.5, 1.0))
    return figure


# monitoring ----------------------------------------------------------------------------------------------------------
# Figure of the cost of a bad start that a monitor repairs.


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
