"""A host that fails and stays away: others take its subtasks, or the job waits for it."""

from __future__ import annotations

from typing import Any

import pytest

from tests.twin import event_jobs
from tests.twin.changing import column, passing, run
from tests.twin.checkpointed import failures, lines, meeting, steady
from tests.twin.checkpointed import run as run_checkpointed
from tests.twin.worlds import chain
from twin.deployment import Deployment
from twin.errors import BadInput
from twin.events import Failure, Migration, Scale
from twin.profiles import STORM
from twin.simulation import simulate
from twin.spec import parse


def gone(host: str, at_s: float = 8.5, recover_after_s: float = 4.0) -> Failure:
    return Failure(at_s=at_s, host=host, recover_after_s=recover_after_s, lost=True)


def test_the_emptiest_hosts_take_its_subtasks_after_the_restart() -> None:
    """h0 has two, h2 one, h3 none: the first slot goes to h3, the second to h2, which is the first of two with one."""
    result = run(passing(), gone("h1"), horizon_s=30, checkpoint_interval_s=3)
    (row,) = failures(result)
    assert row["moved"] == {"a#0": "h3", "a#1": "h2"}
    assert (row["end_s"], row["paused_s"]) == (12.5, 4.0)
    assert result.duplicates == pytest.approx(2.5 * 400, abs=6)
    assert result.metrics.tuples_out - result.duplicates == pytest.approx(400 * 30, abs=6)
    used = {row["host"]: row["cpuUtilisation"] for row in result.host_rows if row["start_s"] == 25}
    assert used["h1"] == 0 < min(used["h2"], used["h3"])


def test_subtasks_of_one_number_share_a_slot() -> None:
    """source and m of h0 belong together; h2 with a sink and h3 with nothing are emptier than h1."""
    result = run(passing(), gone("h0"), horizon_s=30, checkpoint_interval_s=3)
    (row,) = failures(result)
    assert row["moved"] == {"source#0": "h3", "m#0": "h3"}
    assert result.metrics.tuples_out - result.duplicates == pytest.approx(400 * 30, abs=6)


def test_another_slot_sharing_group_has_slots_of_its_own() -> None:
    """source goes to h3, which is empty; then h2 and h3 have one each, and m goes to the first."""
    data = passing().model_dump(mode="json")
    data["query"]["operators"][1]["slot_sharing_group"] = "own"
    (row,) = failures(run(parse(Deployment, data), gone("h0"), horizon_s=30, checkpoint_interval_s=3))
    assert row["moved"] == {"source#0": "h3", "m#0": "h2"}


def test_fewer_cores_serve_what_more_served() -> None:
    """Two hosts of one core each: one alone bears a record in 2 ms, so half of 1,000/s wait from then on."""
    work = {"kind": "map", "name": "work", "service_time_s": 2e-3, "service_scv": 0}
    hosts = [
        {"name": name, "cpu_percent": cpu, "ram_mb": 64_000, "bandwidth_mbps": 1e4, "latency_ms": 0}
        for name, cpu in (("ends", 50), ("w1", 100), ("w2", 100))
    ]
    placement = {"source": "ends", "work": ["w1", "w2"], "sink": "ends"}
    given = chain([work], steady(900.0), hosts=hosts, placement=placement)
    result = run(given, gone("w2", 8.5, 2.0), horizon_s=30, checkpoint_interval_s=3)
    (row,) = failures(result)
    assert row["moved"] == {"work#1": "w1"}
    assert column(result, "sink", "latencyCount")[15:29] == pytest.approx([500] * 14, abs=5)
    assert result.metrics.backpressured


@pytest.mark.parametrize("failover", ["region", "full"])
def test_a_region_moves_as_a_whole_and_the_others_go_on(failover: str) -> None:
    """Three lines apart on three hosts: one line moves as it is, and only its region restarts."""
    checkpoints = {"failover": failover, "storage": "store"}
    result = run_checkpointed(lines(3), gone("h1", 8.0), checkpoints=checkpoints, horizon_s=30)
    (row,) = failures(result)
    assert row["restarted"] == (3 if failover == "region" else 9)
    assert set(row["moved"]) == {"source#1", "m#1", "sink#1"}
    assert set(row["moved"].values()) == {"h0"}  # and not the store
    assert result.metrics.tuples_out - result.duplicates == pytest.approx(200 * 30, abs=6)


def test_state_is_fetched_to_where_it_is_needed() -> None:
    """8 MB at 1 MB/s of the store."""
    checkpoints = {"interval_s": 3, "storage_mbps": 8.0}
    result = run_checkpointed(passing(), gone("h1", 14.0, 1.0), checkpoints=checkpoints, horizon_s=40)
    (row,) = failures(result)
    assert row["paused_s"] == pytest.approx(1 + 8, abs=0.1)


def test_two_hosts_are_lost_one_after_the_other_and_at_once() -> None:
    for second_s in (10.0, 20.0):
        result = run(passing(), gone("h1"), gone("h3", second_s), horizon_s=40, checkpoint_interval_s=3)
        moved = [row["moved"] for row in failures(result) if "moved" in row]
        assert set(moved[-1].values()) <= {"h0", "h2"}
        assert result.metrics.tuples_out - result.duplicates == pytest.approx(400 * 40, abs=6)


def test_windows_over_event_time_are_whole_on_other_hosts() -> None:
    """Each run compares its windows with brute force."""
    events = [{"kind": "failure", "host": "h1", "at_s": 3.7, "recover_after_s": 0.5, "lost": True}]
    (row,) = simulate(event_jobs.job(events=events, checkpoint_interval_s=1)).event_rows
    assert set(row["detail"]["moved"]) == {"compute#1", "merge#1"}


@pytest.mark.parametrize(
    "change",
    [
        Scale(at_s=15, operator="a", placement=("h1", "h3")),
        Migration(at_s=15, operator="m", replica=0, to="h1"),
        Migration(at_s=15, operator="a", key_groups=(0,), to="h1"),
    ],
    ids=lambda change: change.kind,
)
def test_nothing_goes_to_a_lost_host(change: Any) -> None:
    engine = STORM.model_dump(mode="json") | {"rescaling": "restart"}
    restarting = parse(Deployment, passing().model_dump(mode="json") | {"engine": engine})
    for given in (passing(), restarting):
        result = run(given, gone("h1"), change)
        assert any("host h1 is lost" in warning for warning in result.warnings)
        assert result.event_rows[-1]["detail"]["refused"] == "host h1 is lost"
        assert not result.event_rows[-1]["paused_s"]  # nothing stops for it


def test_what_cannot_be_replaced_is_refused() -> None:
    pinned = passing().model_dump(mode="json")
    pinned["query"]["operators"][0]["pinned"] = True
    with pytest.raises(BadInput, match="'source' is pinned to 'h0'"):
        run(parse(Deployment, pinned), gone("h0"))
    with pytest.raises(BadInput, match="no host is left"):
        run(meeting(), gone("near"), gone("store"), gone("far"))
    with pytest.raises(BadInput, match="give recover_after_s"):
        parse(Failure, {"at_s": 1, "host": "h0", "lost": True})
