"""Count windows over results of other joins, which come in clumps: by brute force, and fast runs against exact ones."""

from __future__ import annotations

import numpy as np
import pytest

from tests.twin.worlds import deployment, sink, source
from twin.engine.windows.clumps import clumping
from twin.scenario import RunSettings, Scenario
from twin.simulation import simulate

EVALUATIONS = 20_000


@pytest.mark.parametrize(
    ("others", "slide", "clump", "size"),
    [(16, 12, 1.8, 5), (25, 20, 3.6, 10), (10, 12, 10.0, 20), (10, 2, 1.0, 5), (3, 40, 20.0, 40), (50, 40, 5.0, 160)],
)
def test_sides_match_less_by_as_much_as_tuples_one_by_one_say(
    others: float, slide: int, clump: float, size: int
) -> None:
    """One side in clumps after every so many tuples of a Poisson stream, the other at random in between."""
    rng = np.random.default_rng(1)
    singles = rng.poisson(others * rng.gamma(slide, 1.0 / slide, EVALUATIONS))
    clumps = rng.poisson(clump, EVALUATIONS)
    line = np.repeat(np.tile([0, 1], EVALUATIONS), np.stack([singles, clumps], axis=1).ravel())
    seen = np.concatenate([[0], np.cumsum(line)])
    held, share = seen[size:] - seen[:-size], line.mean()
    found = np.mean(held * (size - held)) / (size**2 * share * (1.0 - share))
    alone = 1.0 - 1.0 / size  # were they to come one by one
    assert alone / (1.0 + clumping(clump, share, size)) == pytest.approx(found, rel=0.06)


def test_who_comes_alone_is_in_no_clump() -> None:
    assert clumping(0.0, 0.3, 20.0) == 0.0
    assert clumping(5.0, 1.0, 20.0) == 0.0
    assert clumping(1e-9, 0.3, 20.0) == pytest.approx(0.0, abs=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize(("first", "second"), [(20, 10)])
def test_joins_in_a_row_give_as_many_results_as_exact_runs(first: int, second: int) -> None:
    """Each window of the first gives about three at once. With them spread evenly the second had up to a third more."""

    def join(name: str, size: int, selectivity: float) -> dict[str, object]:
        return {
            "kind": "join",
            "name": name,
            "selectivity": selectivity,
            "window": {"policy": "count", "size_tuples": size},
        }

    each = [*(source(name) for name in "abc"), join("j", first, 12.0 / first**2), join("k", second, 0.05), sink()]
    streams = [("a", "j"), ("b", "j"), ("j", "k"), ("c", "k"), ("k", "sink")]
    job = deployment(each, streams, {"a": 300.0, "b": 300.0, "c": 700.0})
    exact = RunSettings(horizon_s=40.0, warmup_s=4.0, fidelity="exact", seed=1)
    fast = RunSettings(horizon_s=400.0, warmup_s=40.0, fidelity="fast", seed=2, segments=2000)
    found, expected = (simulate(Scenario.of(job, run)).metrics.throughput_per_s for run in (fast, exact))
    assert found == pytest.approx(expected, rel=0.09)
