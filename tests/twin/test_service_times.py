"""Operators alone: what is measured is the law that was given."""

from __future__ import annotations

import math

import numpy as np
import pytest

from tests.twin.worlds import chain
from twin.errors import BadInput
from twin.service_times import measure

SAMPLES = 8000


@pytest.mark.parametrize("scv", [0.05, 0.5, 1.0])
def test_times_follow_the_gamma_law_that_was_given(scv: float) -> None:
    """Kolmogorov-Smirnov against as many draws of the law, at the 0.1 % level; and the mean, within 5 deviations."""
    job = chain([{"kind": "map", "name": "work", "service_time_s": 0.002, "service_scv": scv}], 50)
    times = np.sort(measure(job, "work", {"source": 50.0}, SAMPLES, seed=1).times_s)
    law = np.sort(np.random.default_rng(2).gamma(1 / scv, 0.002 * scv, 4 * SAMPLES))
    every = np.concatenate([times, law])
    distance = np.abs(
        np.searchsorted(times, every, "right") / len(times) - np.searchsorted(law, every, "right") / len(law)
    ).max()
    assert distance < 1.95 * math.sqrt(1 / len(times) + 1 / len(law))
    assert times.mean() == pytest.approx(0.002, abs=5 * 0.002 * math.sqrt(scv / SAMPLES))


def test_neither_distance_nor_pauses_nor_neighbours_are_in_a_profile() -> None:
    work = {"kind": "map", "name": "work", "service_time_s": 1e-4, "service_scv": 0}
    host = {"name": "h", "cpu_percent": 200, "ram_mb": 9000, "bandwidth_mbps": 10, "latency_ms": 5}
    numa = {"sockets": [{"cores": 1}, {"cores": 1}], "numa": {"latency_ns": [[0, 9e5], [9e5, 0]]}}
    placement = {"source": "h", "work": "h/1", "sink": "h/1"}
    job = chain([work], 50, hosts=[host | numa], placement=placement)
    assert set(measure(job, "work", {"source": 50.0}, 100, seed=0).times_s) == {1e-4}


def test_time_by_the_engine_and_evaluations_of_windows_count() -> None:
    """Of 100 tuples one pays for the evaluation: the mean is the service, the scan of 100 tuples and the result."""
    window = {"policy": "count", "size_tuples": 100}
    job = chain([{"kind": "aggregate", "name": "mean", "window": window, "service_scv": 0}], 50)
    measured = measure(job, "mean", {"source": 50.0}, 10_050, seed=0)
    engine, spec = job.engine, job.query.operator("mean")
    expected_s = engine.service_s(job.query, spec) + engine.scan_s(spec) + engine.result_s(spec) / 100
    assert measured.times_s.mean() == pytest.approx(expected_s, rel=1e-3)
    assert measured.results_per_input == pytest.approx(0.01, rel=0.02)
    assert len(np.unique(measured.times_s.round(9))) == 2


def test_a_window_of_time_holds_what_the_given_rate_brings() -> None:
    aggregate = {"kind": "aggregate", "name": "sum", "window": {"policy": "time", "size_s": 2}}
    job = chain([aggregate], 50)
    measured = measure(job, "sum", {"source": 50.0}, 100, seed=0)
    assert len(measured.times_s) == pytest.approx(5 * 2 * 50, rel=0.02), "five windows"
    assert measured.results_per_input == pytest.approx(1 / 100, rel=0.3)


def test_an_operator_without_cost_is_refused() -> None:
    job = chain([{"kind": "map", "name": "free", "service_time_s": 0}], 50)
    with pytest.raises(BadInput, match=r"'free' has a profile with zero cost.*give it a service_time_s above 0"):
        measure(job, "free", {"source": 50.0}, 10, seed=0)
