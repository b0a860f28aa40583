"""What validation rows say of a trained ensemble: how much of it is believed, and how far off it may be.

The gate of a metric is the share of the networks' correction that is best on rows which they were not fitted to; none
of it, unless that is better by more than chance: the model is then its base. Intervals are conformal (Lei et al.,
2018): the log error of a regression, over the members' disagreement and a usual error, stays below a factor in a given
share of the rows. Factors are by what the rate model says of a plan, since errors are others where it is congested.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from models.labels import LABEL_FLOOR, RELATIVE, Scaling, in_units
from twin.metrics import BINARY_METRICS, METRICS

GATES = (0.0, 0.25, 0.5, 0.75, 1.0)
SHARE = 0.9
"""Of the rows that an interval is to hold."""
FEWEST = 10
"""Rows that open a gate."""
FEW = 30
"""Rows of a kind below which all rows together say how far off it may be."""
CONGESTED, RARE = 0.05, 0.98
"""Probabilities of backpressure above which, and of a result below which, plans are of a kind of their own."""
KINDS = ("calm", "rare results", "congested")


def gated(metrics: Sequence[str], scaling: Scaling, labels_GxA: np.ndarray, rates_GxA: np.ndarray,
          outputs_KxGxM: np.ndarray) -> Scaling:  # fmt: skip
    """The scaling with its gates. outputs_KxGxM: of the members, on rows that they were not fitted to."""
    if scaling.scale != "residual":
        return scaling
    open_scaling = replace(scaling, gate=())
    losses = [
        _losses(metrics, labels_GxA, in_units(metrics, gate * outputs_KxGxM.mean(axis=0), rates_GxA, open_scaling))
        for gate in GATES
    ]
    return replace(scaling, gate=tuple(_best([each[:, m] for each in losses]) for m in range(len(metrics))))


def _losses(metrics: Sequence[str], labels_GxA: np.ndarray, values_GxM: np.ndarray) -> np.ndarray:
    """[G, M]: absolute log error of regressions, log loss of binaries; NaN where there is no label."""
    found = np.full(values_GxM.shape, np.nan)
    for m, metric in enumerate(metrics):
        label, value = labels_GxA[:, METRICS.index(metric)], values_GxM[:, m]
        if metric in BINARY_METRICS:
            found[:, m] = -np.log(np.clip(np.where(label > 0.5, value, 1.0 - value), 1e-9, 1.0))
        else:
            found[:, m] = np.abs(value - np.log(np.maximum(label, LABEL_FLOOR)))
    return found


def _best(losses: Sequence[np.ndarray]) -> float:
    """The gate of least mean loss; the first, which is shut, unless another is better by more than a standard error."""
    known = ~np.isnan(losses[0])
    if known.sum() < FEWEST:
        return GATES[0]
    best = int(np.argmin([each[known].mean() for each in losses]))
    gain = losses[0][known] - losses[best][known]
    return GATES[best] if gain.mean() > gain.std() / math.sqrt(len(gain)) else GATES[0]


def kinds_of_plans(rates_NxA: np.ndarray) -> np.ndarray:
    """[N]: index into KINDS, by the rate model's answers in the order of METRICS."""
    backpressured, success = (rates_NxA[:, METRICS.index(name)] for name in BINARY_METRICS)
    return np.where(backpressured > CONGESTED, 2, np.where(success < RARE, 1, 0))


def intervals(metrics: Sequence[str], scaling: Scaling, labels_GxA: np.ndarray, rates_GxA: np.ndarray,
              outputs_KxGxM: np.ndarray) -> dict[str, Any]:  # fmt: skip
    """By regression, for each of KINDS, the usual log error and the factor on it and the spread; nothing for a model
    that does not know the rate model's answers."""
    if scaling.scale not in RELATIVE:
        return {}
    values_KxGxM = np.stack([in_units(metrics, each, rates_GxA, scaling) for each in outputs_KxGxM])
    kind_G = kinds_of_plans(rates_GxA)
    found: dict[str, Any] = {"share": SHARE}
    for m, metric in enumerate(metrics):
        if metric not in BINARY_METRICS:
            label_G = labels_GxA[:, METRICS.index(metric)]
            error_G = np.abs(values_KxGxM[:, :, m].mean(axis=0) - np.log(np.maximum(label_G, LABEL_FLOOR)))
            found[metric] = _factors(error_G, values_KxGxM[:, :, m].std(axis=0), kind_G)
    return found


def _factors(error_G: np.ndarray, spread_G: np.ndarray, kind_G: np.ndarray) -> list[list[float]]:
    known = ~np.isnan(error_G)
    rows = [np.flatnonzero(known & (kind_G == kind)) for kind in range(len(KINDS))]
    every = np.flatnonzero(known)
    return [_factor(error_G[each], spread_G[each]) for each in (row if len(row) >= FEW else every for row in rows)]


def _factor(error_G: np.ndarray, spread_G: np.ndarray) -> list[float]:
    """The median error, and the conformal quantile of errors over it and the spread."""
    if not len(error_G):
        return [math.log(2.0), 1.0]
    usual = max(float(np.median(error_G)), 1e-6)
    rank = min(1.0, SHARE * (len(error_G) + 1) / len(error_G))
    return [usual, float(np.quantile(error_G / (usual + spread_G), rank))]


def half_width(interval: Mapping[str, Any], metric: str, spread_N: np.ndarray, rates_NxA: np.ndarray) -> np.ndarray:
    """[N]: of the log of a regression. Raises KeyError for a metric without factors."""
    usual_N, factor_N = np.array(interval[metric])[kinds_of_plans(rates_NxA)].T
    return np.asarray(factor_N * (usual_N + spread_N))
