"""Laws of the error measures."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from models.dataset import of_deployments
from models.evaluation import balanced_accuracy, q_error, replicate_rows, row
from models.labels import LABEL_FLOOR
from tests.models.deployments import random_deployment
from twin.errors import BadInput

COST = st.floats(1e-4, 1e6)


@given(COST, COST, st.floats(1e-2, 1e2))
def test_q_error_is_symmetric_scale_free_and_at_least_one(truth: float, estimate: float, scale: float) -> None:
    one, other = np.array([truth]), np.array([estimate])
    q = q_error(one, other)
    assert q[0] >= 1
    np.testing.assert_allclose(q, q_error(other, one))
    np.testing.assert_allclose(q, q_error(one * scale, other * scale), rtol=1e-9)
    assert q_error(one, one)[0] == 1


def test_q_error_of_zero_is_finite() -> None:
    assert q_error(np.array([0.0]), np.array([LABEL_FLOOR * 10]))[0] == pytest.approx(10)


def test_balanced_accuracy_gives_constant_answers_half() -> None:
    truth = np.array([1.0] * 9 + [0.0])
    assert balanced_accuracy(truth, np.ones(10)) == 0.5
    assert balanced_accuracy(truth, np.zeros(10)) == 0.5
    assert balanced_accuracy(truth, truth) == 1.0
    with pytest.raises(BadInput, match="same label"):
        balanced_accuracy(np.ones(3), np.ones(3))


def test_row_of_a_known_factor() -> None:
    truth = np.linspace(1, 10, 50)
    line = row("throughput_per_s", "m", truth, truth * 2)
    assert (line.q50, line.q95, line.rows) == (pytest.approx(2), pytest.approx(2), 50)
    assert row("success", "m", np.ones(4), np.ones(4)).accuracy is None


def test_standard_errors_shrink_with_the_rows() -> None:
    rng = np.random.default_rng(0)
    truth = rng.lognormal(size=3200)
    estimate = truth * rng.lognormal(sigma=0.5, size=3200)
    few = row("throughput_per_s", "m", truth[:200], estimate[:200], bootstrap=200)
    many = row("throughput_per_s", "m", truth, estimate, bootstrap=200)
    assert few.q50_se and few.q95_se and many.q50_se
    assert few.q50_se / many.q50_se == pytest.approx(4, rel=0.6)  # the root of 3200 / 200
    assert few.q95_se > few.q50_se
    assert row("throughput_per_s", "m", truth, truth, bootstrap=9).q95_se == 0
    assert row("success", "m", truth > 1, estimate, bootstrap=50).accuracy_se
    assert row("success", "m", np.ones(4), np.ones(4), bootstrap=9).accuracy_se is None


def test_replicates_are_compared_within_a_configuration() -> None:
    deployments = [random_deployment(seed) for seed in (1, 1, 2, 3, 3)]
    labels = np.array([[1, 1, 1, 1, 1], [2, 1, 1, 1, 1], [9, 9, 9, 0, 1], [1, 1, 1, 0, 1], [1, 3, 1, 0, 1]], float)
    rows = {line.metric: line for line in replicate_rows(of_deployments(deployments, labels, list("aabcc")))}
    assert rows["throughput_per_s"].rows == 2
    assert rows["throughput_per_s"].q95 == pytest.approx(1.95)
    assert rows["backpressured"].accuracy == 1.0
    assert replicate_rows(of_deployments(deployments[:1], labels[:1])) == []


def test_how_far_an_estimate_is_below_everything_that_was_seen_does_not_count() -> None:
    """Fourteen results in 240 s are the fewest here; a tree's negative throughput is as wrong as none."""
    truth = np.array([14 / 240, 1.0, 2.0])
    for below in (-5.0, 0.0, 1e-9):
        found = row("throughput_per_s", "m", truth, np.array([1.0, below, 2.0]))
        assert found.q95 is not None and found.q95 < 10 * 240 / 14
    assert row("throughput_per_s", "m", truth, truth).q95 == 1
