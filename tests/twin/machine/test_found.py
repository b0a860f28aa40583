"""Jobs that were once run in a wrong way, each made small."""

from __future__ import annotations

from typing import Any

import pytest

from tests.twin.changing import HOSTS, job
from tests.twin.machine.runs import same_however
from tests.twin.worlds import chain, deployment, joined, sink, source
from twin.deployment import Deployment
from twin.profiles import STORM
from twin.run import Run
from twin.scenario import Scenario
from twin.spec import parse


def require_same(deployed: Deployment, **more: Any) -> Run:
    """Run of a job, which is the same whenever compiled code and Python take turns."""
    return same_however(
        parse(Scenario, {**dict(deployed), "run": {"horizon_s": 3.0, "period_s": 0.5, "seed": 3}, **more})
    )


def mapped(subtasks: list[str]) -> Deployment:
    """Job with these subtasks of a map before a window."""
    made = job(400)
    plan = made.plan.with_placement({**made.plan.placement, "m": tuple(subtasks)})
    return made.model_copy(update={"plan": plan})


def test_the_seat_of_a_subtask_that_has_left_is_empty() -> None:
    """Records go in turn to the subtasks that stay when one leaves."""
    fewer = {"kind": "scale", "operator": "m", "placement": ["h0", "h2"], "at_s": 1.0}
    run = require_same(mapped(["h0", "h1", "h2"]), events=[fewer])
    late = [row for row in run.subtask_rows if row["operator"] == "m" and row["start_s"] >= 1.5]
    taken = [sum(row["numRecordsIn"] for row in late if row["subtask"] == number) for number in (0, 1, 2)]
    assert taken[1] == 0 and abs(taken[0] - taken[2]) <= 1 and sum(taken) > 400


def test_memory_by_what_each_producer_has_sent() -> None:
    """Two sources send unlike records, which queue before one map."""
    operators = [source("a", record_bytes=10), source("b", record_bytes=5000)]
    operators += [{"kind": "map", "name": "m", "service_time_s": 0.01}, sink()]
    assert require_same(deployment(operators, [("a", "m"), ("b", "m"), ("m", "sink")], {"a": 100.0, "b": 60.0}))


CHECKPOINTS = {"interval_s": 0.3, "mode": "unaligned", "storage": "h3"}
BATCHES = {"batch_records": 2, "flush_s": 0.01}


@pytest.mark.parametrize("engine", [{}, BATCHES])
def test_state_on_its_way_to_storage_shares_cards_with_records(engine: dict[str, Any]) -> None:
    deployed = job(400, state_bytes_per_group=1_000_000, key_groups=4)
    deployed = parse(Deployment, {**dict(deployed), "engine": STORM.model_dump(mode="json") | engine})
    nothing = {"kind": "rate-change", "source": "source", "factor": 1.0, "at_s": 0.7}
    short = {"horizon_s": 1.5, "period_s": 0.5, "seed": 3}
    assert require_same(deployed, checkpoints=CHECKPOINTS, events=[nothing], run=short)


def test_a_source_does_other_work_while_it_waits_for_a_record() -> None:
    """A source's part of a checkpoint takes longer than the checkpoint."""
    checkpoints = {"interval_s": 0.3, "mode": "unaligned", "sync_ms": 100}
    assert require_same(job(20), checkpoints=checkpoints)


def test_what_takes_no_time_leaves_a_source_waiting_for_its_next_record() -> None:
    """Evaluations of an empty window that is fused with the source leave the source waiting for its next record."""
    window = {"kind": "aggregate", "name": "w", "window": {"policy": "time", "size_s": 0.1}, "service_time_s": 0}
    engine = STORM.model_dump(mode="json") | {"name": "chaining", "chaining": True}
    fused = chain([window], {"law": "constant", "rate_per_s": 4.0}, engine=engine)
    assert require_same(fused, run={"horizon_s": 3.1, "period_s": 3.1}).metrics.records_in == 12


@pytest.mark.parametrize("engine", [{}, BATCHES])
def test_no_random_number_is_drawn_where_one_subtask_gets_all(engine: dict[str, Any]) -> None:
    """No random number is drawn where one key gives one of two subtasks all records; also after its share is halved."""
    deployed = parse(Deployment, {**dict(job(400, groups=1)), "engine": STORM.model_dump(mode="json") | engine})
    more = {"kind": "scale", "operator": "a", "placement": ["h1", "h2"], "at_s": 1.0}
    assert require_same(deployed, events=[more])


def test_keys_are_drawn_anew_of_what_a_window_holds_and_not_of_what_it_has_forgotten() -> None:
    """A rescaling to the same subtask draws keys anew only for records that the join's window still holds."""
    both = {"kind": "join", "name": "j", "window": {"policy": "time", "size_s": 0.1}, "selectivity": 0.3}
    deployed = joined(both | {"service_time_s": 1e-4}, {"one": 100.0, "other": 100.0})
    nothing = {"kind": "rate-change", "source": "one", "factor": 1.0, "at_s": 0.5}
    same = {"kind": "scale", "operator": "j", "placement": ["h"], "at_s": 1.0}
    assert require_same(deployed, events=[nothing, same])


def test_a_call_may_hold_a_record_that_came_through_a_buffer() -> None:
    """A record that waited for its key group's state may wait for the answer of a call."""
    ask = {"kind": "async", "name": "ask", "latency_s": 0.05, "key_groups": 4, "state_bytes_per_group": 500_000}
    places = dict.fromkeys(("source", "ask", "sink"), "h0")
    more = {"kind": "scale", "operator": "ask", "placement": ["h0", "h1"], "at_s": 1.0}
    assert require_same(chain([ask], 100.0, hosts=HOSTS, placement=places), events=[more])


def test_dead_state_does_not_move() -> None:
    """State that has died does not move, however long ago somebody last looked."""
    state = {"kind": "keyed-state", "name": "k", "keys": 500, "key_groups": 4, "ttl_s": 0.1, "service_time_s": 1e-4}
    law = {"law": "steps", "steps": [{"at_s": 0.0, "rate_per_s": 200.0}, {"at_s": 0.7, "rate_per_s": 0.0}]}
    places = dict.fromkeys(("source", "k", "sink"), "h0")
    move = {"kind": "scale", "operator": "k", "placement": ["h1"], "at_s": 0.9}
    deployed = chain([state | {"state_bytes_per_key": 10_000}], law, hosts=HOSTS, placement=places)
    assert [row["bytes"] for row in require_same(deployed, events=[move]).event_rows] == [0.0]


@pytest.mark.parametrize(
    "window", [{"policy": "time", "size_s": 0.5, "slide_s": 0.2}, {"policy": "count", "size_records": 9}]
)
def test_results_of_a_measured_join_are_of_records_at_random(window: dict[str, Any]) -> None:
    join = {"kind": "join", "name": "j", "window": window, "amplification": 0.7, "service_time_s": 1e-4}
    assert require_same(joined(join, {"one": 100.0, "other": 60.0}))


@pytest.mark.parametrize(("moved", "place"), [("m", "h0"), ("sink", "h1")])
def test_a_move_changes_who_shares_a_processor(moved: str, place: str) -> None:
    """A subtask is blocked where it sits now, and work that began alone goes on when another subtask comes."""
    hosts = [host | {"cpu_percent": 100} for host in HOSTS]
    engine = STORM.model_dump(mode="json") | {"name": "small", "channel_records": 1}
    work, places = {"kind": "map", "name": "m", "service_time_s": 8e-3}, {"source": "h0", "m": place, "sink": "h0"}
    deployed = chain([work], 200.0, hosts=hosts, placement=places, engine=engine)
    move = {"kind": "migration", "operator": moved, "subtask": 0, "to": "h1", "at_s": 1.0}
    nothing = {"kind": "rate-change", "source": "source", "factor": 1.0, "at_s": 1.001}
    assert require_same(deployed, events=[move, nothing])
