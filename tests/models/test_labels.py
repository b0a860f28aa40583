"""Tests of targets and their inverse: what is standardised for training is undone for prediction."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from models.labels import RATIO_LIMIT, LabelScale, in_units, scaled, scaling_of, targets
from twin.errors import BadInput
from twin.metrics import METRICS

COSTS = st.floats(1e-5, 1e6)
ROWS = st.lists(st.tuples(COSTS, COSTS, COSTS, st.booleans(), st.booleans()), min_size=2, max_size=30)


RATES_1xA = np.array([[3.0, 0.5, 2.0, 0.1, 0.9]])


@given(ROWS, st.sampled_from(("log", "log1p", "ratio")))
def test_targets_come_back_in_units(rows: list[tuple[float, ...]], scale: LabelScale) -> None:
    labels_GxA = np.array([*rows, (1, 1, 1, 0, 0), (2, 2, 2, 1, 1)], float)
    labels_GxA[labels_GxA[:, 4] == 0, :3] = np.nan
    every = np.arange(len(labels_GxA))
    rates_GxA = np.repeat(RATES_1xA, len(rows) + 2, axis=0)
    values = scaled(METRICS, labels_GxA, rates_GxA, scale)
    scaling = scaling_of(METRICS, values, scale)
    found = targets(METRICS, values, rates_GxA, scaling, every)
    logs = in_units(METRICS, found.values_GxM, rates_GxA, every, scaling)[:, :3]
    known = ~np.isnan(labels_GxA[:, :3])
    near = known & (np.abs(np.log(labels_GxA[:, :3] / rates_GxA[:, :3])) < RATIO_LIMIT)
    back = near if scale == "ratio" else known
    absolute = 1e-3 if scale == "log1p" else 0.0  # what that scale cannot tell apart
    np.testing.assert_allclose(np.exp(logs[back]), labels_GxA[:, :3][back], rtol=2e-3, atol=absolute)
    np.testing.assert_array_equal(found.weights_GxM[:, :3] > 0, known)
    standardised = found.values_GxM[:, 0][known[:, 0]]
    assert abs(standardised.mean()) < 1e-3
    assert standardised.std() < 1.001


@given(st.lists(st.booleans(), min_size=1, max_size=40))
def test_both_classes_weigh_the_same_and_one_on_average(success: list[bool]) -> None:
    labels_GxA = np.ones((len(success) + 2, 5))
    labels_GxA[:, 4] = [*success, True, False]
    metrics = ("success",)
    values = scaled(metrics, labels_GxA, np.ones_like(labels_GxA), "log")
    rates_GxA = np.ones_like(labels_GxA)
    found = targets(metrics, values, rates_GxA, scaling_of(metrics, values, "log"), np.arange(len(labels_GxA)))
    weights, yes = found.weights_GxM[:, 0], labels_GxA[:, 4] == 1
    assert weights[yes].sum() == pytest.approx(weights[~yes].sum(), rel=1e-4)
    assert weights.mean() == pytest.approx(1, rel=1e-4)


def test_probability_of_any_logit_is_finite_and_ordered() -> None:
    logits = np.array([[-1e9], [-1.0], [0.0], [1.0], [1e9]])
    scaling = scaling_of(("success",), np.array([[0.0], [1.0]]), "ratio")
    probability = in_units(("success",), logits, np.ones((5, 5)), np.zeros(5, int), scaling)[:, 0]
    assert np.all(np.diff(probability) > 0)
    assert probability[2] == 0.5


def test_no_label_cannot_be_learned() -> None:
    with pytest.raises(BadInput, match="throughput_per_s has no label"):
        scaling_of(("throughput_per_s",), np.array([[np.nan]]), "log")
