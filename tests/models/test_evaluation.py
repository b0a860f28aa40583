"""Laws of the error measures, and of the baselines' table."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from models.dataset import of_deployments, split
from models.evaluation import balanced_accuracy, flat_vector_rows, q_error, replicate_rows, row
from models.labels import LABEL_FLOOR
from tests.models.deployments import random_deployment
from twin.errors import BadInput
from twin.metrics import METRICS

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


def test_replicates_are_compared_within_a_configuration() -> None:
    deployments = [random_deployment(seed) for seed in (1, 1, 2, 3, 3)]
    labels = np.array([[1, 1, 1, 1, 1], [2, 1, 1, 1, 1], [9, 9, 9, 0, 1], [1, 1, 1, 0, 1], [1, 3, 1, 0, 1]], float)
    rows = {line.metric: line for line in replicate_rows(of_deployments(deployments, labels, list("aabcc")))}
    assert rows["throughput_per_s"].rows == 2
    assert rows["throughput_per_s"].q95 == pytest.approx(1.95)
    assert rows["backpressured"].accuracy == 1.0
    assert replicate_rows(of_deployments(deployments[:1], labels[:1])) == []


def test_flat_vector_learns_what_depends_on_its_vector() -> None:
    deployments = [random_deployment(seed) for seed in range(300)]
    rate = np.array([sum(law.rate_per_s for law in each.workload.arrivals.values()) for each in deployments])
    labels = np.stack([rate, rate, rate, rate > np.median(rate), rate > 100], axis=1)
    dataset = of_deployments(deployments, labels)
    lines = {(line.metric, line.model): line for line in flat_vector_rows(dataset, split(dataset, 0))}
    assert lines["throughput_per_s", "Flat Vector (log)"].q50 < 1.3  # type: ignore[operator]
    assert lines["backpressured", "Flat Vector"].accuracy > 0.8  # type: ignore[operator]
    assert {metric for metric, _ in lines} == set(METRICS)
