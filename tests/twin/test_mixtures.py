"""Ages of what windows hold after a restart: the oldest of mixtures, and how a history tells their parts apart."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from twin.engine.windows.history import History
from twin.engine.windows.mixture import oldest_of_each, oldest_of_some, spreads

SPREADS = st.lists(st.tuples(st.integers(1, 30), st.floats(0, 5), st.floats(0, 5)), min_size=1, max_size=4)


@settings(max_examples=25, deadline=None)
@given(parts=SPREADS, k=st.integers(1, 40))
def test_the_oldest_of_some_is_the_mean_of_the_least(parts: list[tuple[int, float, float]], k: int) -> None:
    """Against the chances of every tuple to be the oldest of k: the least of k ranks is j."""
    spreads, reached = [], 0.0
    for n, gap, length in parts:
        spreads.append((float(n), reached + gap, reached + gap + (length if n > 1 else 0.0)))
        reached = spreads[-1][2]
    stamps = np.concatenate([np.linspace(low, high, int(n)) for n, low, high in spreads])
    left = k = min(k, len(stamps))
    expected, chance = 0.0, 1.0  # that none of the k is among those before
    for j, stamp in enumerate(stamps):
        here = left / (len(stamps) - j)
        expected += chance * here * stamp
        chance *= 1 - here
    assert oldest_of_some(spreads, k) == pytest.approx(expected, rel=1e-6, abs=1e-6)


def test_the_oldest_of_one_a_side_matches_sampling() -> None:
    rng = np.random.default_rng(0)
    sides = [[(30.0, 1.0, 2.0), (70.0, 5.0, 9.0)], [(50.0, 0.0, 4.0), (50.0, 6.0, 7.0)]]

    def sample(side: list[tuple[float, float, float]]) -> np.ndarray:
        n, low, high = np.array(side).T
        which = rng.choice(len(side), 200_000, p=n / n.sum())
        return rng.uniform(low[which], high[which])

    stamps = np.minimum(*map(sample, sides))
    mean, _ = oldest_of_each(sides)
    assert abs(mean - stamps.mean()) < 4 * stamps.std() / np.sqrt(len(stamps))


@settings(max_examples=60, deadline=None)
@given(
    late=st.lists(st.booleans(), min_size=1, max_size=40),
    start=st.integers(-1, 40),
    length=st.integers(1, 40),
    forgotten=st.integers(-1, 40),
)
def test_a_history_tells_eras_apart(late: list[bool], start: int, length: int, forgotten: int) -> None:
    """Single tuples, of which some were taken before the restart at 100 and the others after it."""
    history = History()
    history.restarts = [100.0]
    stamps = [k + 200.0 * each for k, each in enumerate(late)]
    for k, stamp in enumerate(stamps):
        history.add(k, k, 1, (stamp, stamp, stamp, stamp))
    history.forget_until(min(start, forgotten))
    inside = stamps[max(0, start + 1) : max(0, start + 1 + length)]
    if not inside:
        return
    eras = [[s for s in inside if s < 100], [s for s in inside if s >= 100]]
    spans = history.spans(start, start + length)
    assert [(n, stamps[0][0], stamps[-1][1]) for n, stamps in spans] == [
        (len(era), min(era), max(era)) for era in eras if era
    ]
    born, taken = spreads(spans)
    assert born == taken and sum(n for n, _, _ in born) == pytest.approx(len(inside))
