"""Random jobs of the benchmark of limits: the same each time, and what all of them are asked."""

from __future__ import annotations

import math

import numpy as np
import pytest

from benchmarks.limits import PARTS, largest, listed, predicted, random_job, rows
from optimizers.objectives import at_rate
from twin.metrics import METRICS
from twin.scenario import config_hash

NUMBERS = range(8)


def test_a_seed_and_a_number_are_a_job() -> None:
    """The same seed and number give the same job, other ones another; every second one chains its operators."""
    again = [config_hash(random_job(7, number)) for number in NUMBERS]
    assert again == [config_hash(random_job(7, number)) for number in reversed(NUMBERS)][::-1]
    assert len({*again, *(config_hash(random_job(8, number)) for number in NUMBERS)}) == 2 * len(NUMBERS)
    assert [random_job(7, number).engine.chaining for number in (0, 1, 2, 3)] == [False, True, False, True]


def test_predictions_of_random_jobs_are_finite() -> None:
    """Predictions are finite, at any load."""
    for number in NUMBERS:
        job = random_job(7, number)
        for load in (0.1, 1.0):
            assert all(math.isfinite(predicted(at_rate(job, load), metric)) for metric in METRICS), (number, load)


@pytest.mark.parametrize("border", [0.02, 0.7, 1.0, 13.0])
def test_the_largest_load_is_within_a_percent(border: float) -> None:
    tried: list[float] = []
    found = largest(lambda load: bool(tried.append(load)) or load <= border)
    assert found == pytest.approx(border, rel=0.01)
    assert len(tried) <= 20
    assert math.isnan(largest(lambda _load: True)) and math.isnan(largest(lambda _load: False))


@pytest.mark.parametrize("chance", [0.95, 1.0, 0.4])
def test_a_run_that_fails_by_chance_is_no_limit(chance: float) -> None:
    """One load at which a run fails by chance, far below the border, does not end the search."""
    found = largest(lambda load: load <= 3.3 and not chance / 1.01 < load < chance * 1.01)
    assert found == pytest.approx(3.3, rel=0.01)
    assert math.isnan(largest(lambda load: not chance / 1.01 < load < chance * 1.01))


def test_far_answers_are_silent_unless_something_was_named() -> None:
    """Answers that are far off count as silent only where nothing was named; a limit that was not found is infinitely
    far off."""
    ages = {f"latency {part}": [1.0, 1.02] for part in PARTS}
    good = {"runs": 2.0, "rates": 2.1, "capacity": 2.02, "unseen": {}} | ages
    answers = {
        0: good,
        1: good | {"rates": 1.0},
        2: good | {"rates": 1.0, "unseen": {"rates": ["x"]}},
        3: good | {"capacity": "never"},
    }
    found = {row[:2]: row[2:] for row in rows(answers)}
    assert found["rates", "all"] == (4, pytest.approx(2.0), 2.0, 2.0, 1)
    assert found["rates", "plain"][3] == 2.0 and found["capacity", "Flink"][3] == np.inf
    assert [(row[0], row[1]) for row in listed(answers)] == [(3, "capacity"), (1, "rates")]
