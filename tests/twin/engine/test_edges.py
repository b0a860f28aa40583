"""What is rare: the end of a backlog, slow sources, long recordings; and how far segments hide a join's mixing."""

from __future__ import annotations

from itertools import product
from pathlib import Path

import numpy as np
import pytest
import simpy

from tests.twin.arrivals import clock_of, groups, law_of
from tests.twin.engine.tiny import Listener, burst, connect, deliver_at, inbox_of, join, window
from twin.engine.arrival.backlog import EvenPiece, PoissonPiece, RecordedPiece


@pytest.mark.parametrize("kind", ["even", "poisson", "recorded"])
def test_a_piece_that_is_wholly_taken_ends_at_its_last_arrival(kind: str) -> None:
    rng = np.random.default_rng(3)
    piece = {
        "even": lambda: EvenPiece(70, 1.0, 8.0),
        "poisson": lambda: PoissonPiece(70, 1.0, 8.0, rng),
        "recorded": lambda: RecordedPiece(np.linspace(1.1, 8.0, 70)),
    }[kind]()
    first = piece.take(10, 2)
    assert sum(n for n, _, _ in first) == 20 and first[-1][2] < 8.0
    rest = piece.take(10, 100)
    assert (sum(n for n, _, _ in rest), piece.n) == (50, 0)
    assert rest[-1][2] == pytest.approx(8.0, rel=1e-12)
    ends = [end for _, _, end in (*first, *rest)]
    assert ends == sorted(ends)


@pytest.mark.parametrize("law", ["constant", "poisson"])
@pytest.mark.parametrize("rate_per_s", [0.05, 0.5, 1.0])
def test_a_source_of_less_than_a_tuple_a_second_emits(law: str, rate_per_s: float) -> None:
    """40 tuples are expected; a Poisson count is within 5 standard deviations."""
    found = sum(
        n for n, _, _ in groups(clock_of(law_of({"law": law, "rate_per_s": rate_per_s}), 1, 2), 40.0 / rate_per_s)
    )
    assert found == pytest.approx(40, abs=1 if law == "constant" else 5 * 40**0.5)


@pytest.mark.parametrize("at_once", [1, 7])
@pytest.mark.parametrize("size", [1, 10])
def test_a_long_recording_is_played_whole_and_in_order(tmp_path: Path, size: int, at_once: int) -> None:
    times = np.cumsum(np.random.default_rng(1).exponential(1.0, 2000)).round(6).tolist()
    times = [each - times[0] for each in times]
    path = tmp_path / "times.csv"
    path.write_text("time_s\n" + "\n".join(f"{each:.6f}" for each in times))
    law = law_of({"law": "replay", "path": str(path), "loop": False})
    played = list(groups(clock_of(law, size), times[-1] + 1.0, at_once))
    assert sum(n for n, _, _ in played) == 2000
    number = 0
    for n, _, last_s in played:
        number += n
        assert last_s == pytest.approx(times[number - 1], abs=1e-6)


def test_tuples_of_random_sides_make_fewer_pairs_than_their_means() -> None:
    """Brute force over all orders of w tuples of two and three sides: E[n1 n2 ...] over the product of the means."""
    env = simpy.Environment()
    task = join(env, window("count", 6, 6), False)
    task.logic.store.unseen_mix = 1.0
    for w in (2, 4, 6):
        pairs = [sides.count(0) * sides.count(1) for sides in product(range(2), repeat=w)]
        assert task.logic.combiner._crowding(w) == pytest.approx(np.mean(pairs) / (w / 2) ** 2)


def test_a_count_join_of_long_segments_has_the_matches_of_mixed_tuples() -> None:
    """Windows of 8 tuples, one of two sides at random each: s w (w - 1) / 4 matches, not s (w / 2)^2."""
    env, w, selectivity, n = simpy.Environment(), 8, 0.05, 400
    task, out = join(env, window("count", w, w), False, selectivity), Listener(env)
    task.service_s = 1e-6
    connect(task, [inbox_of(out, 10**9)], cap=10**9)
    inboxes = [inbox_of(task, 10**9, side) for side in range(2)]
    for inbox in inboxes:
        deliver_at(env, task, [burst(1.0 * k, n, inbox, 1.0 * (k - 1)) for k in range(1, 101)])
    env.run()
    fires = 2 * n * 99 / w  # the last segments wait for each other
    mean = selectivity * w * (w - 1) / 4
    assert sum(each.n for each in out.segments) / fires == pytest.approx(mean, abs=4 * (mean / fires) ** 0.5)
