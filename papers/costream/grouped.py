"""Costream, Figs. 7 and 8: errors by the mean hardware of the hosts that carry a query, and by its type."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from papers.costream.judging import FIGURE_7, FIGURE_8, LEVELS, PAPERS, SHORT
from papers.drawing import columns
from papers.interface import CaseTable, Drawer, Experiment, Row, Rows, apart, grid, shape, span
from papers.sizes import main_corpus
from papers.workspace import Workspace
from twin.metrics import METRICS, REGRESSION_METRICS

if TYPE_CHECKING:
    from models.dataset import Dataset

FEWEST = 10
"""Least number of runs with the label, and of each class, in a group that has a value."""
KIND = {metric: "q_error" if metric in REGRESSION_METRICS else "accuracy" for metric in METRICS}
EDGES: Mapping[str, tuple[str, tuple[float, ...]]] = {
    "cpu_percent": ("CPU (% of a core)", (50, 200, 300, 400, 500, 600, 800)),
    "ram_mb": ("RAM (GB)", (1000, 4000, 8000, 12000, 16000, 24000, 32000)),
    "bandwidth_mbps": ("bandwidth (Mbit/s)", (25, 200, 800, 1600, 3200, 6400, 10000)),
    "latency_ms": ("latency (ms)", (1, 10, 20, 40, 80, 160)),
}
"""Label and ends of the ranges of each hardware feature, chosen so that each range holds a fair share of the runs."""
TYPES = {1: "linear", 2: "2-way join", 3: "3-way join"}
"""Query types by the number of sources."""


@dataclass(frozen=True)
class RowGroup:
    """Group of some rows of a dataset under a name; groups of one dimension are drawn together. rows: indices."""

    dimension: str
    name: str
    rows: np.ndarray


def by_hardware(dataset: Dataset) -> list[RowGroup]:
    """Groups of all rows by each hardware feature; a range holds its lower end, the last one both."""
    groups = []
    for feature, (label, edges) in EDGES.items():
        mean = dataset.about[f"{feature}_mean"]
        scale = 1000 if feature == "ram_mb" else 1
        for low, high in itertools.pairwise(edges):
            inside = (mean >= low) & ((mean < high) | (high == edges[-1]))
            groups.append(RowGroup(label, f"{low / scale:g}–{high / scale:g}", np.flatnonzero(inside)))
    return groups


def by_type(dataset: Dataset) -> list[RowGroup]:
    """Groups of all rows by number of sources, without and with an aggregation."""
    sources, aggregates = (dataset.about[name] for name in ("sources", "aggregates"))
    return [
        RowGroup("query type", name + ending, np.flatnonzero((sources == count) & ((aggregates > 0) == aggregated)))
        for count, name in TYPES.items()
        for aggregated, ending in ((False, ""), (True, " + aggregation"))
    ]


def errors(groups_of: Callable[[Dataset], Sequence[RowGroup]], workspace: Workspace, contestant: str) -> Iterator[Row]:
    """Rows of a contestant's errors over groups of the test rows of the main corpus."""
    from papers.costream import planners

    recipe = main_corpus(workspace.sizes, workspace.seed)
    dataset = workspace.dataset(recipe).take(workspace.split(recipe).test)
    model = (planners.paper if contestant == "paper" else planners.ours)(workspace.sizes)
    found = workspace.fitted(model, recipe).predict(dataset)
    for group in groups_of(dataset):
        for metric in METRICS:
            yield _row(model.name, dataset, group, metric, found[metric])


def _row(model: str, dataset: Dataset, group: RowGroup, metric: str, estimate: np.ndarray) -> Row:
    """Row of one group and metric. Balanced accuracy is over all rows of the group, not over equally many of each
    class, because groups are small."""
    from models import evaluation

    labels = dataset.label_G(metric)[group.rows]
    known = ~np.isnan(labels)
    found = evaluation.row(metric, model, labels[known], np.asarray(estimate)[group.rows][known])
    smaller = known.sum() if metric in REGRESSION_METRICS else min((labels == value).sum() for value in (0, 1))
    values = {name: getattr(found, name) if smaller >= FEWEST else None for name in ("q50", "q95", "accuracy")}
    about = {
        "dimension": group.dimension,
        "group": group.name,
        "metric": SHORT[metric],
        "quantity": KIND[metric],
        "runs": int(known.sum()),
    }
    return {"model": model, **about, **values}


def bounded(bounds: Mapping[str, float], rows: Rows) -> Rows:
    """Compares groups of runs with one bound for all; rows: q50 or accuracy by metric and group."""
    shapes: list[Row] = []
    for name, key, better in (("q_error", "q50", min), ("accuracy", "accuracy", max)):
        if name in bounds:
            values = [row[key] for row in rows if row["model"] == PAPERS and row[key] is not None]
            good = sum(better(value, bounds[name]) == value for value in values)
            text = f"{good} of {len(values)}, {span(values, '.3g')}"
            what = f"groups with a median {name.replace('_', '-')} within {bounds[name]}"
            shapes.append(
                shape(what, "all", text, good == len(values)) if values else apart(what, "all", "-", "too few runs")
            )
    return [*shapes, LEVELS]


def _value(row: Row) -> float:
    value = row["q50" if row["quantity"] == "q_error" else "accuracy"]
    return float("nan") if value is None else float(value)


def figures(bounds: Mapping[str, float]) -> dict[str, Drawer]:
    """Drawers of figures, one for each contestant."""
    same: dict[str, Any] = {name: name for name in ("dimension", "group", "metric", "quantity")}
    return {
        name: columns(
            "learning.error_by_group",
            bounds,
            "bound in the paper",
            only={"contestant": [contestant]},
            **same,
            value=_value,
        )
        for name, contestant in (("paper_architecture", "paper"), ("ours", "ours"))
    }


def by_group(groups_of: Callable[[Dataset], Sequence[RowGroup]], bounds: Mapping[str, float], title: str) -> CaseTable:
    """Table of two contestants, the paper's architecture and ours. bounds: what the paper says of its median `q_error`
    and `accuracy` in all groups."""
    return CaseTable(
        title=title,
        columns="""
            model | dimension: by | group: range | metric | runs | q50: q-error median | q95: q-error 95 % |
            accuracy: balanced accuracy | paper: bound in the paper
        """,
        cases=grid(contestant=("paper", "ours")),
        measure=partial(errors, groups_of),
        published=bounds,
        by=("quantity",),
        shapes=partial(bounded, bounds),
    )


FIG7 = Experiment(
    name="costream.fig7",
    source="Costream, Fig. 7, Exp. 1",
    summary="prediction errors by CPU, RAM, bandwidth and latency",
    tables={
        "errors": by_group(
            by_hardware,
            FIGURE_7,
            "Errors on held-out runs of the simulated corpus, by the mean of a feature over the hosts in use",
        )
    },
    figures=figures(FIGURE_7),
    recipes=lambda sizes, seed: [main_corpus(sizes, seed)],
)
FIG8 = Experiment(
    name="costream.fig8",
    source="Costream, Fig. 8, Exp. 1",
    summary="prediction errors by query type",
    tables={"errors": by_group(by_type, FIGURE_8, "Errors on held-out runs of the simulated corpus, by query type")},
    figures=figures(FIGURE_8),
    recipes=lambda sizes, seed: [main_corpus(sizes, seed)],
)
