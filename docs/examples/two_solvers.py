"""ALBIC: how even two solvers leave a cluster, by how unevenly it is loaded."""

from __future__ import annotations

from optimizers.balancing.search import Flux, Search
from papers.albic.synthetic import PLANNED, cluster
from papers.interface import CaseTable, Experiment, Row, grid, lines
from papers.workspace import Workspace

SOLVERS = {"Flux": Flux(), "search": Search(looks=200)}


def distance(varies: float, solver: str, seed: int) -> float:
    """Load distance of one plan, in percentage points."""
    return SOLVERS[solver].solve(cluster(20, 400, varies=varies, budget=10, seed=seed)).distance


def measured(workspace: Workspace, varies: float, solver: str) -> Row:
    """The cells of a case's row; what takes long is kept in the workspace."""
    return {"distance": workspace.measured("two-solvers", distance, varies=varies, solver=solver)}


TWO_SOLVERS = Experiment(
    name="albic.two-solvers",
    source="ALBIC, Section 5.1",
    summary="load balance of two solvers",
    tables={
        "distance": CaseTable(
            title="Load distance after 10 migrations",
            columns="varies: varies (points) | solver | distance: load distance | paper",
            cases=grid(varies=(20, 40), solver=SOLVERS),
            measure=measured,
            published={"Flux": "never the lower one"},  # goes into the column `paper`
            by=("solver",),
        )
    },
    figures={"distance": lines("varies", "load distance", x="varies", y="distance", series="solver")},
    about=PLANNED,
)
