"""Figure of square matrices as heat maps beside each other."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from matplotlib.figure import Figure

from figures.style import FONT_PT


def matrices(panels: Mapping[str, np.ndarray], rows: str, columns: str, quantity: str) -> Figure:
    """Figure with one panel a title. rows, columns: label the axes; quantity: of the colours, scaled by panel."""
    figure = Figure(figsize=(3.9 * len(panels), 3.4), layout="constrained", dpi=150)
    drawn = figure.subplots(1, len(panels), squeeze=False)[0]
    for axes, (title, values) in zip(drawn, panels.items(), strict=True):
        image = axes.imshow(values, cmap="Blues", vmin=0.0)
        bar = figure.colorbar(image, ax=axes, shrink=0.8)
        bar.set_label(quantity, fontsize=FONT_PT)
        bar.ax.tick_params(labelsize=FONT_PT - 1)
        axes.set_title(title, fontsize=FONT_PT + 1)
        axes.set_xlabel(columns, fontsize=FONT_PT)
        axes.set_ylabel(rows, fontsize=FONT_PT)
        axes.set_xticks(range(values.shape[1]))
        axes.set_yticks(range(values.shape[0]))
        axes.tick_params(labelsize=FONT_PT - 1)
    return figure
