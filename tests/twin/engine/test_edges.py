"""What is rare: slow sources, long recordings."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.twin.arrivals import clock_of, law_of, times


@pytest.mark.parametrize("law", ["constant", "poisson"])
@pytest.mark.parametrize("rate_per_s", [0.05, 0.5, 1.0])
def test_a_source_of_less_than_a_tuple_a_second_emits(law: str, rate_per_s: float) -> None:
    """40 tuples are expected; a Poisson count is within 5 standard deviations."""
    found = len(list(times(clock_of(law_of({"law": law, "rate_per_s": rate_per_s}), 2), 40.0 / rate_per_s)))
    assert found == pytest.approx(40, abs=1 if law == "constant" else 5 * 40**0.5)


def test_a_long_recording_is_played_whole_and_in_order(tmp_path: Path) -> None:
    recorded = np.cumsum(np.random.default_rng(1).exponential(1.0, 2000)).round(6).tolist()
    recorded = [each - recorded[0] for each in recorded]
    path = tmp_path / "times.csv"
    path.write_text("time_s\n" + "\n".join(f"{each:.6f}" for each in recorded))
    law = law_of({"law": "replay", "path": str(path), "loop": False})
    assert list(times(clock_of(law), recorded[-1] + 1.0)) == pytest.approx(recorded, abs=1e-6)
