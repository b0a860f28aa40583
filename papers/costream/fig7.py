"""Costream, Fig. 7: errors by the mean hardware of the hosts that carry a query."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from papers.costream.grouped import Group, by_group
from papers.costream.published import FIGURE_7
from papers.interface import Experiment, Result
from papers.recipes import main_corpus
from papers.sizes import Sizes
from papers.workspace import Workspace

if TYPE_CHECKING:
    from models.dataset import Dataset

EDGES: Mapping[str, tuple[str, tuple[float, ...]]] = {
    "cpu_percent": ("CPU (% of a core)", (50, 200, 300, 400, 500, 600, 800)),
    "ram_mb": ("RAM (GB)", (1000, 4000, 8000, 12000, 16000, 24000, 32000)),
    "bandwidth_mbps": ("bandwidth (Mbit/s)", (25, 200, 800, 1600, 3200, 6400, 10000)),
    "latency_ms": ("latency (ms)", (1, 10, 20, 40, 80, 160)),
}
"""Hardware feature -> label and ends of the ranges, chosen so that each holds a fair share of the runs."""


def groups(dataset: Dataset) -> list[Group]:
    """All rows, once divided by each feature; a range holds its lower end, the last one both."""
    found = []
    for feature, (label, edges) in EDGES.items():
        mean = dataset.about[f"{feature}_mean"]
        scale = 1000 if feature == "ram_mb" else 1
        for low, high in itertools.pairwise(edges):
            inside = (mean >= low) & ((mean < high) | (high == edges[-1]))
            found.append(Group(label, f"{low / scale:g}–{high / scale:g}", np.flatnonzero(inside)))
    return found


def run(workspace: Workspace, sizes: Sizes) -> Result:
    """The held-out rows of the main corpus by mean CPU, RAM, bandwidth and latency of the hosts in use."""
    title = "Errors on held-out runs of the simulated corpus, by the mean of a feature over the hosts in use"
    return by_group(workspace, sizes, groups, FIGURE_7, title)


FIG7 = Experiment(
    name="costream.fig7",
    source="Costream, Fig. 7, Exp. 1",
    summary="prediction errors by CPU, RAM, bandwidth and latency",
    run=run,
    recipes=lambda sizes, seed: [main_corpus(sizes, seed)],
)
