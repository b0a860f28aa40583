"""Figures of chosen plans: beside what was promised, their speed-up, and what monitoring adds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, NullFormatter

from figures.style import BLUE, FONT_PT, GREEN, GREY, ORANGE, new_figure, rows_where
from figures.units import seconds

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
