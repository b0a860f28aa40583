"""Tests of the laws of error measures, and of errors by stratum."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from models.dataset import Dataset, of_deployments
from models.evaluation import (
    OF_EACH,
    STRATA,
    BreakdownRow,
    balanced_accuracy,
    error_breakdown,
    q_error,
    replicate_rows,
    row,
)
from models.labels import LABEL_FLOOR
from tests.models.deployments import random_deployment
from twin.errors import BadInput
from twin.metrics import FURTHER, METRICS

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
    """Estimates below the least possible throughput (here 14 results in 240 s) are all as wrong, also negative ones."""
    truth = np.array([14 / 240, 1.0, 2.0])
    for below in (-5.0, 0.0, 1e-9):
        found = row("throughput_per_s", "m", truth, np.array([1.0, below, 2.0]))
        assert found.q95 is not None and found.q95 < 10 * 240 / 14
    assert row("throughput_per_s", "m", truth, truth).q95 == 1


GROUPS = (
    ("1 source", "2 sources", "3 sources"),
    ("no join", "joins"),
    ("< 20 results", "20 to 200 results", ">= 200 results"),
    ("utilisation < 0.8", "utilisation 0.8 to 1.25", "utilisation > 1.25"),
    ("steady arrivals", "bursts"),
)
ALONE = {"windows over event time", "rows kept by key", "calls", "checkpoints", "pauses of a collector"}
SIGMA = 0.3


class Perfect:
    """Model that knows the cost without its noise."""

    name = "perfect"

    def predict(self, dataset: Dataset) -> Mapping[str, np.ndarray]:
        return {metric: np.full(len(dataset), 1.0) for metric in METRICS}

    def save(self, folder: Path) -> None:
        raise NotImplementedError


def noisy(pairs: int) -> Dataset:
    """Dataset with every configuration twice; every cost is 1, but for the noise of a run."""
    rng = np.random.default_rng(0)
    labels = np.exp(SIGMA * rng.standard_normal((2 * pairs, 5)))
    labels[:, 3:] = rng.random((2 * pairs, 2)) < 0.9
    labels = np.concatenate([labels, np.full((2 * pairs, len(FURTHER)), np.nan)], axis=1)
    kinds = [random_deployment(seed) for seed in range(40)]
    one = of_deployments(kinds, np.ones((40, 5)))
    rows = np.concatenate([np.arange(pairs) % 40] * 2)
    part = one.take(rows)
    hashes = np.array([str(index) for index in range(pairs)] * 2)
    outputs = rng.choice([5.0, 50.0, 500.0], size=2 * pairs)
    return replace(part, labels_GxA=labels, config_hash=hashes, records_out=outputs)


def table(dataset: Dataset) -> dict[tuple[str, str], BreakdownRow]:
    found = error_breakdown(Perfect(), dataset, np.arange(len(dataset)))
    return {(line.metric, line.stratum): line for line in found}


def test_strata_of_a_kind_part_the_rows_and_the_error() -> None:
    lines = table(noisy(300))
    assert {name for group in GROUPS for name in group} | {"all"} | ALONE == set(STRATA)
    for metric in METRICS:
        for group in GROUPS:
            assert sum(lines[metric, name].rows for name in group) == lines[metric, "all"].rows == 600
            assert sum(lines[metric, name].share or 0.0 for name in group) == pytest.approx(1)


def test_all_that_a_perfect_model_misses_is_noise() -> None:
    every = table(noisy(2000))["throughput_per_s", "all"]
    assert every.error == pytest.approx(SIGMA**2, rel=0.1)
    assert every.noise == pytest.approx(SIGMA**2, rel=0.1)
    assert every.noise_share == pytest.approx(1, rel=0.1)
    assert every.pairs == 2000
    # |z| sigma, and sqrt(2) of it between two runs
    assert np.log(every.q95 or 0.0) == pytest.approx(1.96 * SIGMA, rel=0.1)
    assert np.log(every.limit_q95 or 0.0) == pytest.approx(np.sqrt(2) * 1.96 * SIGMA, rel=0.1)


def test_rows_without_a_label_do_not_count() -> None:
    dataset = noisy(100)
    labels = dataset.labels_GxA.copy()
    labels[:50, 0] = np.nan
    every = table(replace(dataset, labels_GxA=labels))["throughput_per_s", "all"]
    assert (every.rows, every.pairs) == (150, 50)


@pytest.mark.parametrize("rare", [OF_EACH - 1, OF_EACH])
def test_few_runs_of_a_class_give_no_balanced_accuracy(rare: int) -> None:
    dataset = noisy(100)
    labels = dataset.labels_GxA.copy()
    labels[:, 3] = np.arange(200) < rare
    every = table(replace(dataset, labels_GxA=labels))["backpressured", "all"]
    assert (every.accuracy is None) == (rare < OF_EACH)
    assert (every.limit_accuracy is None) == (rare < OF_EACH)
    assert every.error is not None
