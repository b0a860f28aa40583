"""Operators alone: measured times follow the given law."""

from __future__ import annotations

import math

import numpy as np
import pytest

from tests.twin.worlds import chain, joined
from twin.errors import BadInput
from twin.service_times import measure

SAMPLES = 8000


@pytest.mark.parametrize("scv", [0.05, 0.5, 1.0])
def test_times_follow_the_gamma_law_that_was_given(scv: float) -> None:
    """Times pass Kolmogorov-Smirnov against the gamma law, at the 0.1 % level, with the mean within 5 deviations."""
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
    """The mean time has the service, and an evaluation for one record of 100: the scan of 100 records and the
    result."""
    window = {"policy": "count", "size_records": 100}
    job = chain([{"kind": "aggregate", "name": "mean", "window": window, "service_scv": 0}], 50)
    measured = measure(job, "mean", {"source": 50.0}, 10_050, seed=0)
    engine, spec = job.engine, job.query.operator("mean")
    expected_s = engine.service_s(job.query, spec) + engine.scan_s(job.query, spec) + engine.result_s(spec) / 100
    assert measured.times_s.mean() == pytest.approx(expected_s, rel=1e-3)
    assert measured.results_per_input == pytest.approx(0.01, rel=0.02)
    assert len(np.unique(measured.times_s.round(9))) == 2


def test_a_window_of_time_holds_what_the_given_rate_brings() -> None:
    aggregate = {"kind": "aggregate", "name": "sum", "window": {"policy": "time", "size_s": 2}}
    job = chain([aggregate], 50)
    measured = measure(job, "sum", {"source": 50.0}, 100, seed=0)
    assert len(measured.times_s) == pytest.approx(5 * 2 * 50, rel=0.02), "five windows"
    assert measured.results_per_input == pytest.approx(1 / 100, rel=1e-9)


def test_sessions_and_windows_of_event_time_come_at_the_given_rate() -> None:
    """Sessions and event-time windows are measured at the given rate: always busy, hardly any would end."""
    visits = {"kind": "session", "name": "visits", "keys": 500, "gap_s": 2, "service_time_s": 1e-4}
    measured = measure(chain([visits], 200), "visits", {"source": 200.0}, 10_000, seed=0)
    assert measured.results_per_input == pytest.approx(math.exp(-200 * 2 / 500), rel=0.03)
    windows = [{"length_s": 2, "every_s": 1}]
    sums = {"kind": "compute", "name": "sums", "keys": 20, "key_groups": 4, "windows": windows, "service_time_s": 1e-4}
    measured = measure(chain([sums], 200), "sums", {"source": 200.0}, 500, seed=0)
    assert measured.results_per_input == pytest.approx(20 / 200, rel=0.02)


def test_a_window_is_full_though_a_core_could_not_keep_up_with_its_input() -> None:
    match = {"kind": "join", "name": "match", "window": {"policy": "time", "size_s": 1}, "selectivity": 0.002}
    rates = {"a": 600.0, "b": 500.0}
    job = joined({**match, "service_time_s": 2e-3, "service_scv": 0}, rates)
    measured = measure(job, "match", rates, 1000, seed=0)
    assert measured.results_per_input == pytest.approx(600 * 500 * 0.002 / 1100, rel=0.05)
    assert measured.times_s.mean() > 2e-3


def test_more_than_the_records_show_is_refused_with_how_many_do() -> None:
    hour = {"kind": "aggregate", "name": "hour", "window": {"policy": "time", "size_s": 3600}}
    with pytest.raises(
        BadInput, match=r"'hour' .* on 1000 records: 180000 come in the 3600 s .* give --samples 9000 or"
    ):
        measure(chain([hour], 50), "hour", {"source": 50.0}, 1000, seed=0)


def test_an_operator_without_cost_is_refused() -> None:
    job = chain([{"kind": "map", "name": "free", "service_time_s": 0}], 50)
    with pytest.raises(BadInput, match=r"'free' has a profile with zero cost.*give it a service_time_s above 0"):
        measure(job, "free", {"source": 50.0}, 10, seed=0)
