"""The state that a model sees is the memory that a run holds."""

from __future__ import annotations

import pytest

from models.job_columns import job_columns
from tests.twin.worlds import deployment, sink, source
from twin.scenario import RunSettings, Scenario
from twin.simulation import simulate


@pytest.mark.parametrize(("left", "right"), [(50, 450), (450, 50), (200, 200)])
def test_the_state_of_a_join_is_of_its_sides_tuples_at_their_own_size(left: int, right: int) -> None:
    """A side of wide tuples and one of narrow ones; by hand, and as an exact run holds it at the end."""
    columns = {"wide": {"strings": 20}, "narrow": {"ints": 1}}
    operators = [
        *(source(name, columns=of) for name, of in columns.items()),
        {"kind": "join", "name": "j", "window": {"policy": "time", "size_s": 2, "slide_s": 0.1}, "selectivity": 1e-6},
        sink(),
    ]
    job = deployment(
        operators, [("wide", "j"), ("narrow", "j"), ("j", "sink")], {"wide": left, "narrow": right}, engine="storm"
    )
    sizes = [job.engine.output_bytes(job.query, name) for name in columns]
    by_hand = 2.0 * (left * sizes[0] + right * sizes[1])
    found = job_columns(job)
    assert sizes[0] > 2 * sizes[1]
    assert found.operators["state"][found.names.index("j")] == pytest.approx(
        by_hand * job.engine.memory.object_overhead / 1e6, rel=0.01
    )
    run = simulate(Scenario.of(job, RunSettings(horizon_s=10, warmup_s=2, period_s=1)))
    held = [row["stateBytes"] for row in run.operator_rows if row["operator"] == "j"][-5:]
    tuples = 2.0 * (left + right)
    assert sum(held) / 5 == pytest.approx(by_hand, rel=5 / tuples**0.5)
