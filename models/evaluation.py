"""Errors of predictions, over all rows and by group, beside the noise of the simulator."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from models.dataset import Dataset
from models.labels import LABEL_FLOOR
from models.predictors import Fitted
from twin.errors import BadInput
from twin.metrics import BINARY_METRICS, ESTIMATED
from twin.randomness import random_stream

# errors --------------------------------------------------------------------------------------------------------------
# Errors of predictions: q-errors, balanced accuracy, and the replicate limit (Costream, Table III).


LIMIT = "replicate limit"
BELOW_ALL = 0.1
"""Share of the smallest label that is the least an estimate counts as."""


@dataclass(frozen=True, slots=True)
class ErrorRow:
    """Errors of one model and metric. rows: number of runs. q50, q95: quantiles of the q-error (regressions). accuracy:
    balanced accuracy (binaries), as on a test set of equally frequent classes. *_se: bootstrap standard errors, if
    asked for. None where a value does not apply."""

    metric: str
    model: str
    rows: int
    q50: float | None = None
    q95: float | None = None
    accuracy: float | None = None
    q50_se: float | None = None
    q95_se: float | None = None
    accuracy_se: float | None = None


def q_error(truth: np.ndarray, estimate: np.ndarray) -> np.ndarray:
    """q-error max(c / c', c' / c) >= 1 of each estimate, with both at least LABEL_FLOOR."""
    ratio = np.maximum(truth, LABEL_FLOOR) / np.maximum(estimate, LABEL_FLOOR)
    return np.maximum(ratio, 1 / ratio)


def balanced_accuracy(truth: np.ndarray, probability: np.ndarray) -> float:
    """Balanced accuracy: mean of the true positive and true negative rates, the accuracy on equally frequent classes.

    Raises BadInput if a class is missing.
    """
    yes, said = truth > 0.5, probability > 0.5
    if yes.all() or not yes.any():
        raise BadInput(f"all {len(truth)} test rows have the same label; balanced accuracy needs both, take more rows")
    return float((said[yes].mean() + (~said[~yes]).mean()) / 2)


def row(
    metric: str, model: str, truth: np.ndarray, estimate: np.ndarray, bootstrap: int = 0, seed: int = 0
) -> ErrorRow:
    """Errors of one model and metric; rows without a label (NaN) are left out.

    An estimate below a tenth of every label counts as that tenth, as a run cannot show anything so small (half a
    result, a negative latency). bootstrap: number of resamples for the standard errors, 0 for none. A binary metric
    with a single class has no accuracy.
    """
    truth, estimate = truth[~np.isnan(truth)], estimate[~np.isnan(truth)]
    measures = _binary if metric in BINARY_METRICS else _regression
    if metric not in BINARY_METRICS and len(truth):
        estimate = np.maximum(estimate, BELOW_ALL * truth.min())
    found = measures(truth, estimate)
    errors = _standard_errors(measures, truth, estimate, bootstrap, seed) if bootstrap and found else {}
    return ErrorRow(metric, model, len(truth), **found, **{f"{name}_se": value for name, value in errors.items()})


Measures = Callable[[np.ndarray, np.ndarray], dict[str, float]]


def _regression(truth: np.ndarray, estimate: np.ndarray) -> dict[str, float]:
    if not len(truth):
        return {}
    q50, q95 = np.quantile(q_error(truth, estimate), [0.5, 0.95])
    return {"q50": float(q50), "q95": float(q95)}


def _binary(truth: np.ndarray, estimate: np.ndarray) -> dict[str, float]:
    return {"accuracy": balanced_accuracy(truth, estimate)} if has_both(truth) else {}


def has_both(truth: np.ndarray) -> bool:
    """Whether both classes of a binary metric occur."""
    return 0 < int((truth > 0.5).sum()) < len(truth)


def _standard_errors(
    measures: Measures, truth: np.ndarray, estimate: np.ndarray, resamples: int, seed: int
) -> dict[str, float]:
    """Bootstrap standard errors: standard deviations over resamples of the rows, drawn with replacement."""
    rng = random_stream(seed, "bootstrap")
    found = []
    for _ in range(resamples):
        drawn = rng.integers(len(truth), size=len(truth))
        found.append(measures(truth[drawn], estimate[drawn]))
    found = [each for each in found if each]  # a resample may lack a class
    return {name: float(np.std([each[name] for each in found])) for name in (found[0] if found else {})}


def rows_of(
    name: str, estimates: Mapping[str, np.ndarray], dataset: Dataset, bootstrap: int = 0, seed: int = 0
) -> list[ErrorRow]:
    """Errors of each estimated metric. estimates: by metric, for every row of the dataset [G]."""
    return [
        row(metric, name, dataset.label_G(metric), estimates[metric], bootstrap, seed)
        for metric in ESTIMATED
        if metric in estimates
    ]


def evaluate(fitted: Fitted, dataset: Dataset, bootstrap: int = 0, seed: int = 0) -> list[ErrorRow]:
    """Errors of a fitted model on every row of a dataset (`Dataset.take` gives a part of one)."""
    return rows_of(fitted.name, fitted.predict(dataset), dataset, bootstrap, seed)


def replicate_rows(
    dataset: Dataset, metrics: Sequence[str] = ESTIMATED, bootstrap: int = 0, seed: int = 0
) -> list[ErrorRow]:
    """Errors of a run as a prediction of another run that differs only in the seed; empty without such pairs.

    No model can be much better. A perfect model has the noise of one run, a pair that of two, so the model's q-errors
    are about the power 0.71 of these.
    """
    first, second = pairs(dataset)
    if not len(first):
        return []
    found = []
    for metric in metrics:
        one, other = dataset.label_G(metric)[first], dataset.label_G(metric)[second]
        known = ~np.isnan(one) & ~np.isnan(other)
        found.append(row(metric, LIMIT, one[known], other[known], bootstrap, seed))
    return found


def pairs(dataset: Dataset) -> tuple[np.ndarray, np.ndarray]:
    """Row indices of the first and second run of every configuration that has two."""
    seen: dict[str, list[int]] = {}
    for index, value in enumerate(dataset.config_hash):
        seen.setdefault(value, []).append(index)
    found = np.array([(rows[0], rows[1]) for rows in seen.values() if len(rows) > 1], dtype=int).reshape(-1, 2)
    return found[:, 0], found[:, 1]


# errors by group -----------------------------------------------------------------------------------------------------
# Error of a model by query type, results, load and joins; and the part of it that is the simulator's noise.
#
# The error of a regression is the squared logarithm of the q-error. Two runs of one configuration differ by the noise
# of both, so half their mean squared log difference is the variance of one run: no model's mean squared log error is
# below.


Stratum = Callable[[Mapping[str, np.ndarray]], np.ndarray]

STRATA: Mapping[str, Stratum] = {
    "all": lambda about: np.ones(len(about["sources"]), bool),
    "1 source": lambda about: about["sources"] == 1,
    "2 sources": lambda about: about["sources"] == 2,
    "3 sources": lambda about: about["sources"] >= 3,
    "no join": lambda about: about["joins"] == 0,
    "joins": lambda about: about["joins"] > 0,
    "< 20 results": lambda about: about["records_out"] < 20,
    "20 to 200 results": lambda about: (about["records_out"] >= 20) & (about["records_out"] < 200),
    ">= 200 results": lambda about: about["records_out"] >= 200,
    "utilisation < 0.8": lambda about: about["utilisation"] < 0.8,
    "utilisation 0.8 to 1.25": lambda about: (about["utilisation"] >= 0.8) & (about["utilisation"] <= 1.25),
    "utilisation > 1.25": lambda about: about["utilisation"] > 1.25,
    "steady arrivals": lambda about: about["peak"] <= 1.0,
    "bursts": lambda about: about["peak"] > 1.0,
    "windows over event time": lambda about: about["event_time"] > 0,
    "rows kept by key": lambda about: about["rows"] > 0,
    "calls": lambda about: about["calls"] > 0,
    "checkpoints": lambda about: about["checkpoints"] > 0,
    "pauses of a collector": lambda about: about["pauses"] > 0,
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
    for metric in ESTIMATED:
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
