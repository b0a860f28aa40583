"""Windows of records with keys: what is in them, what comes out, and how old that is, against brute force."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import settings as tried
from hypothesis import strategies as st

from tests.twin.worlds import chain, simulated
from twin.deployment import Deployment
from twin.engine.draws import Draws
from twin.engine.windows.combiner import GroupCombiner
from twin.engine.windows.content import TRIM, Content
from twin.engine.windows.trigger import Extent
from twin.flink_keys import key_groups_of_keys
from twin.key_skew import zipf_shares
from twin.scenario import RunSettings
from twin.wiring.build import build
from twin.wiring.wiring import Wiring

RECORDS = st.lists(
    st.tuples(st.floats(0.01, 1.0), st.integers(0, 4), st.floats(0, 9), st.floats(0, 9)), min_size=1, max_size=60
)


@tried(max_examples=60, deadline=None)
@given(records=RECORDS, size=st.floats(0.1, 20), cut=st.integers(0, 59))
def test_a_window_is_what_came_in_it(records: list[tuple[float, int, float, float]], size: float, cut: int) -> None:
    """Also after what lies before it was forgotten. A result a key, in their order, as old as the oldest of its key."""
    positions = np.cumsum([gap for gap, *_ in records])
    content = Content()
    for position, (_, *rest) in zip(positions, records, strict=True):
        content.add(position, *rest)
    end = positions[min(cut, len(positions) - 1)]
    inside = [each for at, (_, *each) in zip(positions, records, strict=True) if end - size < at <= end]
    content.forget(end - size)
    assert list(zip(*content.between(end - size, end), strict=True)) == [tuple(each) for each in inside]
    assert content.count(end - size, end) == len(inside)
    found = GroupCombiner(Extent(size, size, True), 0.0, 0.0, 5).results(
        [content], end, Draws(np.random.default_rng(1))
    )
    expected = {}
    for key, _, _ in inside:
        expected[key] = tuple(min(each[place] for each in inside if each[0] == key) for place in (1, 2))
    assert found == [(key, *stamps) for key, stamps in expected.items()]


def test_what_is_forgotten_is_thrown_away() -> None:
    content = Content()
    for place in range(10 * TRIM):
        content.add(place, 0, place, place)
        content.forget(place - 5)
    assert len(content) == 5 and len(content.keys) < 3 * TRIM


def grouped(window: dict[str, Any], skew: dict[str, Any], groups: int, **more: Any) -> Deployment:
    """A window of groups in as many key groups; what is served takes no time."""
    operator = {"kind": "aggregate", "name": "m", "window": window, "group_by": "int", "groups": groups}
    operator |= {"key_groups": groups, "service_time_s": 0.0} | more
    return chain([operator], 200.0, keys={"m": skew})


def followed(shares: np.ndarray, per_window: float, windows: int) -> tuple[np.ndarray, np.ndarray]:
    """Groups in each of some windows, and how old their oldest records are on average, as parts of the window."""
    rng, counts, ages = np.random.default_rng(7), np.zeros(windows), np.zeros(windows)
    for number in range(windows):
        keys = rng.choice(len(shares), rng.poisson(per_window), p=shares)
        oldest = np.zeros(len(shares))
        np.maximum.at(oldest, keys, rng.random(len(keys)))
        seen = np.unique(keys)
        counts[number], ages[number] = len(seen), oldest[seen].sum()
    return counts, ages


@pytest.mark.parametrize("zipf", [0.0, 1.0, 2.0])
def test_results_of_skewed_groups_are_as_many_and_as_old_as_real_ones(zipf: float) -> None:
    """Frequent groups have old records, rare ones need not be there; 8 windows of 5 s, twelve times."""
    made = grouped({"policy": "time", "size_s": 5.0}, {"zipf": zipf}, 300)
    counts, ages = followed(zipf_shares(300, zipf), 1000.0, 3000)
    rates, latencies = [], []
    for seed in range(12):
        run = simulated(made, horizon_s=42.0, warmup_s=2.0, period_s=2.0, seed=seed)
        rates.append(run.metrics.throughput_per_s * 40.0 / 8)
        latencies.append(run.metrics.processing_latency_s.mean)
    for found, expected in ((rates, counts.mean()), (latencies, 5.0 * ages.sum() / counts.sum())):
        assert abs(np.mean(found) - expected) < 4 * np.std(found, ddof=1) / np.sqrt(12) + 0.002 * expected


def test_keys_that_are_given_come_as_often_as_they_should() -> None:
    """They fall where Flink puts them, and each is as frequent as it was said to be, alone or beside others."""
    made = grouped({"policy": "count", "size_tuples": 10}, {"keys": 50, "zipf": 1.0}, 50, key_groups=8)
    keys = build(Wiring(made, RunSettings())).key_groups["m"]
    rng, n = np.random.default_rng(3), 40_000
    drawn = [keys.pick(uniform) for uniform in rng.random(n).tolist()]
    group_k = key_groups_of_keys(np.arange(50), "int", 8)
    shares = zipf_shares(50, 1.0)[np.argsort(group_k, kind="stable")]
    counts = np.bincount([key for _, key in drawn], minlength=50)
    assert np.all(np.abs(counts - n * shares) < 5 * np.sqrt(n * shares))
    assert all(group == np.sort(group_k)[key] == keys.group_of(key) for group, key in drawn[:2000])


def test_state_of_key_groups_is_what_windows_hold_of_them() -> None:
    made = grouped({"policy": "time", "size_s": 1000.0}, {"zipf": 1.0}, 40)
    built = build(Wiring(made, RunSettings(horizon_s=50.0)))
    built.env.run(until=20.0)
    keys, (task,) = built.key_groups["m"], built.tasks["m"]
    assert keys.states_bytes().sum() == pytest.approx(task.logic.held_bytes())
    gone = task.logic.take(0.0, lambda key: keys.group_of(key) == 3)
    assert keys.states_bytes()[3] == 0.0 and gone.bytes > 0.0
    task.logic.give(gone)
    assert keys.states_bytes()[3] == pytest.approx(gone.bytes)
