"""Runs that end once they are precise enough: their precision, and the cases in which they are not."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from tests.twin.worlds import chain, queue, simulated
from twin.events import SlowDown
from twin.run import Run
from twin.scenario import RunSettings, Scenario
from twin.simulation import simulate
from twin.steadiness import joined, together

PRECISE = RunSettings(horizon_s=1e5, warmup_s=10.0, period_s=50.0, precision=0.1)
SEEDS = 30


def run(load: float, seed: int = 0) -> Run:
    """Run of M/M/1 at 100 records a second."""
    return simulate(Scenario.of(queue(100, load, 1), PRECISE.model_copy(update={"seed": seed})))


@pytest.mark.slow
@pytest.mark.parametrize("load", [0.5, 0.8])
def test_means_are_as_close_to_theory_as_was_asked(load: float) -> None:
    """Means are within the precision asked for in 95 of 100 runs, tested by the binomial law of a few runs."""
    runs = [run(load, seed) for seed in range(SEEDS)]
    assert all(each.manifest["simulated_s"] < 1e5 and not each.warnings for each in runs)
    waits = np.array([each.metrics.processing_latency_s.mean for each in runs if each.metrics.processing_latency_s])
    rates = np.array([each.metrics.throughput_per_s for each in runs])
    held = (np.abs(waits / (load / 100 / (1 - load)) - 1) <= 0.1) & (np.abs(rates / 100 - 1) <= 0.1)
    assert held.sum() >= stats.binom.ppf(1e-3, SEEDS, 0.95)


@given(st.integers(1, 400))
def test_batches_are_joined_to_equal_ones_that_are_neither_few_nor_many(steps: int) -> None:
    """Batches are joined to some dozens of equal ones, from 40 short ones on; only the ends may be lost."""
    numbers = [0]
    while len(numbers) <= steps:
        numbers.append(numbers[-1] + together(numbers[-1]))
    lengths = np.diff(numbers)
    found = joined(np.array([lengths, lengths, lengths, lengths], float))
    assert len(set(found[0])) == 1
    assert found.sum() > 4 * (numbers[-1] - found[0, 0])
    assert len(found[0]) == steps if numbers[-1] < 80 else 40 <= len(found[0]) < 80


def test_a_run_that_ends_early_is_the_beginning_of_the_whole_one() -> None:
    early = run(0.5)
    ended_s = early.manifest["simulated_s"]
    assert ended_s < early.manifest["horizon_s"] == 1e5
    settings = PRECISE.model_copy(update={"horizon_s": ended_s, "precision": None})
    assert simulate(Scenario.of(queue(100, 0.5, 1), settings)).operator_rows == early.operator_rows


def test_windows_are_full_before_anything_is_measured() -> None:
    window = {"policy": "time", "size_s": 20.0, "slide_s": 5.0}
    job = chain([{"kind": "aggregate", "name": "w", "window": window}], 20.0)
    found = simulated(job, horizon_s=1e4, period_s=5.0, precision=0.05)
    assert found.manifest["warmup_s"] == 40.0
    assert found.manifest["simulated_s"] >= 40.0 + 40 * 20.0
    assert found.metrics.throughput_per_s == pytest.approx(0.2)


def test_what_is_not_reached_is_told() -> None:
    short = simulate(Scenario.of(queue(100, 0.9, 1), PRECISE.model_copy(update={"horizon_s": 100.0})))
    assert short.manifest["simulated_s"] == 100.0
    assert any("is not reached" in line and "times as long" in line for line in short.warnings)


def test_where_something_happens_at_a_time_a_run_lasts_until_its_horizon() -> None:
    slow = SlowDown(at_s=20.0, host="h", factor=1.1)
    settings = PRECISE.model_copy(update={"horizon_s": 100.0})
    found = simulate(Scenario.of(queue(100, 0.3, 1), settings, [slow]))
    assert found.manifest["simulated_s"] == 100.0
    assert any("events (slow-down)" in line for line in found.warnings)
