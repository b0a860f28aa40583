"""Contestants judged on queries that no training run had: a block of lines for each corpus of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from papers.costream.judging import COLUMNS as METRIC_COLUMNS
from papers.costream.judging import every_row, published
from papers.costream.published import Reported
from twin.metrics import BINARY_METRICS

if TYPE_CHECKING:
    from models.dataset import Dataset
    from models.predictors import Fitted

COLUMNS: Mapping[str, str] = {"queries": "queries", **METRIC_COLUMNS}
"""Of a table of `block`s."""

ONE_CLASS = (
    "All runs of some of these corpora are alike in RO or S: the cell then has the share that is predicted right."
)


def block(
    queries: str, reported: Mapping[str, Reported], models: Iterable[Fitted], dataset: Dataset, seed: int
) -> list[dict[str, Any]]:
    """The paper's lines, and one a model over all rows of the dataset. queries: says which they are."""
    return [
        *(published(name, figures, queries=queries) for name, figures in reported.items()),
        *(every_row(model, dataset, seed, queries=queries) | _one_class(model, dataset) for model in models),
    ]


def _one_class(model: Fitted, dataset: Dataset) -> dict[str, Any]:
    """Binary metrics of which the rows have one class only: no accuracy over both classes, but the share that is right
    of the one."""
    predicted = model.predict(dataset)
    cells: dict[str, Any] = {}
    for metric in BINARY_METRICS:
        labels = dataset.label_G(metric)
        if metric in predicted and labels.min() == labels.max():
            right = float(np.mean((predicted[metric] > 0.5) == (labels > 0.5)))
            cells |= {metric: f"{right:.1%} of one class", f"{metric}_right": right}
    return cells
