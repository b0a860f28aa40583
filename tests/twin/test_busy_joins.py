"""Joins that are always busy, or blocked again and again: fast runs against exact ones, and what a window foresees."""

from __future__ import annotations

from functools import cache
from typing import Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.twin.worlds import deployment, sink, source
from twin.deployment import Deployment
from twin.engine.windows.history import History
from twin.engine.windows.merging import Piece
from twin.engine.windows.turns import Turns
from twin.metrics import Metrics
from twin.scenario import RunSettings, Scenario
from twin.simulation import simulate

RATES = {"a": 2000.0, "b": 1200.0}
WINDOWS: dict[str, dict[str, Any]] = {
    "count": {"policy": "count", "size_tuples": 160},
    "sliding count": {"policy": "count", "size_tuples": 160, "slide_tuples": 90},
    "time": {"policy": "time", "size_s": 0.25, "slide_s": 0.1},
}


def busy(window: dict[str, Any], selectivity: float, after_s: float) -> Deployment:
    """More than the join can take, on both sides; and more results than what follows can take."""
    join = {"kind": "join", "name": "j", "window": window, "service_time_s": 6e-4, "selectivity": selectivity}
    after = {"kind": "map", "name": "after", "service_time_s": after_s}
    streams = [*((name, "j") for name in RATES), ("j", "after"), ("after", "sink")]
    return deployment([*(source(name) for name in RATES), join, after, sink()], streams, RATES)


@cache
def measured(name: str, selectivity: float, after_s: float, fidelity: Literal["exact", "fast"]) -> Metrics:
    segments = 1000 if fidelity == "fast" else None
    run = RunSettings(horizon_s=30.0, warmup_s=10.0, fidelity=fidelity, seed=1, segments=segments)
    return simulate(Scenario.of(busy(WINDOWS[name], selectivity, after_s), run)).metrics


@pytest.mark.parametrize("name", ["count", "sliding count"])
def test_sides_of_a_busy_join_take_turns(name: str) -> None:
    """Its windows hold both: were it to take whole segments, many would hold one side alone."""
    exact, fast = measured(name, 0.002, 1e-6, "exact"), measured(name, 0.002, 1e-6, "fast")
    assert fast.throughput_per_s == pytest.approx(exact.throughput_per_s, rel=0.07)


@pytest.mark.parametrize("segments", [100, 400, 2000])
def test_small_windows_of_a_busy_join_hold_all_sides(segments: int) -> None:
    """Two full channels of like sides are mixed at random: w (w - 1) / 4 pairs, however many come in one turn."""
    size, selectivity = 20, 0.1
    window = {"policy": "count", "size_tuples": size}
    join = {"kind": "join", "name": "j", "window": window, "service_time_s": 1.2e-3, "selectivity": selectivity}
    streams = [("a", "j"), ("b", "j"), ("j", "sink")]
    job = deployment([source("a"), source("b"), join, sink()], streams, {"a": 2000.0, "b": 2000.0})
    run = simulate(Scenario.of(job, RunSettings(horizon_s=80.0, warmup_s=20.0, fidelity="fast", segments=segments)))
    (found,) = [each for each in run.operators if each.operator == "j"]
    windows = found.tuples_in / size
    assert found.tuples_out / windows == pytest.approx(selectivity * size * (size - 1) / 4, rel=0.07)


@given(turns=st.lists(st.tuples(st.integers(0, 2), st.integers(1, 300)), min_size=1, max_size=40))
def test_what_is_mixed_is_as_much_as_came(turns: list[tuple[int, int]]) -> None:
    mixture = Turns(3)
    for side, n in turns:
        mixture.take(side, n)
        mixed = mixture.mixed([(side, Piece(0.0, 1.0, n, 0.0, 0.0, 0.0, 0.0, n))])
        assert sum(count for _, count, _ in mixed) == pytest.approx(n)
        assert all(count > 0.0 for _, count, _ in mixed)


def test_sides_that_take_long_turns_are_mixed_over_a_round_of_them() -> None:
    mixture, found = Turns(2), [0.0, 0.0]
    for turn in range(200):
        for _ in range(4):
            mixture.take(turn % 2, 50)
            for side, count, _ in mixture.mixed([(turn % 2, Piece(0.0, 1.0, 50, 0.0, 0.0, 0.0, 0.0, 50))]):
                found[side] += count if turn >= 100 else 0.0
                assert turn < 100 or 10.0 < count < 40.0
    assert found == pytest.approx([sum(found) / 2] * 2, rel=0.02)


def test_a_blocked_join_stands_still_while_it_is_blocked() -> None:
    """Nothing that was not served is in its windows, or their results would block it for ever longer."""
    exact, fast = measured("time", 0.01, 1e-3, "exact"), measured("time", 0.01, 1e-3, "fast")
    assert exact.processing_latency_s is not None and fast.processing_latency_s is not None
    assert fast.throughput_per_s == pytest.approx(exact.throughput_per_s, rel=0.05)
    assert fast.processing_latency_s.mean == pytest.approx(exact.processing_latency_s.mean, rel=0.2)


def test_only_what_comes_smoothly_is_foreseen() -> None:
    history = History()
    for k in range(8):
        history.add(k / 10, (k + 1) / 10, 20.0, (0.0, 0.0, 0.0, 0.0))
        history.came(20, (k + 1) / 10, False)
    assert not history.foresee(0.9)  # tuples waited longer than their segment spans: all are known
    history.flows = True
    assert history.foresee(0.9)
    assert history.count_until(0.9) == pytest.approx(180.0, rel=0.01)
    history.recall()
    assert history.count_until(0.9) == 160.0


@pytest.mark.parametrize("came", [7.0, 20.0])
def test_what_was_foreseen_is_in_one_window_alone(came: float) -> None:
    """Tuples that a window took for granted are no part of the next, though they come to be known after its join."""
    history = History()
    for k in range(8):
        history.add(k / 10, (k + 1) / 10, 20.0, (0.0, 0.0, 0.0, 0.0))
        history.came(20, (k + 1) / 10, True)
    assert history.foresee(0.85)
    first = history.count_until(0.85)
    history.recall()
    for k in range(3):  # the join was blocked meanwhile
        history.add(2.0, 2.0 + (k + 1) / 10, came, (0.0, 0.0, 0.0, 0.0))
    assert history.count_until(0.85) == pytest.approx(first)
    assert history.count_until(3.0) == pytest.approx(160.0 + 3 * came)
    history.correct_last(2.4, 2.5)
    assert history.count_until(0.85) == pytest.approx(first)


def test_tumbling_windows_of_a_blocked_join_have_each_tuple_once() -> None:
    """So of two even sides there are selectivity * |W1| * |W2| matches, however long their results block it."""
    join = {"kind": "join", "name": "j", "window": {"policy": "time", "size_s": 1.0}, "selectivity": 0.03}
    after = {"kind": "map", "name": "after", "service_time_s": 3e-4}
    streams = [("a", "j"), ("b", "j"), ("j", "after"), ("after", "sink")]
    job = deployment([source("a"), source("b"), join, after, sink()], streams, {"a": 500.0, "b": 150.0})
    run = simulate(Scenario.of(job, RunSettings(horizon_s=240.0, warmup_s=20.0, fidelity="fast", seed=1)))
    assert next(each for each in run.operators if each.operator == "j").backpressured > 0.05
    assert run.metrics.throughput_per_s == pytest.approx(0.03 * 500.0 * 150.0, rel=0.03)


def test_a_side_that_keeps_up_meets_one_that_is_held_up() -> None:
    """Tuples leave a full channel's producer one by one, so windows hold as many of a side as chance says.

    By hand: a busy join takes all of the side that keeps up, and of the other as much as it has time for. Windows of w
    tuples, a share q of one side, have selectivity * w * (w - 1) * q * (1 - q) matches.
    """
    window = {"policy": "count", "size_tuples": 40}
    join = {"kind": "join", "name": "j", "window": window, "selectivity": 0.01, "service_time_s": 6e-4}
    each = [source("a"), source("b", service_time_s=2e-4), join, sink()]
    job = deployment(each, [("a", "j"), ("b", "j"), ("j", "sink")], {"a": 300.0, "b": 5000.0})
    settings = RunSettings(horizon_s=60.0, warmup_s=12.0, fidelity="fast", seed=1, segments=500)
    run = simulate(Scenario.of(job, settings))
    rate = next(each.rate_in_per_s for each in run.operators if each.operator == "j")
    share = 300.0 / rate
    by_hand = rate / 40 * 0.01 * 40 * 39 * share * (1.0 - share)
    assert run.metrics.throughput_per_s == pytest.approx(by_hand, rel=0.05)
