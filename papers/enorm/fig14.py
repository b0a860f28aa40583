"""Enorm, Fig. 14: into how many components random jobs are fused."""

from __future__ import annotations

from papers.enorm.fusing import ABOUT, NOTES, drawn, means, outcomes
from papers.enorm.published import COMPONENTS
from papers.interface import Experiment, Result, Table
from papers.sizes import Sizes
from papers.workspace import Workspace

COLUMNS = {
    "operators": "operators",
    "score": "score",
    "mean": "components",
    "standard_error": "standard error",
    "paper": "paper",
    "cyclic": "share with circles",
}


def run(workspace: Workspace, sizes: Sizes) -> Result:
    """All algorithms on the same jobs."""
    rows = list(means(outcomes(workspace, sizes.n), "components", COMPONENTS))
    table = Table(f"Components after fusion, {sizes.n} random jobs a size", COLUMNS, tuple(rows))
    figures = {"components": lambda: drawn(rows, "components, mean")}
    return Result({"components": table}, figures, NOTES, ABOUT)


FIG14 = Experiment(
    name="enorm.fig14",
    source="Enorm, Fig. 14, Section 7.6",
    summary="components after automatic fusion of random jobs, by score",
    run=run,
)
