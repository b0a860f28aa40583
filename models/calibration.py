"""What validation rows say of a trained ensemble: how much of it is believed, and how far off it may be.

The gate of a metric, by the kind of plan, is the share of the networks' correction that is best on rows which they were
not fitted to; none of it, unless that is better by more than chance and makes neither the median error nor its tail
worse: the model is then its base. Intervals are conformal (Lei et al.,
2018): the log error of a regression, over the members' disagreement and a usual error, stays below a factor in a given
share of the rows. Factors are by what the rate model says of a plan, since errors are others where it is congested.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from models.labels import LABEL_FLOOR, RELATIVE, Scaling, in_units
from models.plan_kinds import KINDS, kinds_of_plans
from twin.metrics import BINARY_METRICS, METRICS

GATES = (0.0, 0.25, 0.5, 0.75, 1.0)
SHARE = 0.9
"""Of the rows that an interval is to hold."""
FEWEST = 10
"""Rows of a kind that open a gate."""
FEW = 30
"""Rows of a kind below which all rows together say how far off it may be."""


def gated(
    metrics: Sequence[str], scaling: Scaling, labels_GxA: np.ndarray, rates_GxA: np.ndarray, outputs_KxGxM: np.ndarray
) -> Scaling:
    """The scaling with its gates. outputs_KxGxM: of the members, on rows that they were not fitted to."""
    if scaling.scale != "residual":
        return scaling
    bare = replace(scaling, gate=())
    values = [in_units(metrics, gate * outputs_KxGxM.mean(axis=0), rates_GxA, bare) for gate in GATES]
    kind_G = kinds_of_plans(rates_GxA)
    gates = [
        tuple(
            _best([_Judged.of(metric, labels_GxA[kind_G == kind], each[kind_G == kind, m]) for each in values])
            for m, metric in enumerate(metrics)
        )
        for kind in range(len(KINDS))
    ]
    return replace(scaling, gate=tuple(gates))


@dataclass(frozen=True, slots=True)
class _Judged:
    """Predictions of one metric. loss: of each row, absolute log error or log loss. usual, seldom: what may not grow
    either, the median error and its 95 %, or the share of a class that is missed."""

    loss: np.ndarray
    usual: float
    seldom: float

    @classmethod
    def of(cls, metric: str, labels_GxA: np.ndarray, value_G: np.ndarray) -> _Judged:
        label_G = labels_GxA[:, METRICS.index(metric)]
        label_G, value_G = label_G[~np.isnan(label_G)], value_G[~np.isnan(label_G)]
        if metric not in BINARY_METRICS:
            loss = np.abs(value_G - np.log(np.maximum(label_G, LABEL_FLOOR)))
            return cls(loss, *(float(np.quantile(loss, share)) if len(loss) else 0.0 for share in (0.5, 0.95)))
        yes = label_G > 0.5
        loss = -np.log(np.clip(np.where(yes, value_G, 1.0 - value_G), 1e-9, 1.0))
        missed = [float((loss[each] > math.log(2.0)).mean()) if each.any() else 0.0 for each in (yes, ~yes)]
        return cls(loss, sum(missed), sum(missed))

    def no_worse_than(self, other: _Judged) -> bool:
        return self.usual <= other.usual and self.seldom <= other.seldom


def _best(judged: Sequence[_Judged]) -> float:
    """The gate of least mean loss among those that make nothing worse; the first, which is shut, unless another is
    better by more than a standard error."""
    shut = judged[0]
    if len(shut.loss) < FEWEST:
        return GATES[0]
    able = [index for index, each in enumerate(judged) if each.no_worse_than(shut)]
    best = min(able, key=lambda index: float(judged[index].loss.mean()))
    gain = shut.loss - judged[best].loss
    return GATES[best] if gain.mean() > gain.std() / math.sqrt(len(gain)) else GATES[0]


def intervals(
    metrics: Sequence[str], scaling: Scaling, labels_GxA: np.ndarray, rates_GxA: np.ndarray, outputs_KxGxM: np.ndarray
) -> dict[str, Any]:
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
