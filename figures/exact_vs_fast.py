"""How far fast simulation is from exact, beside how far two exact runs are from each other."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from figures.style import BLUE, FONT_PT, GREY, looks, quiet

MOST = 2.0


def exact_vs_fast(table: Mapping[str, Sequence[Any]], quantities: Sequence[str]) -> Figure:
    """A column a quantity. Above: fast over exact against exact, one dot a configuration, by kind of query, hollow
    where backpressured. Below: the share of configurations within a q-error, fast and two exact seeds.

    Columns, one entry a configuration: kind (text), behind (bool), and for each quantity three numbers under its
    name: `exact`, `second` and `fast` as in f"{quantity} exact". Entries that are not positive numbers are left out.
    """
    kinds = np.asarray(table["kind"])
    behind = np.asarray(table["behind"], dtype=bool)
    figure = Figure(figsize=(2.9 * len(quantities), 5.2), layout="constrained", dpi=130)
    grid = figure.subplots(2, len(quantities), squeeze=False)
    for column, quantity in enumerate(quantities):
        exact, second, fast = (np.asarray(table[f"{quantity} {run}"], float) for run in ("exact", "second", "fast"))
        with np.errstate(invalid="ignore"):
            there = (exact > 0) & (second > 0) & (fast > 0)
        above, below = grid[0][column], grid[1][column]
        for kind, look in looks(sorted(kinds, reverse=True)).items():
            for hollow in (False, True):
                mask = there & (kinds == kind) & (behind == hollow)
                ratio = np.clip(fast[mask] / exact[mask], 1 / MOST, MOST)
                above.plot(
                    exact[mask], ratio, "o", markersize=4, color=look.colour, alpha=0.8, linestyle="none",
                    markerfacecolor="none" if hollow else look.colour, label=None if hollow else str(kind),
                )  # fmt: skip
        above.axhline(1.0, color=GREY, linewidth=1.0)
        above.set(xscale="log", yscale="log", ylim=(1 / MOST / 1.05, MOST * 1.05), xlabel=f"exact {quantity}")
        above.set_yticks([0.5, 0.7, 1.0, 1.4, 2.0], ["0.5", "0.7", "1", "1.4", "2"])
        above.minorticks_off()
        for values, colour, name in ((second, GREY, "two exact seeds"), (fast, BLUE, "fast against exact")):
            ratio = values[there] / exact[there]
            errors = np.sort(np.maximum(ratio, 1 / ratio))
            below.step(errors, np.arange(1, len(errors) + 1) / max(1, len(errors)), color=colour, label=name)
        below.axhline(0.95, color=GREY, linewidth=0.7, linestyle=":")
        below.set(xlim=(1.0, 1.6), ylim=(0, 1.02), xlabel=f"q-error of {quantity}")
        for axes in (above, below):
            quiet(axes)
    grid[0][0].set_ylabel("fast / exact")
    grid[1][0].set_ylabel("share of configurations")
    grid[0][0].legend(fontsize=FONT_PT - 2, frameon=False, title="hollow: backpressured", title_fontsize=FONT_PT - 2)
    grid[1][0].legend(fontsize=FONT_PT - 2, frameon=False, loc="lower right")
    return figure
