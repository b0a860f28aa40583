"""What benchmarks of real engines compute by themselves: ages of markers amid bursts."""

from __future__ import annotations

import pytest

from benchmarks.real import pdsp_ages
from benchmarks.real.pdsp_ages import HOP_MS
from benchmarks.real.pdsp_jobs import scenario
from benchmarks.real.pdsp_predictors import said_of

ROW = {
    "application": "Sentiment Analysis",
    "variant": "",
    "parallelism": "10,2,2,1",
    "cores_per_node": "16",
    "clock_ghz": "2.8",
}


def test_markers_of_an_idle_job_wait_for_the_flush_at_every_hop() -> None:
    idle = said_of(scenario({**ROW, "offered_per_s": "10"}))[1]
    assert idle == pytest.approx(HOP_MS * (1 + 2 + 3 + 4), rel=0.01)  # two operators, writer, and the committer


def test_bursts_leave_markers_waiting_for_flushes_where_a_steady_stream_fills_buffers(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    job = scenario({**ROW, "offered_per_s": "100000"})
    in_bursts, idle = said_of(job)[1], HOP_MS * (1 + 2 + 3 + 4)
    monkeypatch.setattr(pdsp_ages, "ALWAYS", 0.0)
    assert said_of(job)[1] < 0.9 * in_bursts < 0.9 * idle
