"""Model directories as cost models: ensembles over many plans of one job, or over the rows of a dataset."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np

from models.batch import Batch, Capacity, batch_of, capacity_for, cut, needs
from models.calibration import half_width
from models.checkpoint import Ensemble, read_all
from models.coverage import found_in, kinds_of, outside, refuse_unseen, unseen
from models.gnn import CostNetwork, Parameters
from models.graph import HORIZON_S, GraphTable, graph_table
from models.job_columns import base_costs, job_columns, plan_physics, replica_counts
from models.labels import RELATIVE, in_units, kinds_of_plans
from models.scoring import PlanSide, score, scoring_job
from models.settings import NetworkConfig
from models.sharing import groups
from twin.deployment import Deployment
from twin.errors import BadInput
from twin.metrics import METRICS, REGRESSION_METRICS, Estimates
from twin.plan import ExecutionPlan
from twin.rates.answer import RateAnswer
from twin.rates.model import SEEN, RateModel
from twin.scenario import Scenario
from twin.steadiness import measured_from_s
from twin.unsupported import unsupported_features

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
        return np.exp(values_KxN.mean(axis=0)) if metric in REGRESSION_METRICS else np.median(values_KxN, axis=0)

    def spread(self, metric: str) -> np.ndarray:
        """[N] standard deviation over the members, of the log cost or the probability."""
        return self.values[metric].std(axis=0)


@dataclass(frozen=True)
class LearnedCostModel:
    """Trained ensembles as a twin.metrics.CostModel and Narrowable. name: of the model directory. wanted: metrics that
    `predict` returns; others are NaN."""

    name: str
    ensembles: tuple[Ensemble, ...]
    wanted: tuple[str, ...] = METRICS

    def only(self, metrics: Sequence[str]) -> LearnedCostModel:
        """Model for some of the metrics. Ensembles that only predict other metrics are not computed."""
        needed = tuple(each for each in self.ensembles if set(each.metrics) & set(metrics))
        return replace(self, ensembles=needed, wanted=tuple(metrics))

    def predict(self, scenario: Scenario, plans: Sequence[ExecutionPlan]) -> Estimates:
        """Estimates for plans of one job, in runs of the length that it was trained on (`horizon_s`).

        Raises BadInput if the model lacks a metric, the job has a kind of operator, or a word of a category, that was
        not in the training rows, or a plan does not fit the job.
        """
        self._require(self.wanted)
        found, unknown = self.predict_plans(scenario, plans), np.full(len(plans), np.nan)
        costs = {metric: found.cost(metric) if metric in self.wanted else unknown for metric in METRICS}
        latency = "processing_latency_s"
        return Estimates(costs, spread=found.spread(latency) if latency in self.wanted else unknown)

    def blind_to(self, scenario: Scenario) -> tuple[str, ...]:
        """Features of the scenario that the model ignores, in words.

        Each network sees demands that enough of its training rows had (`models.coverage.DEMANDS`) and, if the rate
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
        """[2, N] interval of the metric in a simulated run with probability `models.calibration.SHARE`; None for a
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
                raise BadInput(f"model {self.name!r} does not predict {metric}; train it with all metrics")

    def _predict_group(self, deployment: Deployment, plans: Sequence[ExecutionPlan]) -> Predictions:
        """Predictions for plans with equal numbers of replicas of each operator, which share all operator features."""
        length_s = self.run_s(deployment)
        if any(each.config.scheme != "costream" for each in self.ensembles):
            table = graph_table((deployment.with_plan(plan) for plan in plans), self._rates(deployment))
            return self.predict_graphs(table)
        job = job_columns(deployment.model_copy(update={"plan": plans[0]}))
        with ThreadPoolExecutor((os.cpu_count() or 1) + AHEAD) as pool:
            answer = pool.submit(self._rates(deployment).answer, deployment, plans) if self._sees_rates else None
            side = PlanSide(job, replica_counts(deployment, plans), _result(answer), length_s)
            jobs = {config: scoring_job(config, side) for config in {ensemble.config for ensemble in self.ensembles}}
            outputs = [
                [pool.submit(score, ensemble.config, weights, jobs[ensemble.config]) for weights in ensemble.weights]
                for ensemble in self.ensembles
            ]
            rates_PxA, kind_P = np.ones((len(plans), len(METRICS))), np.zeros(len(plans), np.int64)
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
