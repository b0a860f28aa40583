"""What all figures share: sizes, colours that survive colour-blindness and grey printing, quiet axes."""

from __future__ import annotations

from matplotlib.axes import Axes
from matplotlib.figure import Figure

BLUE, ORANGE, GREEN, GREY = "#3465a4", "#d9730d", "#2e8b57", "#7a7a7a"
"""Chosen to differ in lightness as well as in hue."""

FONT_PT = 9


def new_figure(width_in: float, height_in: float) -> tuple[Figure, Axes]:
    """An empty figure with one quiet pair of axes; no pyplot, so nothing global."""
    figure = Figure(figsize=(width_in, height_in), layout="constrained", dpi=150)
    axes = figure.subplots()
    quiet(axes)
    return figure, axes


def quiet(axes: Axes) -> None:
    """Leaves only what is read: no box, light grid behind the data, small labels."""
    axes.spines[["top", "right"]].set_visible(False)
    axes.tick_params(labelsize=FONT_PT)
    axes.grid(visible=True, color="#dddddd", linewidth=0.6)
    axes.set_axisbelow(True)
    axes.xaxis.label.set_fontsize(FONT_PT + 1)
    axes.yaxis.label.set_fontsize(FONT_PT + 1)
