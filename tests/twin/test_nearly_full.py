"""What fast runs say of hosts that many tasks share: of alike ones together, and where windows do not hide it."""

from __future__ import annotations

from typing import Any

import pytest

from tests.twin.worlds import HOST, deployment, sink, source
from twin.scenario import RunSettings, Scenario
from twin.simulation import simulate


def told(hosts: int, **work: Any) -> list[str]:
    """Of a task of 0.7 cores on each of so many hosts of one core, beside a source and perhaps a sink."""
    names = [f"h{number}" for number in range(hosts)]
    job = deployment(
        [source(), {"name": "work", "service_time_s": 0.66e-3, **work}, sink()],
        [("source", "work"), ("work", "sink")],
        {"source": {"law": "poisson", "rate_per_s": 1000.0 * hosts}},
        hosts=[HOST | {"name": name, "cpu_percent": 100} for name in names],
        placement=dict.fromkeys(("source", "work", "sink"), names),
        engine="flink",
    )
    settings = RunSettings(horizon_s=20, warmup_s=4, period_s=2, seed=5, fidelity="fast")
    return [line for line in simulate(Scenario.of(job, settings)).warnings if "tasks share" in line]


@pytest.mark.parametrize(
    ("hosts", "who"), [(1, "h0: 3 tasks share 1 core, "), (3, "h0, h1 and h2: 3 "), (6, "h0, h1, h2 and 3 others: 3 ")]
)
def test_alike_hosts_have_one_line(hosts: int, who: str) -> None:
    (line,) = told(hosts, kind="map")
    assert line.startswith(who)
    assert "a third too low" in line


def test_what_windows_hold_for_long_is_no_later_for_the_host(monkeypatch: pytest.MonkeyPatch) -> None:
    """Some seconds, of which little is on the way; percentiles are right."""
    count = {
        "function": "count",
        "group_by": "int",
        "groups": 5,
        "window": {"policy": "time", "size_s": 4, "slide_s": 4},
    }
    assert not told(1, kind="aggregate", **count)
    monkeypatch.setattr("twin.guards.nearly_full.UNDER_WAY", 0.0)
    assert told(1, kind="aggregate", **count)
