"""A failure stops the connected region, which goes back to the last checkpoint; and hosts that stay away."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from tests.twin import event_jobs
from tests.twin.changing import STATE, column, job, passing
from tests.twin.changing import run as run_changing
from tests.twin.checkpointed import failures, hosts, lines, meeting, run, steady, taken
from tests.twin.checkpointed import run as run_checkpointed
from tests.twin.worlds import chain, deployment, sink, source
from twin.deployment import Deployment
from twin.errors import BadInput
from twin.events import Failure, Migration, Scale
from twin.profiles import FLINK, STORM, EngineProfile
from twin.run import Run
from twin.simulation import simulate
from twin.spec import parse

DOWN = Failure(at_s=8, host="h1", recover_after_s=4)


def arrived(result: Run) -> int:
    """Records that arrived at the brokers and were read."""
    names = ("source", "fast", "slow")
    return sum(
        sum([*column(result, name, "arrived"), *(-n for n in column(result, name, "backlog")[-1:])]) for name in names
    )


def test_of_lines_apart_the_others_go_on() -> None:
    """Three of four separate lines go on when one stops, as regions; when the whole job stops, none does."""
    region, full = (run(lines(4), DOWN, checkpoints={"failover": which}, horizon_s=30) for which in ("region", "full"))
    assert [(row["restarted"], row["of"], row["paused_s"]) for row in failures(region)] == [(3, 12, 4)]
    assert [(row["restarted"], row["of"], row["paused_s"]) for row in failures(full)] == [(12, 12, 4)]
    assert column(region, "sink", "latencyCount")[9:12] == pytest.approx([150] * 3, abs=12)
    assert column(full, "sink", "latencyCount")[9:12] == [0] * 3
    assert region.duplicates == pytest.approx(3 * 50, abs=12)
    assert full.duplicates == pytest.approx(3 * 200, abs=48)
    for result in (region, full):  # nothing is lost, and nothing comes twice but what is counted
        assert result.metrics.records_out - result.duplicates == pytest.approx(arrived(result), abs=24)


def test_streams_between_all_subtasks_are_one_region() -> None:
    """Streams between all subtasks are one region: a failure of any host restarts all."""
    result = run(job(), Failure(at_s=8, host="h2", recover_after_s=1))
    assert [(row["restarted"], row["of"]) for row in failures(result)] == [(5, 5)]


@pytest.mark.parametrize("mode", ["aligned", "unaligned"])
@pytest.mark.slow
def test_exactly_once_is_once(mode: str) -> None:
    """An exactly-once sink shows just what was read until the last checkpoint; overtaken records are restored."""
    down = Failure(at_s=12.3, host="near", recover_after_s=2)
    given = {"mode": mode, "sinks": "exactly-once", "sync_ms": 0.0}
    result = run(meeting(late_ms=300), down, checkpoints=given, horizon_s=25)
    last = taken(result)[-1]
    assert last["at_s"] == 20
    assert result.duplicates == 0
    late = 100 * 0.3 if mode == "unaligned" else 0  # kept as records on their way, and not seen yet
    assert result.metrics.records_out == pytest.approx(500 * last["at_s"] - late, abs=3)


@pytest.mark.parametrize("mode", ["aligned", "unaligned"])
def test_what_comes_twice_is_what_was_counted(mode: str) -> None:
    down = Failure(at_s=12.3, host="near", recover_after_s=2)
    result = run(meeting(late_ms=300), down, checkpoints={"mode": mode, "sync_ms": 0.0}, horizon_s=25)
    (failure,) = failures(result)
    assert failure["checkpoint_s"] == 10
    assert failure["replayed"] == pytest.approx(2.3 * 500, abs=3)
    assert result.metrics.records_out - result.duplicates == arrived(result) - 30  # which are on their way


@pytest.mark.parametrize("mode", ["aligned", "unaligned"])
def test_calls_under_way_are_part_of_a_checkpoint(mode: str) -> None:
    """Calls under way at a barrier (20 answers, of a fifth of a second) are in the checkpoint, and made again."""
    ask = {"kind": "async", "name": "ask", "service_time_s": 0, "latency_s": 0.2, "latency_scv": 0}
    down = Failure(at_s=12.3, host="h", recover_after_s=1)
    result = run(chain([ask], steady(100)), down, checkpoints={"mode": mode, "sync_ms": 0})
    rows = taken(result)
    assert rows[0]["flying_bytes"] > 0
    assert result.duplicates == pytest.approx(2.3 * 100, abs=12)
    assert result.metrics.records_out - result.duplicates == pytest.approx(arrived(result) - 20, abs=8)


@pytest.mark.parametrize(
    "middle",
    [
        {"kind": "map", "name": "x"},
        {"kind": "filter", "name": "x", "selectivity": 0.5},
        {"kind": "async", "name": "x", "latency_s": 0.01},
        {"kind": "router", "name": "x", "shares": {"sink": 0.5}},
    ],
    ids=lambda middle: middle["kind"],
)
def test_work_for_a_checkpoint_is_no_record_in_service(middle: dict[str, Any]) -> None:
    """Work for a checkpoint under way at a failure, and at the end, does not count as a record in service."""
    down = Failure(at_s=5.1, host="h", recover_after_s=1)
    result = run(chain([middle], steady(100)), down, checkpoints={"sync_ms": 300}, horizon_s=12.2)
    assert [row["why"] for row in taken(result, "failed")] == ["h failed"]


def test_work_is_lost_back_to_the_last_complete_checkpoint() -> None:
    """A failure loses work back to the last complete checkpoint: on average half an interval and its duration."""
    given = {"storage_mbps": 64.0, "failover": "full"}  # 8 MB take a second
    lost_s = []
    for at_s in 10.25 + np.arange(10) * 0.5:
        down = Failure(at_s=float(at_s), host="h0", recover_after_s=0.1)
        result = run(job(rate=20, **STATE), down, checkpoints=given, horizon_s=16)
        (failure,) = failures(result)
        lost_s.append(at_s - failure["checkpoint_s"])
        assert failure["checkpoint_s"] == (5 if at_s < 11.01 else 10)
        assert failure["paused_s"] == pytest.approx(0.1 + 1.0, abs=0.05)  # it is fetched as slowly
    assert min(lost_s) > 1.0
    assert np.mean(lost_s) == pytest.approx(5 / 2 + 1, abs=0.1)


def test_a_failure_ends_the_checkpoint_that_is_under_way() -> None:
    result = run(meeting(late_ms=500), Failure(at_s=10.2, host="far", recover_after_s=1))
    (given_up,) = taken(result, "failed")
    assert (given_up["at_s"], given_up["end_s"], given_up["why"]) == (10, 10.2, "far failed")
    assert failures(result)[0]["checkpoint_s"] == 5
    assert [row["at_s"] for row in taken(result)] == [5, 15]


def test_before_the_first_checkpoint_a_job_begins_anew() -> None:
    result = run(lines(2), Failure(at_s=3, host="h1", recover_after_s=1), checkpoints={"failover": "full"})
    (failure,) = failures(result)
    assert (failure["checkpoint_s"], failure["replayed"]) == (0, pytest.approx(600, abs=2))


def test_two_regions_fail_apart_and_one_twice() -> None:
    events = [
        Failure(at_s=8, host="h0", recover_after_s=4),
        Failure(at_s=9, host="h1", recover_after_s=5),
        Failure(at_s=10, host="h0", recover_after_s=6),
    ]
    result = run(lines(3), *events, horizon_s=30)
    found = [(row["component"], row["at_s"], row["end_s"], row["restarted"]) for row in failures(result)]
    assert found == [("h0", 8, 16, 3), ("h1", 9, 14, 3)]
    assert [row["at_s"] for row in taken(result)] == [5, 16, 21, 26]  # none while anything is down
    assert result.metrics.records_out - result.duplicates == pytest.approx(arrived(result), abs=3)


def test_records_that_come_by_a_buffer_are_lost_with_their_region() -> None:
    """Records that were sent while their state moved are 0.2 s on their way by a buffer when their region fails. They
    are lost as others are, and come a second time."""
    far = hosts("far", latency_ms=200.0)
    keyed = {"kind": "keyed-state", "keys": 40, "key_groups": 4, "service_time_s": 1e-4}
    apart = deployment(
        [source("fast"), source("slow"), keyed | {"name": "m"}, keyed | {"name": "n"}, sink(), sink("other")],
        [("fast", "m"), ("m", "sink"), ("slow", "n"), ("n", "other")],
        {"fast": {"law": "steps", "steps": [{"at_s": 0.0, "rate_per_s": 400.0}, {"at_s": 10.0, "rate_per_s": 0.0}]}}
        | {"slow": 1.0},
        hosts=[*far, *hosts("near", "more", "elsewhere")],
        placement={"fast": "far", "m": "near", "sink": "near"} | dict.fromkeys(("slow", "n", "other"), "elsewhere"),
    )
    out = Scale(at_s=5.5, operator="m", placement=("near", "more"))
    result = run(apart, out, Failure(at_s=5.75, host="more", recover_after_s=1.0))
    (failure,) = failures(result)
    assert (failure["restarted"], failure["of"]) == (4, 7)
    once = sum(column(result, "fast", "arrived"))
    assert sum(column(result, "sink", "latencyCount")) == once + failure["duplicates"]


def test_what_comes_a_third_time_is_counted_twice() -> None:
    """A record that comes a third time, after two failures back to 5 s, is two duplicates."""
    events = [Failure(at_s=at_s, host="h0", recover_after_s=0.5) for at_s in (8, 9)]
    result = run(lines(2), *events, checkpoints={"failover": "full"}, horizon_s=30)
    first, second = failures(result)
    assert first["checkpoint_s"] == second["checkpoint_s"] == 5
    assert first["duplicates"] == pytest.approx(3 * 200, abs=6)
    assert second["duplicates"] == pytest.approx(4 * 200, abs=6)  # half a second serves all of them again
    assert result.metrics.records_out - result.duplicates == pytest.approx(arrived(result), abs=6)


def test_a_host_that_stays_away_keeps_its_region_down_alone() -> None:
    result = run(lines(2), Failure(at_s=8, host="h1"))
    assert column(result, "sink", "latencyCount")[10:] == pytest.approx([100] * 10, abs=3)
    assert "what was there stays down" in result.warnings[0]


@pytest.mark.parametrize("engine", [STORM, FLINK], ids=["live", "restarts"])
@pytest.mark.parametrize("begun_s", [0.9999, 2.5])
def test_a_crashed_job_changes_no_more(engine: EngineProfile, begun_s: float) -> None:
    """A job that is out of memory at 1 s finishes no change of its plan that was under way, or begins one, or fails."""
    full = chain(
        [
            {"kind": "aggregate", "name": "a", "window": {"policy": "time", "size_s": 60}, "service_time_s": 1e-6},
            {"kind": "keyed-state", "name": "k", "keys": 40, "key_groups": 4, "state_bytes_per_group": 1e6},
        ],
        steady(5000.0),
        hosts=[*hosts("near", "more"), *hosts("small", ram_mb=302)],
        placement={"source": "near", "a": "small", "k": "near", "sink": "near"},
        engine=engine.model_dump(mode="json"),
    )
    out = Scale(at_s=begun_s, operator="k", placement=("near", "more"))
    result = run_changing(full, out, Failure(at_s=4.0, host="near", recover_after_s=1.0))
    assert result.crashed
    (row,) = result.event_rows
    assert (row["kind"], row["end_s"]) == ("scale", None)


def test_a_host_without_operators_changes_nothing() -> None:
    result = run(lines(2), Failure(at_s=8, host="store", recover_after_s=1))
    assert "carries no operator" in result.warnings[0]
    assert [row["at_s"] for row in taken(result)] == [5, 10, 15]


@pytest.mark.parametrize("sinks", ["at-least-once", "exactly-once"])
@pytest.mark.slow
def test_a_change_of_the_plan_is_followed_by_a_checkpoint(sinks: str) -> None:
    """A change of the plan ends the checkpoint under way, and a failure after it goes back to the new plan."""
    big = {"key_groups": 4, "state_bytes_per_group": 5e6}
    events = [
        Migration(at_s=5.5, operator="a", key_groups=(0,), to_subtask=1),
        Scale(at_s=9, operator="a", placement=("h1", "h1", "h3", "h3")),
        Failure(at_s=13, host="h3", recover_after_s=1),
    ]
    given = {"storage": "h0", "sinks": sinks}
    result = run(job(**big), *events, checkpoints=given, horizon_s=30)
    why = [row["why"] for row in taken(result, "failed")]
    assert why[0] == "the plan changes"
    failure = failures(result)[0]
    scaled = next(row for row in result.event_rows if row["kind"] == "scale")
    assert failure["checkpoint_s"] >= scaled["end_s"] or failure["restarted"] == failure["of"]
    assert (result.duplicates == 0) == (sinks == "exactly-once")


@settings(max_examples=8, deadline=None, suppress_health_check=list(HealthCheck), phases=[Phase.generate])
@given(
    mode=st.sampled_from(["aligned", "unaligned"]),
    late_ms=st.floats(0, 900),
    room=st.integers(20, 400),
    at_s=st.floats(0.1, 7),
    host=st.sampled_from(["near", "far"]),
    interval_s=st.floats(0.3, 3),
    timeout_s=st.floats(0.1, 3),
)
def test_nothing_is_lost_or_doubled(**drawn: Any) -> None:
    """Conservation holds under any failure, and each record is seen once but for the duplicates."""
    down = Failure(at_s=drawn["at_s"], host=drawn["host"], recover_after_s=0.5)
    given = {name: drawn[name] for name in ("mode", "interval_s", "timeout_s")}
    what = meeting(late_ms=drawn["late_ms"], fast=80, slow=40, room=drawn["room"])
    result = run(what, down, checkpoints=given, horizon_s=12)
    once = result.metrics.records_out - result.duplicates
    assert once <= arrived(result)
    late_s = drawn["late_ms"] / 1e3  # for which the slow records are on their way, and the fast ones may be put aside
    assert once >= arrived(result) - (40 + 80) * late_s - 15


def test_windows_reach_as_far_past_a_checkpoint_as_their_content() -> None:
    """Windows hold the checkpoint's records: these are on their way for 3 s, so a task is as the checkpoint has it 3 s
    after that began. They are in windows for 2 s more; what was sent later comes 3 s after the restart."""
    window = {
        "kind": "aggregate",
        "name": "w",
        "service_time_s": 0,
        "window": {"policy": "time", "size_s": 2, "slide_s": 0.5},
    }
    far = chain(
        [window],
        steady(80.0),
        hosts=[*hosts("near", latency_ms=3000), *hosts("far")],
        placement={"source": "near", "w": "far", "sink": "far"},
    )
    down = Failure(at_s=18.25, host="far", recover_after_s=2)
    result = run(far, down, checkpoints={"interval_s": 10, "sync_ms": 0.0}, horizon_s=30.0)
    assert [(row["checkpoint_s"], row["paused_s"]) for row in failures(result)] == [(10, 2)]
    arrived = np.array(column(result, "sink", "latencyCount"))
    assert arrived[4:18].tolist() == [2] * 14
    assert arrived[18:24].tolist() == [1, 0, 3, 0, 0, 1]


def gone(host: str, at_s: float = 8.5, recover_after_s: float = 4.0) -> Failure:
    return Failure(at_s=at_s, host=host, recover_after_s=recover_after_s, lost=True)


@pytest.mark.parametrize("spare", [False, True])
def test_a_host_that_stores_checkpoints_takes_subtasks_where_no_other_is_left(spare: bool) -> None:
    """Two lines on h0 and h1, which are lost one after the other; spare: while h1 is there, it takes the first."""
    lost = [gone("h0", 8.5, 1.0)] if spare else [gone("h0", 8.5, 1.0), gone("h1", 11.5, 1.0)]
    result = run(lines(2), *lost, checkpoints={"storage": "store"}, horizon_s=30)
    taking = {host for row in failures(result) for host in row["moved"].values()}
    assert taking == ({"h1"} if spare else {"h1", "store"})


def test_the_emptiest_hosts_take_its_subtasks_after_the_restart() -> None:
    """Subtasks of a lost host go to the emptiest: h0 has two, h2 one and h3 none, so to h3 and then h2."""
    result = run_changing(passing(), gone("h1"), horizon_s=30, checkpoint_interval_s=3)
    (row,) = failures(result)
    assert row["moved"] == {"a#0": "h3", "a#1": "h2"}
    assert (row["end_s"], row["paused_s"]) == (12.5, 4.0)
    assert result.duplicates == pytest.approx(2.5 * 400, abs=6)
    assert result.metrics.records_out - result.duplicates == pytest.approx(400 * 30, abs=6)
    used = {row["host"]: row["cpuUtilisation"] for row in result.host_rows if row["start_s"] == 25}
    assert used["h1"] == 0 < min(used["h2"], used["h3"])


def test_subtasks_of_one_number_share_a_slot() -> None:
    """Subtasks of one number, source and m of h0, move together, to the emptiest host h3."""
    result = run_changing(passing(), gone("h0"), horizon_s=30, checkpoint_interval_s=3)
    (row,) = failures(result)
    assert row["moved"] == {"source#0": "h3", "m#0": "h3"}
    assert result.metrics.records_out - result.duplicates == pytest.approx(400 * 30, abs=6)


def test_another_slot_sharing_group_has_slots_of_its_own() -> None:
    """A slot sharing group of its own has its own slot: source goes to empty h3, and m then to h2."""
    data = passing().model_dump(mode="json")
    data["query"]["operators"][1]["slot_sharing_group"] = "own"
    (row,) = failures(run_changing(parse(Deployment, data), gone("h0"), horizon_s=30, checkpoint_interval_s=3))
    assert row["moved"] == {"source#0": "h3", "m#0": "h2"}


def test_fewer_cores_serve_what_more_served() -> None:
    """With one of two one-core hosts lost, the other serves a record in 2 ms, and the rest of the records waits."""
    work = {"kind": "map", "name": "work", "service_time_s": 2e-3, "service_scv": 0}
    hosts = [
        {"name": name, "cpu_percent": cpu, "ram_mb": 64_000, "bandwidth_mbps": 1e4, "latency_ms": 0}
        for name, cpu in (("ends", 50), ("w1", 100), ("w2", 100))
    ]
    placement = {"source": "ends", "work": ["w1", "w2"], "sink": "ends"}
    given = chain([work], steady(900.0), hosts=hosts, placement=placement)
    result = run_changing(given, gone("w2", 8.5, 2.0), horizon_s=30, checkpoint_interval_s=3)
    (row,) = failures(result)
    assert row["moved"] == {"work#1": "w1"}
    assert column(result, "sink", "latencyCount")[15:29] == pytest.approx([500] * 14, abs=5)
    assert result.metrics.backpressured


@pytest.mark.parametrize("failover", ["region", "full"])
def test_a_region_moves_as_a_whole_and_the_others_go_on(failover: str) -> None:
    """Of three separate lines, the one of a lost host moves as it is, and only its region restarts."""
    checkpoints = {"failover": failover, "storage": "store"}
    result = run_checkpointed(lines(3), gone("h1", 8.0), checkpoints=checkpoints, horizon_s=30)
    (row,) = failures(result)
    assert row["restarted"] == (3 if failover == "region" else 9)
    assert set(row["moved"]) == {"source#1", "m#1", "sink#1"}
    assert set(row["moved"].values()) == {"h0"}  # and not the store
    assert result.metrics.records_out - result.duplicates == pytest.approx(200 * 30, abs=6)


def test_state_is_fetched_to_where_it_is_needed() -> None:
    """A restart elsewhere fetches its state: 8 MB at 1 MB/s of the store."""
    checkpoints = {"interval_s": 3, "storage_mbps": 8.0}
    result = run_checkpointed(passing(), gone("h1", 14.0, 1.0), checkpoints=checkpoints, horizon_s=40)
    (row,) = failures(result)
    assert row["paused_s"] == pytest.approx(1 + 8, abs=0.1)


def test_two_hosts_are_lost_one_after_the_other_and_at_once() -> None:
    for second_s in (10.0, 20.0):
        result = run_changing(passing(), gone("h1"), gone("h3", second_s), horizon_s=40, checkpoint_interval_s=3)
        moved = [row["moved"] for row in failures(result) if "moved" in row]
        assert set(moved[-1].values()) <= {"h0", "h2"}
        assert result.metrics.records_out - result.duplicates == pytest.approx(400 * 40, abs=6)


def test_windows_over_event_time_are_whole_on_other_hosts() -> None:
    """Event-time windows are whole by brute force after a restart on other hosts."""
    events = [{"kind": "failure", "host": "h1", "at_s": 3.7, "recover_after_s": 0.5, "lost": True}]
    (row,) = simulate(event_jobs.job(events=events, checkpoint_interval_s=1)).event_rows
    assert set(row["detail"]["moved"]) == {"compute#1", "merge#1"}


@pytest.mark.parametrize(
    "change",
    [
        Scale(at_s=15, operator="a", placement=("h1", "h3")),
        Migration(at_s=15, operator="m", subtask=0, to="h1"),
        Migration(at_s=15, operator="a", key_groups=(0,), to="h1"),
    ],
    ids=lambda change: change.kind,
)
def test_nothing_goes_to_a_lost_host(change: Any) -> None:
    engine = STORM.model_dump(mode="json") | {"rescaling": "restart"}
    restarting = parse(Deployment, passing().model_dump(mode="json") | {"engine": engine})
    for each in (passing(), restarting):
        result = run_changing(each, gone("h1"), change)
        assert any("host h1 is lost" in warning for warning in result.warnings)
        assert result.event_rows[-1]["detail"]["refused"] == "host h1 is lost"
        assert not result.event_rows[-1]["paused_s"]  # nothing stops for it


def test_what_cannot_be_replaced_is_refused() -> None:
    pinned = passing().model_dump(mode="json")
    pinned["query"]["operators"][0]["pinned"] = True
    with pytest.raises(BadInput, match="'source' is pinned to 'h0'"):
        run_changing(parse(Deployment, pinned), gone("h0"))
    with pytest.raises(BadInput, match="no host is left"):
        run_changing(meeting(), gone("near"), gone("store"), gone("far"))
    with pytest.raises(BadInput, match="give recover_after_s"):
        parse(Failure, {"at_s": 1, "host": "h0", "lost": True})
