"""The fit of BriskStream's applications: what is changed, and how far from the published ranges counts."""

from __future__ import annotations

import pytest

from benchmarks.fit_applications import Fit, changed, next_times
from scenarios.files import scenario_file


def test_both_factors_reach_every_operator_and_nothing_else() -> None:
    before = scenario_file.load("briskstream-fd")
    after = changed(before, 0.5, 2.0)
    for operator in before.query.operators:
        other = after.query.operator(operator.name)
        assert operator.service_time_s is not None
        assert other.service_time_s == pytest.approx(0.5 * operator.service_time_s)
        if operator.tuple_bytes is not None:
            assert other.tuple_bytes == 2 * operator.tuple_bytes
    assert after.query.streams == before.query.streams and after.engine == before.engine


def test_the_middle_of_both_published_ranges_is_the_nearest() -> None:
    gains = {"middle": (0.2861, 2.4864), "an end": (0.39, 4.55), "no effect": (0.05, 0.6)}
    distance = {name: Fit("FD", 1.0, 1.0, 7e6, each).distance for name, each in gains.items()}
    assert distance["middle"] == pytest.approx(0.0, abs=1e-3)
    assert distance["an end"] == pytest.approx(2**0.5, rel=1e-3) and distance["no effect"] > 3.0


def test_times_are_sought_between_too_fast_and_too_slow_even_where_longer_ones_bear_more() -> None:
    assert next_times({1.0: 12.0}, 10.0) == pytest.approx(1.2)
    assert next_times({1.0: 12.0, 1.2: 9.0}, 10.0) == pytest.approx(1.2**0.5)
    assert next_times({1.0: 9.0, 0.9: 8.0, 1.1: 11.0}, 10.0) == pytest.approx(1.1**0.5)
    tried, wanted = {1.0: 12.0}, 10.0
    for _ in range(20):  # falls by a jump at 1.3, past what is wanted
        times = next_times(tried, wanted)
        tried[times] = 12.0 if times < 1.3 else 9.0
    assert min(abs(times - 1.3) for times in tried) < 1e-3
