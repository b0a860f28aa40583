"""Costream, Fig. 8: errors by the type of the query."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from papers.costream.grouped import Group, by_group
from papers.costream.published import FIGURE_8
from papers.interface import Experiment, Result
from papers.recipes import main_corpus
from papers.sizes import Sizes
from papers.workspace import Workspace

if TYPE_CHECKING:
    from models.dataset import Dataset

TYPES = {1: "linear", 2: "2-way join", 3: "3-way join"}
"""By the number of sources."""


def groups(dataset: Dataset) -> list[Group]:
    """All rows by sources, without and with an aggregation."""
    sources, aggregates = (dataset.about[name] for name in ("sources", "aggregates"))
    return [
        Group("query type", name + ending, np.flatnonzero((sources == count) & ((aggregates > 0) == aggregated)))
        for count, name in TYPES.items()
        for aggregated, ending in ((False, ""), (True, " + aggregation"))
    ]


def run(workspace: Workspace, sizes: Sizes) -> Result:
    """The held-out rows of the main corpus by query type."""
    title = "Errors on held-out runs of the simulated corpus, by query type"
    return by_group(workspace, sizes, groups, FIGURE_8, title)


FIG8 = Experiment(
    name="costream.fig8",
    source="Costream, Fig. 8, Exp. 1",
    summary="prediction errors by query type",
    run=run,
    recipes=lambda sizes, seed: [main_corpus(sizes, seed)],
)
