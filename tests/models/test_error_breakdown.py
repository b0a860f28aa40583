"""Strata part the rows, their shares add up, and the noise is what replicates say it is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from models.dataset import Dataset, of_deployments
from models.error_breakdown import OF_EACH, STRATA, BreakdownRow, error_breakdown
from tests.models.deployments import random_deployment
from twin.metrics import METRICS

GROUPS = (
    ("1 source", "2 sources", "3 sources"),
    ("no join", "joins"),
    ("< 20 results", "20 to 200 results", ">= 200 results"),
    ("utilisation < 0.8", "utilisation 0.8 to 1.25", "utilisation > 1.25"),
)
SIGMA = 0.3


class Perfect:
    """Knows the cost without its noise."""

    name = "perfect"

    def predict(self, dataset: Dataset) -> Mapping[str, np.ndarray]:
        return {metric: np.full(len(dataset), 1.0) for metric in METRICS}

    def save(self, folder: Path) -> None:
        raise NotImplementedError


def noisy(pairs: int) -> Dataset:
    """Every configuration twice; every cost is 1, but for the noise of a run."""
    rng = np.random.default_rng(0)
    labels = np.exp(SIGMA * rng.standard_normal((2 * pairs, 5)))
    labels[:, 3:] = rng.random((2 * pairs, 2)) < 0.9
    kinds = [random_deployment(seed) for seed in range(40)]
    one = of_deployments(kinds, np.ones((40, 5)))
    rows = np.concatenate([np.arange(pairs) % 40] * 2)
    part = one.take(rows)
    hashes = np.array([str(index) for index in range(pairs)] * 2)
    outputs = rng.choice([5.0, 50.0, 500.0], size=2 * pairs)
    return replace(part, labels_GxA=labels, config_hash=hashes, tuples_out=outputs)


def table(dataset: Dataset) -> dict[tuple[str, str], BreakdownRow]:
    found = error_breakdown(Perfect(), dataset, np.arange(len(dataset)))
    return {(line.metric, line.stratum): line for line in found}


def test_strata_of_a_kind_part_the_rows_and_the_error() -> None:
    lines = table(noisy(300))
    assert {name for group in GROUPS for name in group} | {"all"} == set(STRATA)
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
    assert every.error is not None
