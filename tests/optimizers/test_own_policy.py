"""The policy of one's own that the docs have."""

from __future__ import annotations

import runpy
from pathlib import Path

from tests.optimizers.plant import Plant, plant_job

EXAMPLE = Path(__file__).parents[2] / "docs" / "examples" / "double_when_busy.py"


def test_the_example_of_the_docs_doubles_until_nothing_is_busy() -> None:
    """Work for 2.5 subtasks keeps one busy, and two; four are while they work off what waits, and eight never."""
    spec = runpy.run_path(str(EXAMPLE))["DoubleWhenBusySpec"]
    policy = spec(limit=0.9).start(plant_job())
    counts = Plant(load=2.5).run(policy, 12)
    assert counts[:3] == [1, 2, 4] and counts[-5:] == [8] * 5
    assert Plant(load=0.5).run(policy, 5) == [1] * 5
