"""Laws of fine-tuning: it helps on the new rows, rehearsal keeps the old, and what cannot be taught stays."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import jax
import numpy as np
import pytest

from models.checkpoint import Ensemble
from models.dataset import Dataset, RowSplit, of_deployments, split
from models.evaluation import q_error
from models.pipeline import FineTuning, fine_tune, rehearsing
from models.prediction import LearnedCostModel
from tests.models import test_training
from tests.models.deployments import random_deployment
from twin.errors import BadInput
from twin.metrics import METRICS

QUICK = FineTuning(epochs=15, rate=3e-3)


@cache
def old() -> tuple[Dataset, RowSplit]:
    """What `trained` learned from, in its way."""
    return test_training.dataset(), split(test_training.dataset(), 0)


def trained() -> tuple[Ensemble, ...]:
    return test_training.trained(heads="one", epochs=40)


@cache
def new() -> tuple[Dataset, RowSplit]:
    """Of which the network knows nothing: another number of operators, and ten times the throughput."""
    deployments = [random_deployment(seed, size=4) for seed in range(1000, 1080)]
    labels_GxA = np.array([test_training.labels_of(each) for each in deployments])
    labels_GxA[:, METRICS.index("throughput_per_s")] *= 10
    labels_GxA[labels_GxA[:, METRICS.index("success")] == 0, :3] = np.nan
    dataset = of_deployments(deployments, labels_GxA)
    return dataset, split(dataset, 0)


def median(ensembles: tuple[Ensemble, ...], dataset: Dataset, part: np.ndarray) -> float:
    """Of the q-error, however far below every label an estimate is."""
    rows = dataset.take(part)
    truth = rows.label_G("throughput_per_s")
    found = LearnedCostModel("m", ensembles).predict_graphs(rows.graphs).cost("throughput_per_s")
    return float(np.nanmedian(q_error(truth, found)))


@pytest.mark.slow
def test_the_result_is_never_worse_on_validation_rows_than_the_start() -> None:
    harmful = FineTuning(epochs=1, rate=1.0)
    dataset, parts = old()
    (after,) = fine_tune(trained(), dataset, parts, harmful, 0)
    curve = after.manifest["members"][0]["curve"]
    started = min(point[2] for point in trained()[0].manifest["members"][0]["curve"])
    assert min(point[2] for point in curve) > started  # it did harm
    jax.tree.map(np.testing.assert_array_equal, after.members, trained()[0].members)


@pytest.mark.slow
def test_new_rows_are_learned_and_rehearsal_keeps_the_old() -> None:
    (dataset, parts), (known, known_parts) = new(), old()
    alone = fine_tune(trained(), dataset, parts, QUICK, 0)
    mixed_rows, mixed_parts = rehearsing(dataset, parts, known, known_parts, 0)
    mixed = fine_tune(trained(), mixed_rows, mixed_parts, QUICK, 0)
    before = median(trained(), dataset, parts.test)
    assert median(alone, dataset, parts.test) < before / 2
    assert median(mixed, dataset, parts.test) < before / 2
    assert median(mixed, known, known_parts.test) < median(alone, known, known_parts.test)
    assert mixed[0].scaling == trained()[0].scaling
    assert mixed[0].manifest["fine_tuned_from"] == trained()[0].manifest


def test_rehearsal_takes_as_many_old_rows_and_no_test_row() -> None:
    (dataset, parts), (known, known_parts) = new(), old()
    both, mixed = rehearsing(dataset, parts, known, known_parts, 0)
    assert len(both) == len(dataset) + len(known)
    for part, fresh, from_old in zip(mixed[:2], parts[:2], known_parts[:2], strict=True):
        np.testing.assert_array_equal(part[: len(fresh)], fresh)
        rehearsed = part[len(fresh) :] - len(dataset)
        assert len(rehearsed) == min(len(fresh), len(from_old))
        assert set(rehearsed) <= set(from_old)
    np.testing.assert_array_equal(mixed.test, parts.test)
    np.testing.assert_array_equal(both.labels_GxA[len(dataset) :], known.labels_GxA)
    assert set(both.about) == set(known.about)


@pytest.mark.slow
def test_labels_of_one_class_teach_nothing() -> None:
    dataset, parts = new()
    constant = dataset.labels_GxA.copy()
    constant[:, METRICS.index("success")] = 1
    constant[np.isnan(constant)] = 1
    same = replace(dataset, labels_GxA=constant)
    success = replace(trained()[0], metrics=("success",))
    kept, changed = fine_tune((success, trained()[0]), same, parts, FineTuning(epochs=1), 0)
    assert kept is success
    assert changed is not trained()[0]
    with pytest.raises(BadInput, match="cannot teach success"):
        fine_tune((success,), same, parts, QUICK, 0)
