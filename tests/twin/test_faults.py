"""Failure and recovery: the outage in latency and backlog, what is lost, replayed and repeated."""

from __future__ import annotations

from itertools import pairwise

import pytest

from tests.twin.changing import column, e2e_s, job, run
from twin.events import Failure, Migration, Scale

DOWN = Failure(at_s=8.5, host="h1", recover_after_s=4)


def test_during_an_outage_the_backlog_grows_at_the_offered_rate_and_drains_after() -> None:
    result = run(job(rate={"law": "constant", "rate_per_s": 400}), DOWN, horizon_s=30)
    backlog = column(result, "source", "backlog")
    growth = [after - before for before, after in pairwise(backlog[8:12])]
    assert growth == pytest.approx([400, 400, 400], abs=30)
    assert backlog[-1] < 60 and not result.metrics.backpressured
    assert column(result, "sink", "latencyCount")[9:12] == [0, 0, 0]


def test_end_to_end_latency_shows_the_outage() -> None:
    """The first results after the restart hold tuples read before the failure: they waited all of it."""
    latency = e2e_s(run(job(), DOWN, horizon_s=30, checkpoint_interval_s=4))
    assert latency[7] == pytest.approx(1.9, abs=0.2)
    assert latency[13] is not None and latency[13] > 4 + 0.5
    assert latency[-1] == pytest.approx(1.9, abs=0.2)


def test_replay_goes_back_to_the_last_checkpoint() -> None:
    deployment = job(rate={"law": "constant", "rate_per_s": 400})
    (event,) = run(deployment, DOWN, checkpoint_interval_s=3).event_rows
    assert event["detail"]["checkpoint_s"] == 6.0
    assert event["detail"]["replayed"] == pytest.approx(2.5 * 400, abs=45)
    assert (event["at_s"], event["end_s"], event["paused_s"]) == (8.5, 12.5, 4.0)


def test_results_repeated_by_replay_are_counted() -> None:
    """Each second 2 evaluations of 20 groups; from the checkpoint at 6 s to the failure at 8.5 s that is 5 (or 4)."""
    result = run(job(), DOWN, checkpoint_interval_s=3)
    assert 80 <= result.duplicates <= 100
    assert result.to_dict()["duplicates"] == result.duplicates


def test_a_checkpoint_used_twice_counts_each_copy_once() -> None:
    """The second failure comes before the replay has got as far as the first: both go back to the same checkpoint."""
    deployment = job(
        rate={"law": "constant", "rate_per_s": 400}, window={"policy": "count", "size_tuples": 1}, groups=20
    )
    twice = DOWN, Failure(at_s=13, host="h1", recover_after_s=1)
    result = run(deployment, *twice, horizon_s=30, checkpoint_interval_s=7)
    assert [row["detail"]["checkpoint_s"] for row in result.event_rows] == [7.0, 7.0]
    assert all(row["detail"]["duplicates"] > 300 for row in result.event_rows)
    arrived = sum(column(result, "source", "arrived"))
    assert result.metrics.tuples_out - result.duplicates == pytest.approx(arrived, abs=60)


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
    move = Migration(at_s=7, operator="a", replica=0, to="h3")
    result = run(job(**big), move, DOWN, horizon_s=30)
    migration, failure = result.event_rows
    assert migration["detail"]["interrupted"] == 1
    assert migration["end_s"] > failure["end_s"]
    late = run(job(), Migration(at_s=9, operator="a", replica=0, to="h3"), DOWN, horizon_s=30)
    assert late.event_rows[1]["end_s"] >= 12.5


def test_a_replica_that_came_since_the_checkpoint_goes_back_to_nothing() -> None:
    """What it held is replayed to it: kept, too, it would count twice. The books of windows see it."""
    deployment = job(rate=200, key_groups=6, state_bytes_per_group=1e6)
    scale = Scale(at_s=8.6, operator="a", placement=("h0",))
    fails = Failure(at_s=9.1, host="h0", recover_after_s=0.5)
    result = run(deployment, scale, fails, horizon_s=12, checkpoint_interval_s=2)
    assert result.event_rows[0]["end_s"] > 9.6
