"""Model directories as cost models, calibrated by validation rows."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from models.checkpoint import Ensemble, found_in, kinds_of, outside, read_all, refuse_unseen, unseen, unseen_rows
from models.gnn import Batch, Capacity, CostNetwork, Parameters, batch_of, capacity_for, cut, needs
from models.graph import HORIZON_S, GraphTable, graph_table
from models.job_columns import base_costs, job_columns, plan_physics, subtask_counts
from models.labels import KINDS, LABEL_FLOOR, RELATIVE, Scaling, in_units, kinds_of_plans
from models.scoring import PlanSide, groups, score, scoring_job
from models.settings import NetworkConfig
from twin.deployment import Deployment
from twin.errors import BadInput
from twin.metrics import BINARY_METRICS, ESTIMATED, FURTHER, METRICS, Estimates
from twin.plan import ExecutionPlan
from twin.rates.model import SEEN, RateAnswer, RateModel
from twin.scenario import Scenario
from twin.steadiness import measured_from_s
from twin.unsupported import unsupported_features

# calibration ---------------------------------------------------------------------------------------------------------
# Calibration of a trained ensemble by validation rows: the share of it that is used, and the size of its errors.
#
# The gate of a regression, by the kind of plan, is the share of the networks' correction that is best on rows which
# they were not fitted to; it is 0, and the rate model answers alone, unless a gain is more than chance and makes
# neither the median error nor its tail worse. A probability has one gate for all kinds, as too few rows of one kind
# differ. Intervals are conformal (Lei et al., 2018): the log error of a regression, over the members' disagreement and
# a usual error, stays below a factor in a given share of the rows. Factors are by the kind of plan by rates, since
# errors are different where a plan is congested. Where a gate is shut, nothing was fitted to any row, so the rows that
# the networks learned from count as well.


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
        label_G = labels_GxA[:, ESTIMATED.index(metric)]
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
    label_G = rows.labels_GxA[:, ESTIMATED.index(metrics[m])]
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


# predictions ---------------------------------------------------------------------------------------------------------
# Model directories as cost models: ensembles over many plans of one job, or over the rows of a dataset.


AHEAD = 2
"""Number of networks to run at once beyond the number of cores, as some of them only wait for the rate model."""


@dataclass(frozen=True)
class Predictions:
    """Predictions of all members. values: by metric [members, N], log cost or probability. kind_N: of plans, indices
    into models.labels.KINDS; 0 if no member uses the rate model."""

    values: Mapping[str, np.ndarray]
    kind_N: np.ndarray

    def cost(self, metric: str) -> np.ndarray:
        """[N] mean over the members in log space, in the metric's unit; of a binary metric the members' median
        probability, which is above 0.5 exactly if the majority of an odd number of members says yes."""
        values_KxN = self.values[metric]
        return np.exp(values_KxN.mean(axis=0)) if metric not in BINARY_METRICS else np.median(values_KxN, axis=0)

    def spread(self, metric: str) -> np.ndarray:
        """[N] standard deviation over the members, of the log cost or the probability."""
        return self.values[metric].std(axis=0)


@dataclass(frozen=True)
class LearnedCostModel:
    """Trained ensembles as a twin.metrics.CostModel, Further and Narrowable. name: of the model directory. wanted:
    metrics that `predict` returns; others are NaN. None: all that it has."""

    name: str
    ensembles: tuple[Ensemble, ...]
    wanted: tuple[str, ...] | None = None

    @property
    def further(self) -> tuple[str, ...]:
        """Names of FURTHER that it estimates."""
        return tuple(metric for metric in FURTHER if any(metric in each.metrics for each in self.ensembles))

    def only(self, metrics: Sequence[str]) -> LearnedCostModel:
        """Model for some metrics. Ensembles that only predict others are not computed."""
        needed = tuple(each for each in self.ensembles if set(each.metrics) & set(metrics))
        return replace(self, ensembles=needed, wanted=tuple(metrics))

    def predict(self, scenario: Scenario, plans: Sequence[ExecutionPlan]) -> Estimates:
        """Estimates for plans of one job, in runs of the length that it was trained on (`horizon_s`).

        Raises BadInput if the model lacks a metric, the job has a kind of operator, or a word of a category, that was
        not in the training rows, or a plan does not fit the job.
        """
        wanted = (*METRICS, *self.further) if self.wanted is None else self.wanted
        self._require(wanted)
        found, unknown = self.predict_plans(scenario, plans), np.full(len(plans), np.nan)
        asked = dict.fromkeys((*METRICS, *wanted))
        costs = {metric: found.cost(metric) if metric in wanted else unknown for metric in asked}
        latency = "processing_latency_s"
        return Estimates(costs, spread=found.spread(latency) if latency in wanted else unknown)

    def blind_to(self, scenario: Scenario) -> tuple[str, ...]:
        """Features of the scenario that the model ignores, in words.

        Each network sees demands that enough of its training rows had (`models.checkpoint.DEMANDS`) and, if the rate
        model's predictions are among its inputs, what that sees. A feature that one of them does not see is ignored.
        """
        length_s = self.run_s(scenario)
        same = length_s == scenario.run.horizon_s
        other = () if same else (f"the horizon (it answers for runs of {length_s:g} s, as in its training)",)
        sees = [{*(SEEN if _asks_rates(each) else ()), *each.manifest.get("demands", ())} for each in self.ensembles]
        return (*unsupported_features(scenario, set.intersection(*sees)), *other)

    def predict_plans(self, deployment: Deployment, plans: Sequence[ExecutionPlan]) -> Predictions:
        """Predictions of all members for plans of one job, for the metrics that the model has."""
        needed = found_in(job_columns(deployment))
        for ensemble in self.ensembles:
            refuse_unseen(self.name, ensemble.seen, needed)
        values = {metric: np.zeros((len(e.members), len(plans))) for e in self.ensembles for metric in e.metrics}
        kind_N = np.zeros(len(plans), np.int64)
        for rows, group in groups(deployment, plans):
            found = self._predict_group(deployment, group)
            kind_N[rows] = found.kind_N
            for metric, value_KxN in found.values.items():
                values[metric][:, rows] = value_KxN
        return Predictions(values, kind_N)

    def interval(self, scenario: Scenario, plans: Sequence[ExecutionPlan], metric: str) -> np.ndarray | None:
        """[2, N] interval of the metric in a simulated run with probability `models.prediction.SHARE`; None for a
        yes-or-no metric, or if its errors are unknown."""
        return self.around(self.predict_plans(scenario, plans), metric)

    def around(self, found: Predictions, metric: str) -> np.ndarray | None:
        """[2, N] interval of the metric around this model's own predictions; None as from `interval`."""
        ensemble = next((each for each in self.ensembles if metric in each.metrics), None)
        known = {} if ensemble is None else ensemble.manifest.get("interval", {})
        if metric not in known:
            return None
        half_N = half_width(known, metric, found.spread(metric), found.kind_N)
        return np.asarray(found.cost(metric) * np.exp([-half_N, half_N]))

    def beyond(self, scenario: Scenario) -> list[str]:
        """Features of the job that are outside the ranges of the training rows; empty if these are unknown."""
        ranges = [each.manifest.get("ranges", {}) for each in self.ensembles]
        job = job_columns(scenario)
        return sorted({name for each in ranges for name in outside(each, job)})

    def predict_graphs(self, graphs: GraphTable) -> Predictions:
        """Predictions of all members for every graph of a table, such as a dataset's.

        Raises BadInput if a graph has a kind of node that was not in the training rows.
        """
        for ensemble in self.ensembles:
            refuse_unseen(self.name, ensemble.seen, kinds_of(graphs))
        values: dict[str, np.ndarray] = {}
        for ensemble in self.ensembles:
            outputs = [forward(ensemble.config, member, graphs) for member in ensemble.members]
            values |= _by_metric(ensemble, np.stack(outputs), graphs.rates_GxA, graphs.kind_G)
        return Predictions(values, graphs.kind_G)

    def unknown_rows(self, graphs: GraphTable) -> dict[str, np.ndarray]:
        """Rows of a table that the model cannot judge, by what it never saw in training: a kind, or a word of one."""
        found: dict[str, np.ndarray] = {}
        for ensemble in self.ensembles:
            for name, rows in unseen_rows(ensemble.seen, graphs).items():
                found[name] = np.union1d(found.get(name, rows), rows)
        return found

    def knows(self, graphs: GraphTable) -> bool:
        """Whether `predict_graphs` can predict these graphs."""
        return not any(unseen(ensemble.seen, kinds_of(graphs)) for ensemble in self.ensembles)

    @property
    def horizon_s(self) -> float:
        """Median length in seconds of the runs that the model was trained on."""
        return float(self.ensembles[0].manifest.get("horizon_s", HORIZON_S))

    def run_s(self, deployment: Deployment) -> float:
        """Seconds of the predicted run: the length nearest to the scenario's own among those that trained the model."""
        low_s, high_s = self.ensembles[0].manifest.get("horizons_s") or (self.horizon_s, self.horizon_s)
        own_s = deployment.run.horizon_s if isinstance(deployment, Scenario) else self.horizon_s
        return min(max(own_s, low_s), high_s)

    def _rates(self, deployment: Deployment) -> RateModel:
        """Rate model for the predicted run, of which as large a part is measured as of the scenario's own."""
        length_s = self.run_s(deployment)
        if not isinstance(deployment, Scenario):
            return RateModel(length_s)
        return RateModel(length_s, measured_from_s(deployment) * (length_s / deployment.run.horizon_s))

    def _require(self, metrics: Sequence[str]) -> None:
        known = [metric for ensemble in self.ensembles for metric in ensemble.metrics]
        for metric in metrics:
            if metric not in known:
                raise BadInput(
                    f"model {self.name!r} does not predict {metric}, which plans are judged by; train it with all "
                    "metrics, on a corpus in which some runs fail (twin corpus --scenario mixes in random queries)"
                )

    def _predict_group(self, deployment: Deployment, plans: Sequence[ExecutionPlan]) -> Predictions:
        """Predictions for plans with equal numbers of subtasks of each operator, which share all operator features."""
        length_s = self.run_s(deployment)
        if any(each.config.scheme != "costream" for each in self.ensembles):
            table = graph_table((deployment.with_plan(plan) for plan in plans), self._rates(deployment))
            return self.predict_graphs(table)
        job = job_columns(deployment.model_copy(update={"plan": plans[0]}))
        with ThreadPoolExecutor((os.cpu_count() or 1) + AHEAD) as pool:
            answer = pool.submit(self._rates(deployment).answer, deployment, plans) if self._sees_rates else None
            side = PlanSide(job, subtask_counts(deployment, plans), _result(answer), length_s)
            jobs = {config: scoring_job(config, side) for config in {ensemble.config for ensemble in self.ensembles}}
            outputs = [
                [pool.submit(score, ensemble.config, weights, jobs[ensemble.config]) for weights in ensemble.weights]
                for ensemble in self.ensembles
            ]
            rates_PxA, kind_P = np.ones((len(plans), len(ESTIMATED))), np.zeros(len(plans), np.int64)
            if answer is not None:
                rates_PxA = base_costs(answer.result())
                overloaded_P = plan_physics(answer.result(), job, length_s)["peak_pressure"] > 1.0
                kind_P = kinds_of_plans(rates_PxA, bool(job.operators["peak"].max() > 1.0), overloaded_P)
            values: dict[str, np.ndarray] = {}
            for ensemble, futures in zip(self.ensembles, outputs, strict=True):
                outputs_KxPxM = np.stack([future.result() for future in futures])
                values |= _by_metric(ensemble, outputs_KxPxM, rates_PxA, kind_P)
        return Predictions(values, kind_P)

    @property
    def _sees_rates(self) -> bool:
        return any(_asks_rates(each) for each in self.ensembles)


def _result(answer: Future[RateAnswer] | None) -> Callable[[], RateAnswer]:
    def found() -> RateAnswer:
        assert answer is not None, "a network without the rate model's answer asks for it"
        return answer.result()

    return found


def _asks_rates(ensemble: Ensemble) -> bool:
    config = ensemble.config
    return config.estimates or config.features == "physics" or ensemble.scaling.scale in RELATIVE


def load(folder: Path) -> LearnedCostModel:
    """Cost model in a model directory. Raises BadInput if there is none, or it is damaged or of other features."""
    return LearnedCostModel(folder.name, read_all(folder))


def forward(config: NetworkConfig, parameters: Parameters, graphs: GraphTable, batch: int = 128) -> np.ndarray:
    """[G, M] network outputs of one member."""
    row_needs = needs(graphs)
    capacity = capacity_for(graphs, min(batch, len(graphs)), row_needs)
    outputs = [
        (rows, _apply(parameters, batch_of(graphs, rows, capacity), config=config, capacity=capacity))
        for rows in cut(row_needs, np.arange(len(graphs)), capacity)
    ]
    return np.concatenate([np.asarray(values)[: len(rows)] for rows, values in outputs])


@partial(jax.jit, static_argnames=("config", "capacity"))
def _apply(parameters: Parameters, batch: Batch, *, config: NetworkConfig, capacity: Capacity) -> jax.Array:
    return jnp.asarray(CostNetwork(config, capacity).apply({"params": parameters}, batch))


def _by_metric(
    ensemble: Ensemble, outputs_KxNxM: np.ndarray, rates_NxA: np.ndarray, kind_N: np.ndarray
) -> dict[str, np.ndarray]:
    values_KxNxM = in_units(ensemble.metrics, outputs_KxNxM, rates_NxA, kind_N, ensemble.scaling)
    return {metric: values_KxNxM[:, :, m] for m, metric in enumerate(ensemble.metrics)}
