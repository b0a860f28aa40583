"""What predicts runs of an engine that nobody told, from a few runs of it: physics, calibrated physics, what learns.

Each takes the runs that were seen and the scenarios to predict, as they are known, and gives costs by metric. What
learns sees the same rows, on the profile's constants or on calibrated ones; a tenth of them, ten at least, decides when
to stop.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from benchmarks.real.kept_runs import Measured
from models import predictors, shipped
from models.dataset import Dataset, RowSplit, of_deployments
from models.pipeline import FineTuning, fine_tune
from models.prediction import LearnedCostModel
from models.predictors import FittedNetworks, Networks
from models.settings import OURS, PAPER
from scenarios.calibration.calibrate import Calibration
from twin.metrics import METRICS
from twin.randomness import stream
from twin.rates.model import RateModel
from twin.scenario import Scenario

Costs = Mapping[str, np.ndarray]
"""By metric, one value a scenario; of RO and S probabilities."""
Predictor = Callable[[Sequence[Measured], Calibration, Sequence[Scenario]], Costs]
HELD = 10
SEED = 0


def rates(scenarios: Sequence[Scenario]) -> Costs:
    """The rate model, under the constants that the scenarios have."""
    each = [RateModel().predict(scenario, [scenario.plan]) for scenario in scenarios]
    return {metric: np.array([float(costs[metric][0]) for costs in each]) for metric in METRICS}


def calibrated(_seen: Sequence[Measured], found: Calibration, unseen: Sequence[Scenario]) -> Costs:
    """The rate model under calibrated constants."""
    return rates([found.applied(each) for each in unseen])


def shipped_network(scenarios: Sequence[Scenario]) -> Costs:
    """The one that is shipped, which has seen no such engine, under the constants that the scenarios have."""
    return _networks(shipped.model(), _rows(scenarios))


def shipped_on_calibrated(_seen: Sequence[Measured], found: Calibration, unseen: Sequence[Scenario]) -> Costs:
    """The same on calibrated constants."""
    return shipped_network([found.applied(each) for each in unseen])


def tuned_on_calibrated(seen: Sequence[Measured], found: Calibration, unseen: Sequence[Scenario]) -> Costs:
    """The same, fine-tuned on the runs that were seen; its gates are as these say."""
    rows = _rows([found.applied(each.known) for each in seen], seen)
    tuned = fine_tune(shipped.model().ensembles, rows, _parts(len(rows)), FineTuning(), SEED)
    model = LearnedCostModel("tuned", tuned)
    return _networks(model, _rows([found.applied(each) for each in unseen]))


def trees_on_calibrated(seen: Sequence[Measured], found: Calibration, unseen: Sequence[Scenario]) -> Costs:
    """Boosted trees of ratios to the calibrated rate model."""
    known = [found.applied(each.known) for each in seen]
    return _contestant("trees-ratio", known, seen, [found.applied(each) for each in unseen])


def trees(seen: Sequence[Measured], _found: Calibration, unseen: Sequence[Scenario]) -> Costs:
    """The same on the profile's constants."""
    return _contestant("trees-ratio", [each.known for each in seen], seen, unseen)


def plan_alone(seen: Sequence[Measured], _found: Calibration, unseen: Sequence[Scenario]) -> Costs:
    """Boosted trees (LightGBM) of a vector of the plan, with nothing of the rate model."""
    return _contestant("flat-log", [each.known for each in seen], seen, unseen)


def network(seen: Sequence[Measured], _found: Calibration, unseen: Sequence[Scenario]) -> Costs:
    """The network of preset `ours`, trained from nothing on the profile's constants; one member."""
    return _trained(Networks("ours", OURS.model_copy(update={"members": 1})), seen, unseen)


def paper(seen: Sequence[Measured], _found: Calibration, unseen: Sequence[Scenario]) -> Costs:
    """Costream's networks, which know no costs; one member a metric."""
    return _trained(Networks("paper", PAPER.model_copy(update={"members": 1})), seen, unseen)


PREDICTORS: Mapping[str, Predictor] = {
    "calibrated rates": calibrated,
    "shipped network on calibrated": shipped_on_calibrated,
    "the same, fine-tuned": tuned_on_calibrated,
    "trees on calibrated": trees_on_calibrated,
    "trees on the profile": trees,
    "LightGBM, no model": plan_alone,
    "network `ours` on the profile": network,
    "network `paper`": paper,
}
LEAST: Mapping[str, int] = {
    "the same, fine-tuned": 50,
    "trees on calibrated": 50,
    "trees on the profile": 50,
    "LightGBM, no model": 50,
    "network `ours` on the profile": 50,
    "network `paper`": 50,
}
"""Runs below which there are too few to learn from and to stop by."""


def _rows(scenarios: Sequence[Scenario], seen: Sequence[Measured] | None = None) -> Dataset:
    none = np.zeros((len(scenarios), len(METRICS)))
    labels = none if seen is None else np.array([each.labels for each in seen])
    return of_deployments(scenarios, labels, horizon_s=scenarios[0].run.horizon_s)


def _parts(count: int) -> RowSplit:
    order = stream(SEED, "parts").permutation(count)
    held = max(HELD, count // 10)
    return RowSplit(np.sort(order[held:]), np.sort(order[:held]), np.array([], dtype=int))


def _networks(model: LearnedCostModel, rows: Dataset) -> Costs:
    return FittedNetworks("", model).predict(rows)


def _trained(contestant: Networks, seen: Sequence[Measured], unseen: Sequence[Scenario]) -> Costs:
    rows = _rows([each.known for each in seen], seen)
    return contestant.fit(rows, _parts(len(rows)), SEED, LEARNED).predict(_rows(unseen))


LEARNED = ("throughput_per_s", "processing_latency_s", "e2e_latency_s", "backpressured")


def _contestant(key: str, known: Sequence[Scenario], seen: Sequence[Measured], unseen: Sequence[Scenario]) -> Costs:
    rows = _rows(known, seen)
    return predictors.PREDICTORS[key].fit(rows, _parts(len(rows)), SEED, LEARNED).predict(_rows(unseen))
