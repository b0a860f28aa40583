"""Calibration of a trained ensemble by validation rows: the share of it that is used, and the size of its errors.

The gate of a regression, by the kind of plan, is the share of the networks' correction that is best on rows which they
were not fitted to; it is 0, and the rate model answers alone, unless a gain is more than chance and makes neither the
median error nor its tail worse. A probability has one gate for all kinds, as too few rows of one kind differ.
Intervals are conformal (Lei et al., 2018): the log error of a regression, over the members' disagreement and a usual
error, stays below a factor in a given share of the rows. Factors are by the kind of plan by rates, since errors are
different where a plan is congested. Where a gate is shut, nothing was fitted to any row, so the rows that the
networks learned from count as well.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from models.labels import KINDS, LABEL_FLOOR, RELATIVE, Scaling, in_units
from twin.metrics import BINARY_METRICS, METRICS

GATES = (0.0, 0.25, 0.5, 0.75, 1.0)
SHARE = 0.9
"""Share of the rows that an interval should hold."""
SURE = 3.0
"""Standard errors by which a gate's gain has to be above 0. Of a model's twenty gates, with two of them every other
model had one open by chance, which made congested plans of other spaces worse; with three, one in forty."""
FEWEST = 10
"""Number of rows of a kind that a gate needs to open."""
FEW = 30
"""Number of rows of a kind below which errors are taken from all rows together."""


@dataclass(frozen=True, slots=True)
class Judged:
    """Rows with the networks' outputs: labels [G, A], the rate model's answers [G, A], the kinds of plans [G] (indices
    into KINDS), and outputs [K, G, M] of K members for M metrics."""

    labels_GxA: np.ndarray
    rates_GxA: np.ndarray
    kind_G: np.ndarray
    outputs_KxGxM: np.ndarray

    def values_KxGxM(self, metrics: Sequence[str], scaling: Scaling) -> np.ndarray:
        """[K, G, M] log costs and probabilities, by member."""
        return np.stack([in_units(metrics, each, self.rates_GxA, self.kind_G, scaling) for each in self.outputs_KxGxM])


def gated(metrics: Sequence[str], scaling: Scaling, held: Judged) -> Scaling:
    """Scaling with gates fitted to `held`: rows that the networks were not fitted to."""
    if scaling.scale != "residual":
        return scaling
    bare = replace(scaling, gate=())
    outputs_GxM = held.outputs_KxGxM.mean(axis=0)
    kind_G = held.kind_G
    values = [in_units(metrics, gate * outputs_GxM, held.rates_GxA, kind_G, bare) for gate in GATES]

    every = np.ones(len(kind_G), bool)

    def gate(m: int, metric: str, kind: int) -> float:
        rows = every if metric in BINARY_METRICS else kind_G == kind
        return _best([_Loss.of(metric, held.labels_GxA[rows], each[rows, m]) for each in values])

    gates = [tuple(gate(m, metric, kind) for m, metric in enumerate(metrics)) for kind in range(len(KINDS))]
    return replace(scaling, gate=tuple(gates))


@dataclass(frozen=True, slots=True)
class _Loss:
    """Losses of predictions of one metric. loss: of each row, absolute log error or log loss. usual, seldom: median and
    95 % quantile of a regression's error, which may not grow either."""

    loss: np.ndarray
    usual: float
    seldom: float

    @classmethod
    def of(cls, metric: str, labels_GxA: np.ndarray, value_G: np.ndarray) -> _Loss:
        label_G = labels_GxA[:, METRICS.index(metric)]
        label_G, value_G = label_G[~np.isnan(label_G)], value_G[~np.isnan(label_G)]
        if metric not in BINARY_METRICS:
            loss = np.abs(value_G - np.log(np.maximum(label_G, LABEL_FLOOR)))
            return cls(loss, *(float(np.quantile(loss, share)) if len(loss) else 0.0 for share in (0.5, 0.95)))
        return cls(-np.log(np.clip(np.where(label_G > 0.5, value_G, 1.0 - value_G), 1e-9, 1.0)), 0.0, 0.0)

    def no_worse_than(self, other: _Loss) -> bool:
        return self.usual <= other.usual and self.seldom <= other.seldom


def _best(judged: Sequence[_Loss]) -> float:
    """Gate of least mean loss that makes nothing worse; the shut one if that is not better by SURE standard errors."""
    shut = judged[0]
    if len(shut.loss) < FEWEST:
        return GATES[0]
    able = [index for index, each in enumerate(judged) if each.no_worse_than(shut)]
    best = min(able, key=lambda index: float(judged[index].loss.mean()))
    gain = shut.loss - judged[best].loss
    return GATES[best] if gain.mean() > SURE * gain.std() / math.sqrt(len(gain)) else GATES[0]


def intervals(metrics: Sequence[str], scaling: Scaling, held: Judged, learned: Judged) -> dict[str, Any]:
    """Intervals by regression: for each of KINDS, the usual log error, and the factor on it and the spread; empty for a
    model that does not know the rate model's answers. learned: rows that the networks were fitted to, with any outputs,
    which are read only where the gate is shut."""
    if scaling.scale not in RELATIVE:
        return {}
    found: dict[str, Any] = {"share": SHARE}
    for m, metric in enumerate(metrics):
        if metric not in BINARY_METRICS:
            errors, spreads, kinds = zip(*(_errors(metrics, m, scaling, each) for each in (held, learned)), strict=True)
            fair = np.concatenate([np.ones(len(kinds[0]), bool), _shut(scaling, m)[kinds[1]]])
            error_G, spread_G, kind_G = (np.concatenate(each)[fair] for each in (errors, spreads, kinds))
            found[metric] = _factors(error_G, spread_G, kind_G)
    return found


def _errors(metrics: Sequence[str], m: int, scaling: Scaling, rows: Judged) -> tuple[np.ndarray, ...]:
    """Absolute log error of a regression, the members' spread, and the kind of plan, [G] each."""
    values_KxG = rows.values_KxGxM(metrics, scaling)[:, :, m]
    label_G = rows.labels_GxA[:, METRICS.index(metrics[m])]
    error_G = np.abs(values_KxG.mean(axis=0) - np.log(np.maximum(label_G, LABEL_FLOOR)))
    return error_G, values_KxG.std(axis=0), rows.kind_G


def _shut(scaling: Scaling, m: int) -> np.ndarray:
    """[kinds of plans] whether a metric's answer is the rate model's alone."""
    if not scaling.gate or scaling.mean[m] != 0.0:
        return np.zeros(len(KINDS), bool)
    return np.array(scaling.gate)[:, m] == 0.0


def _factors(error_G: np.ndarray, spread_G: np.ndarray, kind_G: np.ndarray) -> list[list[float]]:
    known = ~np.isnan(error_G)
    rows = [np.flatnonzero(known & (kind_G == kind)) for kind in range(len(KINDS))]
    every = np.flatnonzero(known)
    return [_factor(error_G[each], spread_G[each]) for each in (row if len(row) >= FEW else every for row in rows)]


def _factor(error_G: np.ndarray, spread_G: np.ndarray) -> list[float]:
    """Median error, and the conformal quantile of errors over it and the spread."""
    if not len(error_G):
        return [math.log(2.0), 1.0]
    usual = max(float(np.median(error_G)), 1e-6)
    rank = min(1.0, SHARE * (len(error_G) + 1) / len(error_G))
    return [usual, float(np.quantile(error_G / (usual + spread_G), rank))]


def half_width(interval: Mapping[str, Any], metric: str, spread_N: np.ndarray, kind_N: np.ndarray) -> np.ndarray:
    """[N] half width of an interval, in the log of a regression. interval: as from `intervals`. spread_N: of the
    members, in logs. kind_N: of plans, indices into KINDS. Raises KeyError for a metric without factors."""
    usual_N, factor_N = np.array(interval[metric])[kind_N].T
    return np.asarray(factor_N * (usual_N + spread_N))
