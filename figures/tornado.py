"""Tornado figure: changes of a result as one input after the other goes to its ends, a bar an input, widest on top."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from matplotlib.figure import Figure

from figures.style import BLUE, FONT_PT, ORANGE, new_figure


def tornado(table: Mapping[str, Sequence[Any]], given: float, quantity: str) -> Figure:
    """Tornado figure. Columns, one entry an input: input, low, high (labels of its ends), at_low, at_high (results
    there).

    given: the result with all inputs as given. quantity: labels the axis.
    """
    count = len(table["input"])
    figure, axes = new_figure(6.0, 1.0 + 0.42 * count)
    order = sorted(range(count), key=lambda row: abs(table["at_high"][row] - table["at_low"][row]))
    for at, row in enumerate(order):
        for side, colour in (("low", BLUE), ("high", ORANGE)):
            end = table[f"at_{side}"][row]
            axes.barh(
                at, end - given, left=given, height=0.55, color=colour, label=f"at its {side} end" if not at else None
            )
            left = end < given or (end == given and side == "low")
            axes.annotate(
                table[side][row], (end, at), (-3 if left else 3, 0), textcoords="offset points",
                ha="right" if left else "left", va="center", fontsize=FONT_PT - 2,
            )  # fmt: skip
    axes.axvline(given, color="#333333", linewidth=0.9)
    axes.set_yticks(range(count), [table["input"][row] for row in order])
    axes.margins(x=0.15)
    axes.set_xlabel(quantity)
    figure.legend(fontsize=FONT_PT - 1, frameon=False, loc="outside upper right", ncols=2)
    return figure
