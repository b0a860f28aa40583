"""How good a cost model is: q-errors, balanced accuracy, baselines, and the replicate limit (Costream, Table III)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from models.dataset import Dataset, Split, balanced
from models.flat_vector import LabelScale, train_flat_vector
from models.labels import LABEL_FLOOR
from models.prediction import LearnedCostModel
from twin.errors import BadInput
from twin.metrics import BINARY_METRICS, METRICS, REGRESSION_METRICS


class Row(NamedTuple):
    """One line of the table. q50, q95: quantiles of the q-error (regressions). accuracy: balanced, the mean of the
    shares found of both classes (binaries). rows: how many runs it is over. None where it does not apply."""

    metric: str
    model: str
    rows: int
    q50: float | None
    q95: float | None
    accuracy: float | None


@dataclass(frozen=True)
class Truth:
    """Labels [N] of one metric over some rows, and which rows these are."""

    rows: np.ndarray
    labels: np.ndarray


def q_error(truth: np.ndarray, estimate: np.ndarray) -> np.ndarray:
    """max(c / c', c' / c) >= 1, with both at least LABEL_FLOOR."""
    ratio = np.maximum(truth, LABEL_FLOOR) / np.maximum(estimate, LABEL_FLOOR)
    return np.maximum(ratio, 1 / ratio)


def balanced_accuracy(truth: np.ndarray, probability: np.ndarray) -> float:
    """Mean of the shares of yes and of no that are found: the accuracy expected on equally frequent classes.

    Raises BadInput if a class is missing.
    """
    yes, said = truth > 0.5, probability > 0.5
    if yes.all() or not yes.any():
        raise BadInput(f"all {len(truth)} test rows have the same label; balanced accuracy needs both, take more rows")
    return float((said[yes].mean() + (~said[~yes]).mean()) / 2)


def row(metric: str, model: str, truth: np.ndarray, estimate: np.ndarray) -> Row:
    """One line for one model and metric; a binary metric with a single class has no accuracy."""
    if metric in BINARY_METRICS:
        both = 0 < (truth > 0.5).sum() < len(truth)
        return Row(metric, model, len(truth), None, None, balanced_accuracy(truth, estimate) if both else None)
    if not len(truth):
        return Row(metric, model, 0, None, None, None)
    q50, q95 = np.quantile(q_error(truth, estimate), [0.5, 0.95])
    return Row(metric, model, len(truth), float(q50), float(q95), None)


def truth_of(dataset: Dataset, rows: np.ndarray, metric: str, seed: int) -> Truth:
    """The rows that have the label; for a binary metric as many of either class, as in Costream, if both are there."""
    labels = dataset.labels_Gx5[rows, METRICS.index(metric)]
    rows, labels = rows[~np.isnan(labels)], labels[~np.isnan(labels)]
    if metric in BINARY_METRICS and 0 < labels.sum() < len(labels):
        rows = balanced(rows, labels, seed)
    return Truth(rows, dataset.labels_Gx5[rows, METRICS.index(metric)])


def evaluate(model: LearnedCostModel, dataset: Dataset, rows: np.ndarray, seed: int = 0) -> list[Row]:
    """The learned model on some rows."""
    estimates = model.predict_graphs(dataset.graphs)
    found = []
    for metric in METRICS:
        if metric in estimates.values:
            truth = truth_of(dataset, rows, metric, seed)
            found.append(row(metric, model.name, truth.labels, estimates.cost(metric)[truth.rows]))
    return found


def flat_vector_rows(dataset: Dataset, parts: Split, metrics: Sequence[str] = METRICS, seed: int = 0) -> list[Row]:
    """The Flat Vector baseline, trained on the same rows: on raw and on log labels (binaries: once)."""
    found = []
    for metric in metrics:
        scales: tuple[LabelScale, ...] = ("raw", "log") if metric in REGRESSION_METRICS else ("raw",)
        labels = dataset.labels_Gx5[:, METRICS.index(metric)]
        known = [part[~np.isnan(labels[part])] for part in (parts.train, parts.valid)]
        if metric in BINARY_METRICS and len(set(labels[known[0]])) < 2:
            continue
        truth = truth_of(dataset, parts.test, metric, seed)
        for scale in scales:
            sets = [(dataset.flat_GxF[part], labels[part]) for part in known]
            trees = train_flat_vector(metric, scale, sets[0], sets[1], seed)
            name = f"Flat Vector ({scale})" if metric in REGRESSION_METRICS else "Flat Vector"
            found.append(row(metric, name, truth.labels, trees.predict(dataset.flat_GxF[truth.rows])))
    return found


def replicate_rows(dataset: Dataset) -> list[Row]:
    """What two runs of one configuration that differ only in the seed know of each other: no model can be much better.

    Empty if no configuration is in the dataset twice.
    """
    first, second = _pairs(dataset.config_hash)
    if not len(first):
        return []
    found = []
    for m, metric in enumerate(METRICS):
        one, other = dataset.labels_Gx5[first, m], dataset.labels_Gx5[second, m]
        known = ~np.isnan(one) & ~np.isnan(other)
        found.append(row(metric, "replicate limit", one[known], other[known]))
    return found


def _pairs(hashes: Iterable[str]) -> tuple[np.ndarray, np.ndarray]:
    seen: dict[str, list[int]] = {}
    for index, value in enumerate(hashes):
        seen.setdefault(value, []).append(index)
    pairs = [(rows[0], rows[1]) for rows in seen.values() if len(rows) > 1]
    array = np.array(pairs, dtype=int).reshape(-1, 2)
    return array[:, 0], array[:, 1]
