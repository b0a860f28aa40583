"""Moves of subtasks, key groups and shares: their costs, and that they lose and repeat nothing."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.twin.changing import HOSTS, column, e2e_s, job, run
from tests.twin.worlds import chain, deployment, placed, simulated, sink, source
from twin.change.fan import even_flows
from twin.events import Failure, Migration, Scale


def transfer_s(size: float, engine: Any) -> float:
    """Time to serialise, send at 100 Mbit/s over 5 ms, and deserialise; on an idle core and an idle card."""
    cpu_s = size * (engine.serialise_ns_per_byte + engine.deserialise_ns_per_byte) * 1e-9
    return float(cpu_s + size * 8 / 100e6 + 0.005)


def test_a_moved_subtask_pauses_for_its_state() -> None:
    deployment = job(rate=1000, window={"policy": "time", "size_s": 10, "slide_s": 2})
    (event,) = run(deployment, Migration(at_s=15, operator="a", subtask=1, to="h3")).event_rows
    half_a_window = 0.5 * 1000 * 10 * deployment.engine.input_bytes(deployment.query, "a")
    assert event["bytes"] == pytest.approx(half_a_window, rel=0.3)
    assert event["paused_s"] == pytest.approx(transfer_s(event["bytes"], deployment.engine), rel=1e-6)


@pytest.mark.parametrize("ways", [("forward", "rebalance"), ("global", "rebalance"), ("rebalance", "hash")])
def test_a_move_changes_no_shares(ways: tuple[str, str]) -> None:
    """A move changes no shares, of two streams dealt differently, and of three key values dealt two to one by hash."""
    window = {"group_by": "int", "groups": 3, "window": {"policy": "count", "size_records": 10}}
    moved = {"kind": "aggregate", "name": "m", "service_time_s": 1e-4} | window
    operators = [
        source("x"),
        source("y"),
        *({"kind": "map", "name": name, "service_time_s": 1e-4} for name in "ab"),
        moved,
    ]
    streams = [("x", "a"), ("y", "b"), ("a", "m"), ("b", "m"), ("m", "sink")]
    placement = dict.fromkeys("xy", "h0") | {name: ["h0", "h0"] for name in "abm"} | {"sink": "h0"}
    law = {"law": "constant", "rate_per_s": 100}
    made = deployment([*operators, sink()], streams, dict.fromkeys("xy", law), hosts=HOSTS, placement=placement)
    streams_by_way = dict(zip(made.query.streams[2:4], ways, strict=True))
    dealt = (each.model_copy(update={"partitioning": streams_by_way.get(each)}) for each in made.query.streams)
    made = made.model_copy(update={"query": made.query.model_copy(update={"streams": tuple(dealt)})})
    taken = []
    for events in ((), (Migration(at_s=5, operator="m", subtask=1, to="h1"),)):
        found = next(each for each in run(made, *events).operators if each.operator == "m")
        taken.append([each.records_in for each in found.subtasks])
    assert taken[1] == pytest.approx(taken[0], rel=0.02)


def test_moved_key_groups_pause_for_their_state() -> None:
    deployment = job(key_groups=8, state_bytes_per_group=200_000)
    apart = placed(deployment, a=("h1", "h3"))
    move = Migration(at_s=10, operator="a", key_groups=(0, 1), to_subtask=1)
    (event,) = run(apart, move).event_rows
    windows = 0.25 * 400 * 2 * apart.engine.input_bytes(apart.query, "a")
    assert event["bytes"] == pytest.approx(400_000 + windows, rel=0.2)
    # the card is not quite idle: results leave through it as well
    assert event["paused_s"] == pytest.approx(transfer_s(event["bytes"], apart.engine), rel=0.02)


CROWDED = {"a": ["h1", "h1", "h1", "h1", "h1"]}
"""Placement of more subtasks than cores: they share the processor."""


@pytest.mark.parametrize("subtasks", [["h1"], CROWDED["a"]], ids=["own core", "shared cores"])
def test_state_may_still_be_on_its_way_out_at_the_end(subtasks: list[str]) -> None:
    """State may be on its way at the end: serialising it is work that is booked as it begins, and cannot be done by the
    horizon, which the law work <= capacity * time must know."""
    deployment = job(key_groups=8, state_bytes_per_group=2e8)
    deployment = placed(deployment, a=tuple(subtasks))
    move = Migration(at_s=1, operator="a", subtask=0, to="h3")
    result = run(deployment, move, horizon_s=1.1, period_s=0.1)
    assert not result.crashed
    assert result.event_rows[0]["end_s"] is None
    assert all(row["cpuUtilisation"] <= 1 for row in result.host_rows)


@pytest.mark.parametrize("subtasks", [["h1"], CROWDED["a"]], ids=["own core", "shared cores"])
def test_state_that_a_failure_stops_on_its_way_out_costs_no_cpu(subtasks: list[str]) -> None:
    """A move that each of six failures stops, and that is made again after them, costs no CPU."""
    deployment = job(key_groups=8, state_bytes_per_group=2e8)
    deployment = placed(deployment, a=tuple(subtasks))
    fails = [Failure(at_s=at_s, host="h1", recover_after_s=0.05) for at_s in (0.3, 0.5, 0.7, 0.9, 1.1, 1.3)]
    move = Migration(at_s=0.2, operator="a", subtask=0, to="h3")
    result = run(deployment, move, *fails, horizon_s=1.4, period_s=0.1)
    moved = next(row for row in result.event_rows if row["kind"] == "migration")
    assert moved["detail"]["interrupted"] == 6


def test_a_scaled_window_keeps_its_content() -> None:
    """All groups are in every window, whatever subtasks they are on: no result is lost, none comes twice."""
    deployment = job(rate=2000, window={"policy": "time", "size_s": 4, "slide_s": 1})
    scale = [
        Scale(at_s=8.3, operator="a", placement=("h1", "h1", "h3")),
        Scale(at_s=12.3, operator="a", placement=("h3",)),
    ]
    results = column(run(deployment, *scale, period_s=4), "sink", "latencyCount")
    assert results[1:] == pytest.approx([80, 80, 80, 80], abs=3)


def test_windows_that_count_begin_anew_where_records_are_handed_over() -> None:
    """A count window begins anew with a new subtask: results of 200 records at 20 a second are 10 s old."""
    window = {"policy": "count", "size_records": 200}
    deployment = job({"law": "constant", "rate_per_s": 40}, window=window, groups=2)
    deployment = placed(deployment, a=("h1",))
    ages_s = e2e_s(run(deployment, Scale(at_s=3.8, operator="a", placement=("h1", "h3"))))
    assert max(each for each in ages_s if each) == pytest.approx(10, abs=1.5)


@pytest.mark.parametrize("rate", [300, 1500])
def test_all_records_of_a_key_are_on_one_subtask(rate: float) -> None:
    """Each window has one result of each of 20 keys, whatever moves. Periods end between two windows, every 0.5 s."""
    moves = [
        Migration(at_s=6.2, operator="a", key_groups=(0, 1, 5), to_subtask=1),
        Scale(at_s=9.2, operator="a", placement=("h1", "h3", "h3")),
        Scale(at_s=13.2, operator="a", placement=("h3",)),
    ]
    result = run(job(rate=rate, key_groups=8), *moves, warmup_s=3.4, period_s=0.5)
    made = [row["numRecordsOut"] for row in result.operator_rows if row["operator"] == "a" and row["start_s"] >= 3.4]
    assert len(made) > 30 and set(made[:-1]) == {20}


def test_subtasks_are_counted_as_they_come_and_go() -> None:
    scale = [
        Scale(at_s=4.5, operator="m", placement=("h0", "h3", "h3")),
        Scale(at_s=9.5, operator="m", placement=("h3",)),
    ]
    result = run(job(rate=1000), *scale)
    subtasks = column(result, "m", "parallelism")
    assert (subtasks[3], subtasks[6], subtasks[-1]) == (1, 3, 1)
    busy = column(result, "m", "busyTimeMsPerSecond")
    assert busy[6] == pytest.approx(busy[2] / 3, rel=0.25)
    for row in result.operator_rows:
        parts = [row[f"{key}TimeMsPerSecond"] for key in ("busy", "backPressured", "idle")]
        assert sum(parts) == pytest.approx(1000) and min(parts) > -1e-6


def test_scaling_out_multiplies_capacity() -> None:
    overloaded = job(rate=500, service_s=4e-3)
    result = run(overloaded, Scale(at_s=10, operator="m", placement=("h0", "h3")), period_s=5)
    taken = column(result, "m", "numRecordsIn")
    assert taken[1] == pytest.approx(1250, rel=0.05)
    assert taken[2] > 1.9 * 1250 * 0.95


def test_what_follows_new_subtasks_waits_as_behind_subtasks_of_the_plan() -> None:
    """Records of four subtasks scaled from one overlap at the sink as those of a plan with four."""
    work = {"kind": "map", "name": "work", "service_time_s": 2e-3, "service_scv": 1}
    ends, most = {"source": "h0", "sink": "h1"}, ["h1", "h1", "h2", "h2"]
    planned = chain([work], 400, hosts=HOSTS, placement=ends | {"work": most})
    scaled = chain([work], 400, hosts=HOSTS, placement=ends | {"work": "h1"})
    event = Scale(at_s=2, operator="work", placement=most)
    means = []
    for what, events in ((planned, ()), (scaled, (event,))):
        latency = simulated(what, *events, horizon_s=120, warmup_s=20, seed=1).metrics.e2e_latency_s
        means.append(latency.mean)
    assert means[1] == pytest.approx(means[0], rel=0.05)


def test_a_move_to_a_subtask_that_is_gone_is_refused_with_a_warning() -> None:
    result = run(
        job(),
        Scale(at_s=2, operator="a", placement=("h1",)),
        Migration(at_s=5, operator="a", subtask=1, to="h3"),
    )
    assert any("no subtask 1" in warning for warning in result.warnings)


@given(
    shares=st.lists(st.floats(0, 1), min_size=1, max_size=6).filter(lambda shares: sum(shares) > 0.1),
    data=st.data(),
)
def test_even_flows_make_shares_even(shares: list[float], data: st.DataObject) -> None:
    shares = [share / sum(shares) for share in shares]
    stay = data.draw(st.lists(st.integers(0, len(shares) - 1), min_size=1, unique=True))
    for flow in even_flows(shares, stay):
        assert flow.amount > 0
        shares[flow.source] -= flow.amount
        shares[flow.target] += flow.amount
    for index, share in enumerate(shares):
        assert share == pytest.approx(1 / len(stay) if index in stay else 0, abs=1e-9)


@pytest.mark.parametrize("then", ["h1", "h2"])
def test_a_subtask_waits_for_records_on_their_way_to_it_by_a_buffer(then: str) -> None:
    """Records are 0.2 s on their way. Those that were sent while their state moved come by a buffer, also if the
    subtask is to leave, or to give its key groups on, as soon as it has their state."""
    hosts = [host | {"latency_ms": 200 if host["name"] == "h0" else 1} for host in HOSTS]
    keyed = {"kind": "keyed-state", "name": "m", "keys": 40, "key_groups": 4, "service_time_s": 1e-4}
    apart = chain([keyed], 400.0, hosts=hosts, placement={"source": "h0", "m": "h1", "sink": "h1"})
    out, back = (
        Scale(at_s=at_s, operator="m", placement=places)
        for at_s, places in ((5.0, ("h1", "h3")), (5.001, ("h1",) if then == "h1" else ("h1", then)))
    )
    first, second = run(apart, out, back).event_rows
    assert first["end_s"] == pytest.approx(5.2, abs=0.02)
    assert second["end_s"] == pytest.approx(first["end_s"] + 0.2, abs=0.02)
