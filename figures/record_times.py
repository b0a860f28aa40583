"""Figures of the time of a record as bars, a panel an engine or operator: by activity, and by NUMA distance."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from figures.style import BLUE, FONT_PT, GREY, ORANGE, quiet, rows_where


def time_breakdown(table: Mapping[str, Sequence[Any]]) -> Figure:
    """Figure with a panel an engine, each with an axis of its own.

    Columns, one entry a bar: engine, bar (its label), execute_ns, rma_ns (>= 0).
    """
    engines = list(dict.fromkeys(table["engine"]))
    figure = Figure(figsize=(4.0 * len(engines), 3.0), layout="constrained", dpi=130)
    for axes, engine in zip(figure.subplots(1, len(engines), squeeze=False)[0], engines, strict=True):
        rows = rows_where(table, engine=engine)
        execute, rma = ([table[name][row] for row in rows] for name in ("execute_ns", "rma_ns"))
        axes.bar(range(len(rows)), execute, 0.75, color=BLUE, label="Execute")
        axes.bar(range(len(rows)), rma, 0.75, bottom=execute, color=ORANGE, label="RMA")
        axes.set_title(engine, fontsize=FONT_PT + 1)
        quiet(axes)
        axes.set_xticks(range(len(rows)), [table["bar"][row] for row in rows], rotation=60, fontsize=FONT_PT - 1)
    figure.axes[0].set_ylabel("ns a record")
    figure.axes[0].legend(fontsize=FONT_PT - 1, frameon=False)
    return figure


def numa_times(table: Mapping[str, Sequence[Any]]) -> Figure:
    """Figure with a panel an operator, and a group of bars a pair of sockets.

    Columns, one entry an operator and pair: operator, sockets (text), measured, estimated, simulated (ns a record).
    """
    operators = list(dict.fromkeys(table["operator"]))
    figure = Figure(figsize=(3.6 * len(operators), 2.8), layout="constrained", dpi=130)
    panels = figure.subplots(1, len(operators), squeeze=False)[0]
    for axes, operator in zip(panels, operators, strict=True):
        rows = rows_where(table, operator=operator)
        where = np.arange(len(rows))
        for shift, (name, colour) in enumerate((("measured", GREY), ("estimated", ORANGE), ("simulated", BLUE))):
            axes.bar(where + 0.27 * (shift - 1), [table[name][row] for row in rows], 0.25, color=colour, label=name)
        axes.set_xticks(where, [table["sockets"][row] for row in rows])
        axes.set_title(operator, fontsize=FONT_PT + 1)
        quiet(axes)
    panels[0].set_ylabel("ns a record")
    panels[0].legend(fontsize=FONT_PT - 1, frameon=False)
    return figure
