"""Error of a model by query type, results, load and joins; and the part of it that is the simulator's noise.

The error of a regression is the squared logarithm of the q-error. Two runs of one configuration differ by the noise of
both, so half their mean squared log difference is the variance of one run: no model's mean squared log error is below.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from models.dataset import Dataset
from models.evaluation import LIMIT, pairs, row
from models.labels import LABEL_FLOOR
from models.predictors import Fitted
from twin.metrics import BINARY_METRICS, METRICS

Stratum = Callable[[Mapping[str, np.ndarray]], np.ndarray]

STRATA: Mapping[str, Stratum] = {
    "all": lambda about: np.ones(len(about["sources"]), bool),
    "1 source": lambda about: about["sources"] == 1,
    "2 sources": lambda about: about["sources"] == 2,
    "3 sources": lambda about: about["sources"] >= 3,
    "no join": lambda about: about["joins"] == 0,
    "joins": lambda about: about["joins"] > 0,
    "< 20 results": lambda about: about["tuples_out"] < 20,
    "20 to 200 results": lambda about: (about["tuples_out"] >= 20) & (about["tuples_out"] < 200),
    ">= 200 results": lambda about: about["tuples_out"] >= 200,
    "utilisation < 0.8": lambda about: about["utilisation"] < 0.8,
    "utilisation 0.8 to 1.25": lambda about: (about["utilisation"] >= 0.8) & (about["utilisation"] <= 1.25),
    "utilisation > 1.25": lambda about: about["utilisation"] > 1.25,
}
"""Masks over the rows, from Dataset.about. Strata of different kinds overlap."""
OF_EACH = 20
"""Runs of each class that a stratum needs for a balanced accuracy: with fewer, single runs would decide it."""


@dataclass(frozen=True, slots=True)
class BreakdownRow:
    """Errors of one model, metric and stratum. q50, q95, accuracy: as in evaluation.ErrorRow. limit_q95,
    limit_accuracy: of a run as the prediction of another with a different seed; no model can be much better.

    error: mean squared log error; of a binary metric, the share of wrong answers. share: of the model's summed error
    over all rows, the part from this stratum. noise: the least possible error by the replicates of the stratum (of a
    binary metric: how often two runs disagree, halved). noise_share: noise over error. pairs: replicates they rest on.
    """

    metric: str
    model: str
    stratum: str
    rows: int
    q50: float | None
    q95: float | None
    accuracy: float | None
    limit_q95: float | None
    limit_accuracy: float | None
    error: float | None
    share: float | None
    noise: float | None
    noise_share: float | None
    pairs: int


def error_breakdown(fitted: Fitted, dataset: Dataset, rows: np.ndarray) -> list[BreakdownRow]:
    """Breakdown of errors on some rows of a dataset; all of its replicates count for the noise."""
    part = dataset.take(rows)
    estimates = fitted.predict(part)
    first, second = pairs(dataset)
    repeated = dataset.take(first)
    found = []
    for metric in METRICS:
        if metric not in estimates:
            continue
        truth, one, other = part.label_G(metric), repeated.label_G(metric), dataset.label_G(metric)[second]
        errors, noises = _squared(metric, truth, estimates[metric]), _squared(metric, one, other) / 2
        for stratum, mask in STRATA.items():
            here, there = mask(part.about), mask(repeated.about) & ~np.isnan(noises)
            line = row(metric, fitted.name, truth[here], estimates[metric][here])
            limit = row(metric, LIMIT, one[there], other[there])
            error, noise = _mean(errors[here]), _mean(noises[there])
            found.append(
                BreakdownRow(
                    metric=metric,
                    model=fitted.name,
                    stratum=stratum,
                    rows=line.rows,
                    q50=line.q50,
                    q95=line.q95,
                    accuracy=line.accuracy if _both(truth[here]) else None,
                    limit_q95=limit.q95,
                    limit_accuracy=limit.accuracy if _both(one[there]) else None,
                    error=error,
                    share=_ratio(float(np.nansum(errors[here])), float(np.nansum(errors))),
                    noise=noise,
                    noise_share=_ratio(noise, error),
                    pairs=int(there.sum()),
                )
            )
    return found


def _squared(metric: str, truth: np.ndarray, estimate: np.ndarray) -> np.ndarray:
    """[N] squared log error of each row, or 1 for a wrong answer; NaN where a label is missing."""
    if metric in BINARY_METRICS:
        return np.where(np.isnan(truth) | np.isnan(estimate), np.nan, (truth > 0.5) != (estimate > 0.5))
    return np.asarray((np.log(np.maximum(truth, LABEL_FLOOR)) - np.log(np.maximum(estimate, LABEL_FLOOR))) ** 2)


def _both(truth: np.ndarray) -> bool:
    """Whether there are enough rows of both classes."""
    return min(int((truth > 0.5).sum()), int((truth <= 0.5).sum())) >= OF_EACH


def _mean(values: np.ndarray) -> float | None:
    known = values[~np.isnan(values)]
    return float(known.mean()) if len(known) else None


def _ratio(part: float | None, whole: float | None) -> float | None:
    return None if part is None or not whole else part / whole
