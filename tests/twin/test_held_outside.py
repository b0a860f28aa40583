"""What fast runs say of tasks that limits outside hold back."""

from __future__ import annotations

from typing import Literal

import pytest

from tests.twin.worlds import deployment, source
from twin.scenario import RunSettings, Scenario
from twin.simulation import simulate


@pytest.mark.parametrize(("fidelity", "capacity", "lines"), [("fast", 3, 1), ("fast", 30, 0), ("exact", 3, 0)])
def test_what_segments_do_not_show_as_blocked_is_told_of(
    fidelity: Literal["fast", "exact"], capacity: int, lines: int
) -> None:
    """At nine tenths of its places; an exact run has the store blocked for most of the time, and says nothing."""
    store = {"kind": "external-sink", "name": "store", "capacity": capacity, "latency_s": 0.001}
    job = deployment(
        [source(), store | {"service_time_s": 1e-5}],
        [("source", "store")],
        {"source": {"law": "poisson", "rate_per_s": 2700}},
    )
    settings = RunSettings(horizon_s=8, warmup_s=1, period_s=1, seed=1, fidelity=fidelity)
    run = simulate(Scenario.of(job, settings))
    assert len([line for line in run.warnings if "system outside" in line]) == lines
    blocked = next(each.backpressured for each in run.operators if each.operator == "store")
    assert (blocked > 0.4) == (fidelity == "exact")
