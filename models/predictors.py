"""Predictors of the costs of a run, behind one small protocol, so that all are compared on the same rows."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Protocol

import numpy as np

from models import checkpoint, pipeline, trees
from models.checkpoint import Coverage, coverage_of, found_in, kinds_of, refuse_unseen
from models.dataset import Dataset, RowSplit
from models.job_columns import job_columns
from models.labels import known_to_rates
from models.prediction import LearnedCostModel
from models.settings import OURS, PAPER, PHYSICS, TrainingSettings
from models.trees import TreeRows, Trees, TreeScale, TreeSettings
from models.vectors import DERIVED_VERSION, FLAT_VERSION, flat_vector
from twin.errors import BadInput, suggest
from twin.metrics import ESTIMATED, METRICS, Estimates
from twin.plan import ExecutionPlan
from twin.scenario import Scenario
from twin.unsupported import unsupported_features

Progress = Callable[[int, int], None]
"""Reports (done, total), in steps of the training."""

Inputs = Literal["flat", "derived"]
VERSIONS: Mapping[Inputs, str] = {"flat": FLAT_VERSION, "derived": DERIVED_VERSION}


class Fitted(Protocol):
    """Fitted predictor. name: as tables show it."""

    @property
    def name(self) -> str: ...

    def predict(self, dataset: Dataset) -> Mapping[str, np.ndarray]:
        """Costs in units, or probabilities, by metric, [G] for every row of the dataset."""

    def save(self, folder: Path) -> None:
        """Writes the fitted predictor to a folder, for the predictor's `load`."""


class Predictor(Protocol):
    """Predictor that can be fitted. name: as tables show it."""

    @property
    def name(self) -> str: ...

    def fit(
        self,
        dataset: Dataset,
        parts: RowSplit,
        seed: int,
        metrics: Sequence[str] = METRICS,
        progress: Progress | None = None,
    ) -> Fitted:
        """Fits to parts.train; parts.valid decides when to stop. Raises BadInput for labels without information."""

    def load(self, folder: Path) -> Fitted:
        """Reads what `Fitted.save` wrote. Raises BadInput if it is missing, damaged or made for other features."""


def balanced(value_G: np.ndarray, share: float) -> np.ndarray:
    """Probabilities fitted to rows of which `share` are yes, as they would be if half of them were (Bayes)."""
    return value_G * (1.0 - share) / (value_G * (1.0 - share) + (1.0 - value_G) * share)


@dataclass(frozen=True, slots=True)
class FittedNetworks:
    """Fitted graph neural networks."""

    name: str
    model: LearnedCostModel

    def predict(self, dataset: Dataset) -> Mapping[str, np.ndarray]:
        """Mean costs, and median probabilities as if both classes were equally frequent, as for trees."""
        found = self.model.predict_graphs(dataset.graphs)
        shares = {name: share for each in self.model.ensembles for name, share in each.manifest.get("yes", {}).items()}
        return {metric: balanced(found.cost(metric), shares.get(metric, 0.5)) for metric in found.values}

    def save(self, folder: Path) -> None:
        """Writes a checkpoint an ensemble."""
        for ensemble in self.model.ensembles:
            checkpoint.save(ensemble, folder)


@dataclass(frozen=True, slots=True)
class Networks:
    """Graph neural networks over the joint graph."""

    name: str
    settings: TrainingSettings

    def fit(
        self,
        dataset: Dataset,
        parts: RowSplit,
        seed: int,
        metrics: Sequence[str] = METRICS,
        progress: Progress | None = None,
    ) -> FittedNetworks:
        """Trains by models.pipeline.train."""
        order = list(metrics) if self.settings.heads == "one" else ["all"]
        total = len(order) * self.settings.members

        def told(network: str, member: int, step: int, steps: int, _loss: float) -> None:
            if progress is not None:
                progress((order.index(network) * self.settings.members + member) * steps + step, total * steps)

        ensembles = pipeline.train(dataset, parts, self.settings, seed, metrics, told)
        return FittedNetworks(self.name, LearnedCostModel(self.name, ensembles))

    def load(self, folder: Path) -> FittedNetworks:
        """Reads the checkpoints of the ensembles."""
        return FittedNetworks(self.name, LearnedCostModel(self.name, checkpoint.read_all(folder)))


@dataclass(frozen=True, slots=True)
class FittedTrees:
    """Fitted boosted trees, an ensemble a metric."""

    name: str
    inputs: Inputs
    by_metric: Mapping[str, Trees]
    seen: Coverage

    def predict(self, dataset: Dataset) -> Mapping[str, np.ndarray]:
        """Means of the ensembles. Raises BadInput for a kind of operator that was not in the training rows."""
        refuse_unseen(self.name, self.seen, kinds_of(dataset.graphs))
        return {
            metric: each.predict(_vectors(dataset, self.inputs), dataset.rates_G(metric))
            for metric, each in self.by_metric.items()
        }

    def save(self, folder: Path) -> None:
        """Writes a file a metric."""
        for each in self.by_metric.values():
            trees.save(each, folder, VERSIONS[self.inputs], self.seen)


@dataclass(frozen=True, slots=True)
class BoostedTrees:
    """Gradient-boosted trees over a vector of the plan. scale: on which regressions learn."""

    name: str
    inputs: Inputs
    scale: TreeScale
    settings: TreeSettings

    def fit(
        self,
        dataset: Dataset,
        parts: RowSplit,
        seed: int,
        metrics: Sequence[str] = METRICS,
        progress: Progress | None = None,
    ) -> FittedTrees:
        """Trains an ensemble a metric."""
        found = {}
        vectors = _vectors(dataset, self.inputs)
        for number, metric in enumerate(metrics):
            if metric not in ESTIMATED:
                raise BadInput(f"unknown metric {metric!r}; {suggest(metric, ESTIMATED)}")
            train, valid = (
                TreeRows(vectors[rows], dataset.label_G(metric)[rows], dataset.rates_G(metric)[rows])
                for rows in (parts.train, parts.valid)
            )
            found[metric] = trees.train_trees(metric, self.scale, train, valid, self.settings, seed)
            if progress is not None:
                progress(number + 1, len(metrics))
        return FittedTrees(self.name, self.inputs, found, coverage_of(dataset.graphs, parts.train))

    def load(self, folder: Path) -> FittedTrees:
        """Reads the trees of all metrics in a folder."""
        paths = sorted(folder.glob(f"*{trees.SUFFIX}"))
        if not paths:
            raise BadInput(f"{folder} holds no trees (*{trees.SUFFIX}); train them again")
        found = [trees.load(path, VERSIONS[self.inputs]) for path in paths]
        return FittedTrees(self.name, self.inputs, {each.metric: each for each, _ in found}, found[0][1])


@dataclass(frozen=True, slots=True)
class RateModelAlone:
    """The analytic model of twin.rates.model, which knows the simulator's own cost constants; nothing is fitted."""

    name: str = "rate model"

    def fit(
        self,
        dataset: Dataset,
        parts: RowSplit,
        seed: int,
        metrics: Sequence[str] = METRICS,
        progress: Progress | None = None,
    ) -> RateModelAlone:
        """The rate model itself: nothing is fitted."""
        return self

    def load(self, folder: Path) -> RateModelAlone:
        """The rate model itself: nothing is read."""
        return self

    def predict(self, dataset: Dataset) -> Mapping[str, np.ndarray]:
        """Answers of the rate model, which the dataset has."""
        return {metric: dataset.rates_G(metric) for metric in ESTIMATED if known_to_rates(metric)}

    def save(self, folder: Path) -> None:
        """Writes nothing: nothing is fitted."""


def _vectors(dataset: Dataset, inputs: Inputs) -> np.ndarray:
    return dataset.flat_GxF if inputs == "flat" else dataset.derived_GxD


FLAT = TreeSettings()
DERIVED = TreeSettings(rate=0.03, rounds=3000, rows=0.8, columns=0.5, members=3)
"""Settings chosen on validation rows of a smaller corpus, among a dozen that differed little. Absolute instead of
squared errors make medians a little lower, and tails longer."""

PREDICTORS: Mapping[str, Predictor] = {
    "paper": Networks("GNN (paper)", PAPER),
    "ours": Networks("GNN (ours)", OURS),
    "physics": Networks("GNN (ours, physics at every node)", PHYSICS),
    "trees-ratio": BoostedTrees("trees (ratio)", "derived", "ratio", DERIVED),
    "trees-log": BoostedTrees("trees (log)", "derived", "log", DERIVED),
    "flat-log": BoostedTrees("Flat Vector (log)", "flat", "log", FLAT),
    "flat-raw": BoostedTrees("Flat Vector (raw)", "flat", "raw", FLAT),
    "rates": RateModelAlone(),
}
"""Predictors by key, in the order of tables."""


@dataclass(frozen=True)
class FlatCosts:
    """Cost model of trees over the flat vector. Raises BadInput for another vector, or ratios to the rate model."""

    fitted: FittedTrees

    def __post_init__(self) -> None:
        if self.fitted.inputs != "flat" or any(each.scale == "ratio" for each in self.fitted.by_metric.values()):
            raise BadInput(f"{self.fitted.name} does not rest on the flat vector alone; give Flat Vector")

    @property
    def name(self) -> str:
        """Name of the trees."""
        return self.fitted.name

    def predict(self, scenario: Scenario, plans: Sequence[ExecutionPlan]) -> Estimates:
        """Estimates, NaN of metrics that were not fitted; no spread. Raises BadInput for an unseen kind of operator."""
        refuse_unseen(self.name, self.fitted.seen, found_in(job_columns(scenario)))
        placed = [scenario.with_plan(plan) for plan in plans]
        vectors = np.array([flat_vector(job_columns(each)) for each in placed])
        none = np.full(len(plans), np.nan)
        found = {name: trees.predict(vectors, none) for name, trees in self.fitted.by_metric.items()}
        return Estimates({name: found.get(name, none) for name in METRICS}, spread=np.zeros(len(plans)))

    def blind_to(self, scenario: Scenario) -> tuple[str, ...]:
        """Features of the scenario beyond a plain job, in words."""
        return unsupported_features(scenario, ())
