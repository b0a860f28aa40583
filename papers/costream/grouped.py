"""Errors by group of rows: what Figs. 7 and 8 of Costream have in common."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from papers.costream import against
from papers.costream.judging import SHORT
from papers.interface import Result, Table
from papers.recipes import main_corpus
from papers.shapes import against as compared
from papers.sizes import Sizes
from papers.workspace import Workspace
from twin.metrics import METRICS, REGRESSION_METRICS

if TYPE_CHECKING:
    from models.dataset import Dataset

FEWEST = 10
"""A group with fewer runs that have the label, or fewer of one class, has no value."""


@dataclass(frozen=True)
class Group:
    """Some rows of a dataset under a name; groups of one dimension are drawn beside each other. rows: indices."""

    dimension: str
    name: str
    rows: np.ndarray


def by_group(
    workspace: Workspace,
    sizes: Sizes,
    groups_of: Callable[[Dataset], Sequence[Group]],
    bounds: Mapping[str, float],
    title: str,
) -> Result:
    """Two contestants, the paper's architecture and ours, over groups of the test rows of the main corpus.

    bounds: what the paper says of its median `q_error` and `accuracy` in all groups.
    """
    from figures.error_by_group import error_by_group
    from papers.costream import rivals

    recipe = main_corpus(sizes, workspace.seed)
    dataset = workspace.dataset(recipe).take(workspace.split(recipe).test)
    groups = groups_of(dataset)
    rows, figures = list[dict[str, Any]](), {}
    for name, contestant in (("paper_architecture", rivals.paper(sizes)), ("ours", rivals.ours(sizes))):
        found = workspace.fitted(contestant, recipe).predict(dataset)
        mine = [_row(contestant.name, dataset, group, metric, found[metric]) for group in groups for metric in METRICS]
        rows += mine
        figures[name] = lambda mine=mine: error_by_group(_drawn(mine), bounds, "bound in the paper")
    columns = {
        "model": "model",
        "dimension": "by",
        "group": "range",
        "metric": "metric",
        "runs": "runs",
        "q50": "q-error median",
        "q95": "q-error 95 %",
        "accuracy": "balanced accuracy",
        "paper": "bound in the paper",
    }
    kind = {metric: "q_error" if metric in REGRESSION_METRICS else "accuracy" for metric in METRICS}
    shown = [{**row, "metric": SHORT[row["metric"]], "paper": bounds.get(kind[row["metric"]])} for row in rows]
    tables = {"errors": Table(title, columns, tuple(shown)), "against": compared(against.bounded(shown, bounds))}
    return Result(tables, figures)


def _row(model: str, dataset: Dataset, group: Group, metric: str, estimate: np.ndarray) -> dict[str, Any]:
    """Balanced accuracy over all rows of the group, not over equally many of each class: groups are small."""
    from models import evaluation

    labels = dataset.label_G(metric)[group.rows]
    known = ~np.isnan(labels)
    found = evaluation.row(metric, model, labels[known], np.asarray(estimate)[group.rows][known])
    smaller = known.sum() if metric in REGRESSION_METRICS else min((labels == value).sum() for value in (0, 1))
    values = {name: getattr(found, name) if smaller >= FEWEST else None for name in ("q50", "q95", "accuracy")}
    about = {"dimension": group.dimension, "group": group.name, "metric": metric, "runs": int(known.sum())}
    return {"model": model, **about, **values}


def _drawn(rows: Sequence[Mapping[str, Any]]) -> dict[str, list[Any]]:
    quantities = {True: ("q_error", "q50"), False: ("accuracy", "accuracy")}
    table: dict[str, list[Any]] = {name: [] for name in ("dimension", "group", "metric", "quantity", "value")}
    for row in rows:
        quantity, key = quantities[row["metric"] in REGRESSION_METRICS]
        value = float("nan") if row[key] is None else row[key]
        entry = (row["dimension"], row["group"], SHORT[row["metric"]], quantity, value)
        for name, each in zip(table, entry, strict=True):
            table[name].append(each)
    return table
