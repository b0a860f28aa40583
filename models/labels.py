"""Converts the metrics of a run to targets of the network, and back.

Regressions are learned on one of three scales: `log`, the natural logarithm, where the squared error is the squared
log of the q-error; `log1p`, log(1 + y), Costream's MSLE, which cannot tell 0.004 from 0.04 records/s (results that
rare are a tenth of a corpus); `ratio`, the logarithm of the ratio to the analytic rate model's answer, so that a
network which learns nothing repeats that. All are standardised. A label below LABEL_FLOOR counts as LABEL_FLOOR.
Binary metrics stay 0 or 1.

A fourth, `residual`, is `ratio` for a network that begins by repeating the rate model exactly: no mean is added, its
logits of binary metrics are offsets from the rate model's, and rows count as often as they occur, so that its
probabilities are those of the corpus. A gate a metric, fitted on validation rows, is the share of its output that
counts.

The rate model has no quantiles: those of a latency are learned as ratios to its estimate of the mean, and there the
mean log ratio of the training rows is added. Quantiles of a latency never fall from one to the next, and the delay of
results is no longer than their processing latency.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Literal

import numpy as np
from pydantic import ConfigDict, Field, FiniteFloat, with_config

from twin.errors import BadInput
from twin.metrics import BINARY_METRICS, DELAY, ESTIMATED, LATENCIES, METRICS, QUANTILES

LABEL_FLOOR = 1e-6
LEAST = {"checkpoint_bytes": 1.0}
"""Least values of metrics that may be 0 and are no times: below, differences do not count."""
LOG_LIMIT = 80.0  # its exp() still fits a float32
RATIO_LIMIT = float(np.log(1000.0))
"""Largest log ratio of a label to the rate model: a few rows further off must not decide what is learned."""

LOGIT_LIMIT = 6.0
"""Largest logit of the rate model: were it surer, no network could correct it."""

LabelScale = Literal["log", "log1p", "ratio", "residual"]
RELATIVE: frozenset[str] = frozenset({"ratio", "residual"})
"""Scales that include the rate model's answer."""


@with_config(ConfigDict(extra="forbid"))
@dataclass(frozen=True, slots=True)
class Scaling:
    """Standardisation of the targets of one network's metrics: (y on its scale - mean) / deviation; binary: 0 and 1.
    gate: share of each output that counts, from 0 to 1, by kind of plan (KINDS) and metric; none: all of it."""

    mean: tuple[FiniteFloat, ...]
    deviation: tuple[Annotated[FiniteFloat, Field(gt=0)], ...]
    scale: LabelScale = "log"
    gate: tuple[tuple[Annotated[float, Field(ge=0, le=1)], ...], ...] = ()


@dataclass(frozen=True, slots=True)
class Targets:
    """Targets of rows. values_GxM: standardised. weights_GxM: 0 without a label, else mean 1 over the training rows.
    offsets_GxM: added to the outputs: the rate model's logits, on the scale `residual`; else 0."""

    values_GxM: np.ndarray
    weights_GxM: np.ndarray
    offsets_GxM: np.ndarray


def binary(metrics: Sequence[str]) -> np.ndarray:
    """[M] whether a metric is a yes or no."""
    return np.array([metric in BINARY_METRICS for metric in metrics])


def columns_of(metrics: Sequence[str]) -> list[int]:
    """Columns of metrics in tables with all of ESTIMATED."""
    return [ESTIMATED.index(metric) for metric in metrics]


def known_to_rates(metric: str) -> bool:
    """Whether the rate model estimates a metric itself; else its estimate of the mean stands there."""
    return metric not in QUANTILES


def _of(metrics: Sequence[str], table_GxA: np.ndarray) -> np.ndarray:
    """[G, M] columns of a table with all of ESTIMATED, no less than LEAST."""
    return np.maximum(table_GxA[:, columns_of(metrics)], [LEAST.get(metric, 0.0) for metric in metrics])


def yes_of(metrics: Sequence[str], labels_GxA: np.ndarray) -> dict[str, float]:
    """Share of the labelled rows that are yes, by binary metric."""
    binaries = [metric for metric in metrics if metric in BINARY_METRICS]
    return {metric: float(np.nanmean(labels_GxA[:, ESTIMATED.index(metric)])) for metric in binaries}


def on_scale(labels: np.ndarray, rates: np.ndarray, scale: LabelScale) -> np.ndarray:
    """Regressions on their scale, relative to the rate model's answer if the scale is; NaN where there is no label."""
    floored = np.maximum(labels, LABEL_FLOOR)
    values = np.log1p(floored) if scale == "log1p" else np.log(floored)
    return np.clip(values - _log(rates), -RATIO_LIMIT, RATIO_LIMIT) if scale in RELATIVE else values


def log_costs(values: np.ndarray, rates: np.ndarray, scale: LabelScale) -> np.ndarray:
    """Converts regressions from their scale back to logarithms of costs."""
    if scale == "log1p":
        values = _log(np.expm1(np.clip(values, 0.0, LOG_LIMIT)))
    if scale in RELATIVE:
        values = values + _log(rates)
    return np.clip(values, -LOG_LIMIT, LOG_LIMIT)


def require_learnable(metric: str, label_N: np.ndarray, where: str) -> None:
    """Raises BadInput if no row has a label, or a yes-or-no metric has one class only."""
    known = label_N[~np.isnan(label_N)]
    if not len(known):
        raise BadInput(f"{metric} has no label in the {where} rows: no run succeeded; simulate other scenarios")
    if metric in BINARY_METRICS and known.min() == known.max():
        raise BadInput(
            f"{metric} is {bool(known[0])} in all {len(known)} {where} rows, so it cannot be learned; "
            "add runs of the other class (twin dataset takes several corpora, and twin corpus --scenario mixes in "
            "random queries), or name the other metrics alone (--metrics A,B,...), with which no plan can be chosen"
        )


def scaled(metrics: Sequence[str], labels_GxA: np.ndarray, rates_GxA: np.ndarray, scale: LabelScale) -> np.ndarray:
    """[G, M] labels: regressions on their scale, 0 or 1 of binaries; NaN where there is no label."""
    labels_GxM, rates_GxM = (_of(metrics, each) for each in (labels_GxA, rates_GxA))
    return np.where(binary(metrics), labels_GxM, on_scale(labels_GxM, rates_GxM, scale))


def scaling_of(metrics: Sequence[str], values_GxM: np.ndarray, scale: LabelScale) -> Scaling:
    """Scaling from the `scaled` labels of the training rows. Raises BadInput as `require_learnable` does."""
    means, deviations = [], []
    for metric, column, yes_no in zip(metrics, values_GxM.T, binary(metrics), strict=True):
        require_learnable(metric, column, "training")
        known = column[~np.isnan(column)]
        repeats = scale == "residual" and known_to_rates(metric)
        means.append(0.0 if yes_no or repeats else float(known.mean()))
        deviations.append(1.0 if yes_no else max(float(np.sqrt(np.mean((known - means[-1]) ** 2))), 1e-3))
    return Scaling(tuple(means), tuple(deviations), scale)


def targets(
    metrics: Sequence[str], values_GxM: np.ndarray, rates_GxA: np.ndarray, scaling: Scaling, training: np.ndarray
) -> Targets:
    """Targets of all rows from their `scaled` labels. Each class of a binary metric gets the same total weight over
    the `training` rows, as Costream balances its classes, so 0.5 is the right threshold where both are equally
    frequent. If all of them are of one class the metric has no weight: the network could only forget the
    other class. The scale `residual` keeps the classes as frequent as they are instead."""
    standard_GxM = (values_GxM - np.array(scaling.mean)) / np.array(scaling.deviation)
    known_GxM = ~np.isnan(standard_GxM)
    weights_GxM = np.zeros_like(standard_GxM)
    for m, yes_no in enumerate(binary(metrics)):
        known, value = known_GxM[:, m], standard_GxM[:, m]
        if not yes_no or scaling.scale == "residual":
            weights_GxM[known, m] = 1.0
        elif 0 < (share := float(value[training][known[training]].mean())) < 1:
            weights_GxM[known, m] = np.where(value[known] > 0.5, 0.5 / share, 0.5 / (1 - share))
    offsets_GxM = logits(metrics, rates_GxA, scaling.scale)
    return Targets(*(np.nan_to_num(each).astype(np.float32) for each in (standard_GxM, weights_GxM, offsets_GxM)))


def logits(metrics: Sequence[str], rates_GxA: np.ndarray, scale: LabelScale) -> np.ndarray:
    """[G, M] logits of the rate model, of binary metrics on the scale `residual`; else 0."""
    if scale != "residual":
        return np.zeros((len(rates_GxA), len(metrics)))
    sure = 1.0 / (1.0 + np.exp(-LOGIT_LIMIT))
    probability = np.clip(rates_GxA[:, columns_of(metrics)], 1.0 - sure, sure)
    return np.where(binary(metrics), np.log(probability / (1.0 - probability)), 0.0)


def in_units(
    metrics: Sequence[str], outputs_GxM: np.ndarray, rates_GxA: np.ndarray, kind_G: np.ndarray, scaling: Scaling
) -> np.ndarray:
    """[G, M] log cost (regressions) or probability (binaries) from network outputs; of several networks [..., G, M].

    kind_G: of each plan, as from `kinds_of_plans`; it chooses the gates that hold outputs back.
    """
    if scaling.gate:
        outputs_GxM = outputs_GxM * np.array(scaling.gate)[kind_G]
    values = outputs_GxM * np.array(scaling.deviation) + np.array(scaling.mean)
    log_cost = log_costs(values, _of(metrics, rates_GxA), scaling.scale)
    logits_GxM = outputs_GxM + logits(metrics, rates_GxA, scaling.scale)
    probability = 1 / (1 + np.exp(-np.clip(logits_GxM, -LOG_LIMIT, LOG_LIMIT)))
    found = np.where(binary(metrics), probability, log_cost)
    for latency in LATENCIES:
        of_one = [m for m, metric in enumerate(metrics) if metric in QUANTILES and metric.startswith(latency)]
        order = sorted(of_one, key=lambda m: QUANTILES.index(metrics[m]))
        found[..., order] = np.maximum.accumulate(found[..., order], axis=-1)
    for m, metric in enumerate(metrics):  # what waits for no window is part of what does
        whole = metric.replace(DELAY, "processing_latency_s")
        if metric.startswith(DELAY) and whole in metrics:
            found[..., m] = np.minimum(found[..., m], found[..., metrics.index(whole)])
    return found


def _log(cost: np.ndarray) -> np.ndarray:
    return np.asarray(np.log(np.maximum(cost, LABEL_FLOOR)))


CONGESTED, RARE = 0.05, 0.98
"""Probabilities of backpressure above which, and of a result below which, plans are of a kind of their own."""
KINDS = ("calm", "rare results", "congested", "calm, with peaks", "overloaded at peaks", "congested, with peaks")
"""Kinds of plans, each with gates and intervals of its own. Gates and intervals of models are kept in this order."""


def kinds_of_plans(rates_NxA: np.ndarray, varying_N: np.ndarray | bool, overloaded_N: np.ndarray) -> np.ndarray:
    """[N] kind of each plan, an index into KINDS. rates_NxA: the rate model's answers, METRICS first.
    varying_N: whether rates of arrivals vary. overloaded_N: whether peaks overload a resource (`peak_pressure` above
    1)."""
    backpressured, success = (rates_NxA[:, METRICS.index(name)] for name in BINARY_METRICS)
    congested_N, rare_N = backpressured > CONGESTED, success < RARE
    first_that_holds = {
        "congested, with peaks": congested_N & varying_N,
        "congested": congested_N,
        "rare results": rare_N,
        "overloaded at peaks": overloaded_N & varying_N,
        "calm, with peaks": np.broadcast_to(varying_N, congested_N.shape),
    }
    return np.select(list(first_that_holds.values()), [*map(KINDS.index, first_that_holds)], KINDS.index("calm"))
