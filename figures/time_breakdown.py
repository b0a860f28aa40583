"""What the time of a tuple is spent on: stacked bars."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from matplotlib.figure import Figure

from figures.style import BLUE, FONT_PT, ORANGE, quiet


def time_breakdown(table: Mapping[str, Sequence[Any]]) -> Figure:
    """A panel an engine, each with an axis of its own.

    Columns, one entry a bar: engine, bar (its label), execute_ns, rma_ns (>= 0).
    """
    engines = list(dict.fromkeys(table["engine"]))
    figure = Figure(figsize=(4.0 * len(engines), 3.0), layout="constrained", dpi=130)
    for axes, engine in zip(figure.subplots(1, len(engines), squeeze=False)[0], engines, strict=True):
        rows = [row for row, each in enumerate(table["engine"]) if each == engine]
        execute, rma = ([table[name][row] for row in rows] for name in ("execute_ns", "rma_ns"))
        axes.bar(range(len(rows)), execute, 0.75, color=BLUE, label="Execute")
        axes.bar(range(len(rows)), rma, 0.75, bottom=execute, color=ORANGE, label="RMA")
        axes.set_title(engine, fontsize=FONT_PT + 1)
        quiet(axes)
        axes.set_xticks(range(len(rows)), [table["bar"][row] for row in rows], rotation=60, fontsize=FONT_PT - 1)
    figure.axes[0].set_ylabel("ns a tuple")
    figure.axes[0].legend(fontsize=FONT_PT - 1, frameon=False)
    return figure
