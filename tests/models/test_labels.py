"""Tests of targets and their inverse: what is standardised for training is undone for prediction."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from models.labels import RATIO_LIMIT, LabelScale, Scaling, in_units, scaled, scaling_of, targets
from twin.errors import BadInput
from twin.metrics import DELAY, ESTIMATED, LATENCIES, METRICS, QUANTILES

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


@given(st.lists(st.floats(-50, 50), min_size=len(ESTIMATED), max_size=len(ESTIMATED)), st.permutations(ESTIMATED))
def test_quantiles_of_a_latency_never_fall_from_one_to_the_next(outputs: list[float], metrics: list[str]) -> None:
    """Whatever networks say, in whatever order of their outputs; and nothing else is changed by that."""
    rates_1xA = np.full((1, len(ESTIMATED)), 0.25)
    scaling = Scaling((0.5,) * len(metrics), (2.0,) * len(metrics), "residual")
    found = dict(
        zip(metrics, in_units(metrics, np.array([outputs]), rates_1xA, np.zeros(1, int), scaling)[0], strict=True)
    )
    for latency in LATENCIES:
        p50, p95, p99 = (found[f"{latency}.{each}"] for each in ("p50", "p95", "p99"))
        assert p50 <= p95 <= p99
        alone = in_units(
            [f"{latency}.p50"],
            np.array([[outputs[metrics.index(f"{latency}.p50")]]]),
            rates_1xA,
            np.zeros(1, int),
            Scaling((0.5,), (2.0,), "residual"),
        )
        assert p50 == alone[0, 0] or latency == DELAY


def test_quantiles_are_learned_beside_the_mean_and_a_silent_network_says_their_usual_ratio() -> None:
    """Labels of a quantile are four times the rate model's mean in all rows: so a network of no output says that."""
    metrics = ("e2e_latency_s", "e2e_latency_s.p99")
    rates_GxA = np.full((8, len(ESTIMATED)), 0.5)
    labels_GxA = np.full((8, len(ESTIMATED)), 0.5)
    labels_GxA[:, ESTIMATED.index("e2e_latency_s.p99")] = 2.0
    scaling = scaling_of(metrics, scaled(metrics, labels_GxA, rates_GxA, "residual"), "residual")
    found = in_units(metrics, np.zeros((8, 2)), rates_GxA, np.zeros(8, int), scaling)
    np.testing.assert_allclose(np.exp(found), [[0.5, 2.0]] * 8)


def test_every_quantile_is_of_a_latency() -> None:
    assert {name.partition(".")[0] for name in QUANTILES} == set(LATENCIES)


@given(st.lists(st.floats(-50, 50), min_size=len(ESTIMATED), max_size=len(ESTIMATED)))
def test_no_delay_of_results_is_longer_than_their_latency(outputs: list[float]) -> None:
    rates_1xA = np.full((1, len(ESTIMATED)), 0.25)
    scaling = Scaling((0.5,) * len(ESTIMATED), (2.0,) * len(ESTIMATED), "residual")
    (found,) = in_units(ESTIMATED, np.array([outputs]), rates_1xA, np.zeros(1, int), scaling)
    for each in ("", ".p50", ".p95", ".p99"):
        delay, whole = (ESTIMATED.index(f"{name}{each}") for name in (DELAY, "processing_latency_s"))
        assert found[delay] <= found[whole]
