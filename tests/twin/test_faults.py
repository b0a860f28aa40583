"""Failure and recovery where more than one thing happens: failures that meet each other, moves and scaling."""

from __future__ import annotations

import pytest

from tests.twin.changing import column, job, run
from twin.events import Failure, Migration, Scale

DOWN = Failure(at_s=8.5, host="h1", recover_after_s=4)


def test_a_checkpoint_used_twice_counts_each_copy_once() -> None:
    """Two failures back to one checkpoint count each copy once, the second before the replay is as far as the first."""
    deployment = job(
        rate={"law": "constant", "rate_per_s": 400}, window={"policy": "count", "size_records": 1}, groups=20
    )
    twice = DOWN, Failure(at_s=13, host="h1", recover_after_s=1)
    result = run(deployment, *twice, horizon_s=30, checkpoint_interval_s=7)
    assert [row["detail"]["checkpoint_s"] for row in result.event_rows] == [7.0, 7.0]
    assert all(row["detail"]["duplicates"] > 300 for row in result.event_rows)
    arrived = sum(column(result, "source", "arrived"))
    assert result.metrics.records_out - result.duplicates == pytest.approx(arrived, abs=60)


def test_a_host_that_never_recovers_ends_the_job() -> None:
    result = run(job(), Failure(at_s=8, host="h1"))
    assert "never recovers" in result.warnings[0]
    assert column(result, "sink", "latencyCount")[9:] == [0] * 11
    assert result.metrics.backpressured and result.event_rows[0]["end_s"] is None


def test_without_a_result_before_it_a_failure_that_lasts_fails_the_job() -> None:
    assert not run(job(), Failure(at_s=0, host="h1")).metrics.success


def test_overlapping_failures_are_one_outage() -> None:
    failures = [
        Failure(at_s=11, host="h1", recover_after_s=1),
        Failure(at_s=7, host="h2", recover_after_s=1),
        Failure(at_s=5, host="h1", recover_after_s=4),
        Failure(at_s=8.5, host="h1", recover_after_s=1),
    ]
    rows = run(job(), *failures).event_rows
    assert [(row["component"], row["at_s"], row["end_s"]) for row in rows] == [("h1, h2", 5, 9.5), ("h1", 11, 12)]


def test_a_move_waits_for_the_restart_and_one_that_is_interrupted_is_made_again() -> None:
    big = {"key_groups": 4, "state_bytes_per_group": 20e6}  # some 3 s on the network
    move = Migration(at_s=7, operator="a", subtask=0, to="h3")
    result = run(job(**big), move, DOWN, horizon_s=30)
    migration, failure = result.event_rows
    assert migration["detail"]["interrupted"] == 1
    assert migration["end_s"] > failure["end_s"]
    late = run(job(), Migration(at_s=9, operator="a", subtask=0, to="h3"), DOWN, horizon_s=30)
    assert late.event_rows[1]["end_s"] >= 12.5


def test_a_subtask_that_came_since_the_checkpoint_goes_back_to_nothing() -> None:
    """A subtask that came since the checkpoint loses what it held, which is replayed and else would count twice."""
    deployment = job(rate=200, key_groups=6, state_bytes_per_group=1e6)
    scale = Scale(at_s=8.6, operator="a", placement=("h0",))
    fails = Failure(at_s=9.1, host="h0", recover_after_s=0.5)
    result = run(deployment, scale, fails, horizon_s=12, checkpoint_interval_s=2)
    assert result.event_rows[0]["end_s"] > 9.6
