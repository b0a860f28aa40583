"""ALBIC, Fig. 10: collocation and load distance by how much can be collocated, against COLA."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, get_args

from papers.albic.clusters import PLANNED
from papers.albic.collocating import COLUMNS, NOTES, WAYS, course, row
from papers.albic.jobs import Topology
from papers.interface import Experiment, Result, Table
from papers.sizes import Sizes
from papers.workspace import Workspace

PERCENTS = (0, 25, 50, 75, 100)
SIZE = "fig3"


def run(workspace: Workspace, _sizes: Sizes) -> Result:
    """Every way at every share of one-to-one communication."""
    cases = list(itertools.product(get_args(Topology), PERCENTS, WAYS))
    rows = list[dict[str, Any]]()
    with workspace.audience.progress("courses") as report:
        for topology, percent, way in cases:
            found = course(workspace, SIZE, topology, percent, way)
            rows.append({"percent": percent, **row(topology, way, found)})
            report(len(rows), len(cases))
    title = "40 nodes, 800 key groups, 20 operators: collocation and load distance over 40 rounds"
    table = Table(title, {"percent": "one-to-one (%)", **COLUMNS}, tuple(rows))
    figures: dict[str, Callable[[], Any]] = {
        f"{quantity}-{topology}": partial(_drawn, rows, topology, key, label)
        for topology in get_args(Topology)
        for quantity, key, label in (
            ("collocation", "after_40", "collocation, round 40 (%)"),
            ("distance", "last", "load distance, last 10 rounds"),
        )
    }
    return Result({"collocation": table}, figures, NOTES, about=PLANNED)


def _drawn(rows: Sequence[dict[str, Any]], topology: str, key: str, label: str) -> Any:
    from figures.lines import lines

    shown = [each for each in rows if each["topology"] == topology]
    drawn = {
        name: [each[column] for each in shown] for name, column in (("series", "way"), ("x", "percent"), ("y", key))
    }
    return lines(drawn, "key groups with one-to-one communication (%)", label)


FIG10 = Experiment(
    name="albic.fig10",
    source="ALBIC, Fig. 10, Section 5.3",
    summary="collocation and load distance of ALBIC, COLA and the joint search, by what can be collocated",
    run=run,
)
