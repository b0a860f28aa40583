"""Time per tuple by NUMA distance: measured, the published estimate, and simulated."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from figures.style import BLUE, FONT_PT, GREY, ORANGE, quiet


def numa_times(table: Mapping[str, Sequence[Any]]) -> Figure:
    """Panels by operator, a group of bars a pair of sockets.

    Columns, one entry an operator and pair: operator, sockets (text), measured, estimated, simulated (ns a tuple).
    """
    operators = list(dict.fromkeys(table["operator"]))
    figure = Figure(figsize=(3.6 * len(operators), 2.8), layout="constrained", dpi=130)
    panels = figure.subplots(1, len(operators), squeeze=False)[0]
    for axes, operator in zip(panels, operators, strict=True):
        rows = [index for index, each in enumerate(table["operator"]) if each == operator]
        where = np.arange(len(rows))
        for shift, (name, colour) in enumerate((("measured", GREY), ("estimated", ORANGE), ("simulated", BLUE))):
            axes.bar(where + 0.27 * (shift - 1), [table[name][row] for row in rows], 0.25, color=colour, label=name)
        axes.set_xticks(where, [table["sockets"][row] for row in rows])
        axes.set_title(operator, fontsize=FONT_PT + 1)
        quiet(axes)
    panels[0].set_ylabel("ns a tuple")
    panels[0].legend(fontsize=FONT_PT - 1, frameon=False)
    return figure
