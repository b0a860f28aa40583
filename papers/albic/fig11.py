"""ALBIC, Fig. 11: collocation and load distance by size of the cluster, against COLA."""

from __future__ import annotations

import itertools
from typing import Any, get_args

from papers.albic.clusters import PLANNED, SIZES
from papers.albic.collocating import COLUMNS, NOTES, WAYS, course, row
from papers.albic.jobs import Topology
from papers.interface import Experiment, Result, Table
from papers.sizes import Sizes
from papers.workspace import Workspace

PERCENT = 50


def run(workspace: Workspace, _sizes: Sizes) -> Result:
    """Every way on every cluster."""
    from figures.lines import lines

    cases = list(itertools.product(get_args(Topology), SIZES, WAYS))
    rows = list[dict[str, Any]]()
    with workspace.audience.progress("courses") as report:
        for topology, size, way in cases:
            found = course(workspace, size, topology, PERCENT, way)
            rows.append({"nodes": SIZES[size][0], **row(topology, way, found)})
            report(len(rows), len(cases))
    title = "Half of the key groups with one-to-one communication: collocation and load distance over 40 rounds"
    shown = [each for each in rows if each["topology"] == "pairs"]
    drawn = {
        name: [each[key] for each in shown] for name, key in (("series", "way"), ("x", "nodes"), ("y", "after_40"))
    }
    return Result(
        {"sizes": Table(title, {"nodes": "nodes", **COLUMNS}, tuple(rows))},
        {"collocation-pairs": lambda: lines(drawn, "nodes", "collocation, round 40 (%)")},
        (*NOTES, "Twenty migrations a round are ever fewer of the key groups as clusters grow."),
        about=PLANNED,
    )


FIG11 = Experiment(
    name="albic.fig11",
    source="ALBIC, Fig. 11, Section 5.3",
    summary="collocation and load distance of ALBIC, COLA and the joint search, by size of the cluster",
    run=run,
)
