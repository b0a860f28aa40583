"""How throughput grows with the sockets in use, against growing in proportion."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from matplotlib.figure import Figure

from figures.style import FONT_PT, looks, new_figure


def scalability(table: Mapping[str, Sequence[Any]]) -> Figure:
    """A line a series over the number of sockets, and the straight one in grey.

    Columns, one entry a point: series (text), sockets, speed_up (against one socket).
    """
    figure, axes = new_figure(4.4, 3.2)
    sockets = sorted(set(table["sockets"]))
    axes.plot(sockets, sockets, color="#bbbbbb", linewidth=1.0, label="linear")
    for name, look in looks(table["series"]).items():
        rows = [row for row, each in enumerate(table["series"]) if each == name]
        x, y = ([table[key][row] for row in rows] for key in ("sockets", "speed_up"))
        style: dict[str, Any] = {"color": look.colour, "marker": look.marker, "linestyle": look.dashes}
        axes.plot(x, y, **style, linewidth=1.4, markersize=4, label=name)
    axes.set_xticks(sockets)
    axes.set_ylim(bottom=0.0)
    axes.set_xlabel("sockets")
    axes.set_ylabel("simulated throughput, 1 = one socket")
    axes.legend(fontsize=FONT_PT - 1, frameon=False)
    return figure
