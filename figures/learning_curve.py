"""Figure of a training: loss by step, training and validation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from figures.style import BLUE, FONT_PT, GREY, ORANGE, new_figure


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
