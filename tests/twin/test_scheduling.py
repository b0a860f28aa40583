"""Where further subtasks go, and which of too many stay: by hand on ordinary jobs, and as laws on random ones."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from optimizers.rules import SlotDeployment, fits, groups_of
from optimizers.space import counts_of
from tests.twin.worlds import deployment, sink, source
from twin.deployment import Deployment
from twin.errors import BadInput
from twin.plan import MOST_SUBTASKS
from twin.profiles import STORM
from twin.rates.model import RateModel
from twin.scenario import RunSettings, Scenario
from twin.scheduling import as_many, beyond_slots, resized
from twin.simulation import simulate
from twin.spec import parse

FREE = {"service_scv": 0.0, "serialise_ns_per_byte": 0.0, "deserialise_ns_per_byte": 0.0}
QUIET = STORM.model_dump(mode="json") | FREE | {"name": "quiet"}
SLOTS = QUIET | {"slots": True}


def host(name: str, cores: float, **more: Any) -> dict[str, Any]:
    return {
        "name": name,
        "cpu_percent": 100 * cores,
        "ram_mb": 32_000,
        "bandwidth_mbps": 10_000,
        "latency_ms": 1,
    } | more


def line(hosts: list[dict[str, Any]], engine: Any, places: dict[str, Any], **more: Any) -> Deployment:
    """Job of a source, a map of a millisecond and a sink, at 400 records a second."""
    work = {"name": "work", "kind": "map", "service_time_s": 1e-3} | more.pop("work", {})
    operators = [source("in") | more.pop("source", {}), work, sink("out") | more.pop("sink", {})]
    return deployment(
        operators, [("in", "work"), ("work", "out")], {"in": 400}, hosts, placement=places, engine=engine, **more
    )


def at(job: Deployment, count: int, operator: str = "work") -> tuple[str, ...]:
    return resized(job, operator, count, "--vary")[operator]


def with_subtasks(job: Deployment, count: int, operator: str = "work") -> Deployment:
    return job.with_plan(job.plan.with_placement(job.plan.placement | resized(job, operator, count, "--vary")))


def bears_per_s(job: Deployment) -> float:
    """Highest rate that the job bears by the rate model."""
    return 400 / float(RateModel().answer(job, [job.plan]).offered_pressure.max())


def test_subtasks_spread_over_hosts_by_their_cores():
    """In and out are on a gateway of 2 cores, work on one of two workers of 2. The workers take turns up to 2 subtasks
    each; then each host would have 3 on 2 cores, and the first takes the fifth."""
    job = line([host("gate", 2), host("w-1", 2), host("w-2", 2)], QUIET, {"in": "gate", "work": "w-1", "out": "gate"})
    placed = {count: at(job, count) for count in (1, 2, 5)}
    assert placed == {1: ("w-1",), 2: ("w-1", "w-2"), 5: ("w-1", "w-2", "w-1", "w-2", "gate")}
    for count in placed:  # each has a core of its own
        assert bears_per_s(with_subtasks(job, count)) == pytest.approx(count * 1000, rel=0.02)


@pytest.mark.parametrize("count", [1, 2, 3, 5])
def test_a_plan_of_more_slots_than_cores_is_told(count):
    """Operators of one group share slots, so a host takes as many as an operator has subtasks there at most."""
    places = {"in": "h", "work": {"h": count}, "out": "h"}
    said = beyond_slots(line([host("h", 2)], SLOTS, places))
    assert ("".join(said).startswith(f"the plan takes {count} slots on h, more than its 2 cores")) == (count > 2)
    assert not beyond_slots(line([host("h", 2)], QUIET, places))
    apart = line([host("h", 2)], SLOTS, places, work={"slot_sharing_group": "own"})
    assert bool(beyond_slots(apart)) == (count + 1 > 2)


def test_a_host_of_eight_cores_takes_four_subtasks_for_each_of_one_of_two():
    """(k + 1) / 8 stays at or below 1 / 2 up to the fourth subtask on the large host; 5 / 8 does not."""
    job = line([host("big", 8), host("small", 2)], QUIET, {"in": "big", "work": "big", "out": "big"})
    assert at(job, 3) == ("big", "big", "small")  # three subtasks are there at first: in, work, out
    assert at(job, 8) == ("big", "big", "small", "big", "big", "big", "big", "small")
    assert bears_per_s(with_subtasks(job, 8)) == pytest.approx(8000, rel=0.02)


def test_a_job_needs_as_many_slots_as_its_highest_parallelism():
    """All are in one slot at first. Each further subtask of work takes a new slot, on the task manager with fewer."""
    job = line([host("tm-1", 4), host("tm-2", 4)], SLOTS, {"in": "tm-1", "work": "tm-1", "out": "tm-1"})
    assert at(job, 4) == ("tm-1", "tm-2", "tm-1", "tm-2")
    for count in (1, 2, 3, 4):
        more = with_subtasks(job, count)
        assert slots(more) == {"tm-1": -(-count // 2)} | ({"tm-2": count // 2} if count > 1 else {})
        assert bears_per_s(more) == pytest.approx(count * 1000, rel=0.02)


def test_free_slots_are_taken_first():
    """Four readers have two slots on each task manager, and one subtask of work is in a slot of the first, so that the
    second one takes the next. Only the fifth and sixth need new slots."""
    readers = {"in": {"tm-1": 2, "tm-2": 2}, "work": "tm-1", "out": "tm-2"}
    job = line([host("tm-1", 4), host("tm-2", 4)], SLOTS, readers)
    assert at(job, 4) == ("tm-1", "tm-2", "tm-1", "tm-2")
    assert slots(with_subtasks(job, 4)) == {"tm-1": 2, "tm-2": 2}
    assert at(job, 6) == (*at(job, 4), "tm-1", "tm-2")
    assert slots(with_subtasks(job, 6)) == {"tm-1": 3, "tm-2": 3}
    assert bears_per_s(with_subtasks(job, 6)) == pytest.approx(6000, rel=0.02)


def test_slot_sharing_groups_take_slots_of_their_own():
    """The readers and the sink share two slots; work and its group have others, so four of work make six slots. Work is
    in a second slot of tm-1: its second subtask makes two slots each, and then both task managers take one in turn."""
    places = {"in": ["tm-1", "tm-2"], "work": "tm-1", "out": ["tm-1", "tm-2"]}
    hosts = [host("tm-1", 4), host("tm-2", 4)]
    job = line(hosts, SLOTS, places, work={"slot_sharing_group": "own"}, sink={"slot_sharing_group": "default"})
    assert at(job, 4) == ("tm-1", "tm-2", "tm-1", "tm-2")
    assert slots(with_subtasks(job, 4)) == {"tm-1": 3, "tm-2": 3}


def test_forward_ends_in_groups_of_their_own_need_not_share_a_place():
    """The sinks have two slots on tm-1, of which the reader has one: its second subtask takes the other. Work, with a
    slot of its own there, takes the next on tm-2, where none is in use."""
    hosts, places = [host("tm-1", 4), host("tm-2", 4)], {"in": "tm-1", "work": "tm-1", "out": ["tm-1", "tm-1"]}
    own, shared = {"slot_sharing_group": "own"}, {"slot_sharing_group": "default"}
    job = line(hosts, SLOTS, places, work=own, sink=shared, partitioning={"work": "forward"})
    assert resized(job, "work", 2, "") == {"in": ("tm-1", "tm-1"), "work": ("tm-1", "tm-2")}


def test_a_chain_moves_together_and_counts_as_one():
    """In and work run as one task, so the first worker has two tasks and not three, as many as the second one."""
    hosts, places = [host("w-1", 2), host("w-2", 2)], {"in": "w-1", "work": "w-1", "out": "w-2"}
    apart = line(hosts, QUIET, places, partitioning={"work": "forward"})
    chained = apart.with_plan(apart.plan.model_copy(update={"fused": (("in", "work"),)}))
    assert as_many(apart, "work") == as_many(chained, "in") == ("in", "work")
    assert resized(apart, "work", 2, "") == {"in": ("w-1", "w-2"), "work": ("w-1", "w-2")}
    assert resized(chained, "in", 2, "") == {"in": ("w-1", "w-1"), "work": ("w-1", "w-1")}
    assert with_subtasks(chained, 3).plan.fused == (("in", "work"),)
    assert at(chained, 3) == ("w-1", "w-1", "w-2")
    by_itself = apart.model_copy(update={"engine": parse(type(apart.engine), QUIET | {"chaining": True})})
    assert at(by_itself, 3) == at(chained, 3)


def test_forward_streams_to_other_hosts_keep_both_ends_equal():
    hosts = [host("gate", 2), host("w-1", 2), host("w-2", 2)]
    job = line(hosts, QUIET, {"in": "gate", "work": "w-1", "out": "w-1"}, partitioning={"work": "forward"})
    placed = resized(job, "work", 2, "")
    assert placed == {"in": ("gate", "w-2"), "work": ("w-1", "gate")}
    assert bears_per_s(with_subtasks(job, 2)) == pytest.approx(2000, rel=0.02)


def test_named_places_are_taken_in_turn_by_all_subtasks():
    job = line([host("w-1", 2), host("w-2", 2)], QUIET, {"in": "w-1", "work": "w-1", "out": "w-1"})
    assert resized(job, "work", 3, "", ("w-2", "w-1"))["work"] == ("w-2", "w-1", "w-2")


def test_some_operators_stay_on_their_hosts():
    hosts, places = [host("w-1", 2), host("w-2", 2)], {"in": "w-1", "work": "w-1", "out": "w-2"}
    assert at(line(hosts, QUIET, places, work={"pinned": True}), 3) == ("w-1",) * 3
    assert at(line(hosts, QUIET, places, partitioning={"work": "shared"}), 3) == ("w-1",) * 3
    assert at(line(hosts, QUIET, places, partitioning={"work": "local"}), 3) == ("w-1",) * 3
    assert at(line(hosts, QUIET, places), 3) == ("w-1", "w-2", "w-1")


def test_subtasks_go_only_where_routes_lead():
    link = {"between": ["w-1", "w-2"], "bandwidth_mbps": 100, "latency_ms": 1}
    hosts, places = [host(name, 2) for name in ("w-1", "w-2", "island")], {"in": "w-1", "work": "w-1", "out": "w-1"}
    assert at(line(hosts, QUIET, places, links=[link]), 4) == ("w-1", "w-2", "w-2", "w-2")
    assert "island" in at(line(hosts, QUIET, places), 4)


def test_a_host_that_only_stores_checkpoints_takes_none():
    job = line([host("w-1", 2), host("store", 8)], QUIET, {"in": "w-1", "work": "w-1", "out": "w-1"})
    data = {**dict(job), "name": "job", "checkpoints": {"interval_s": 10, "storage": "store"}, "run": RunSettings()}
    assert at(parse(Scenario, data), 3) == ("w-1",) * 3
    assert at(job, 3) == ("w-1", "store", "store")


def test_sockets_are_places_of_their_own():
    sockets = {"sockets": [{"cores": 2}, {"cores": 2}]}
    job = line([host("h", 4, **sockets)], QUIET, {"in": "h", "work": "h", "out": "h"})
    assert at(job, 4) == ("h", "h/1", "h/1", "h/1")


def test_what_runs_agree_with():
    """Three subtasks of a millisecond, at 2,400 records a second: 80 % busy each; two would not do."""
    job = line([host("tm-1", 2), host("tm-2", 2)], SLOTS, {"in": "tm-1", "work": "tm-1", "out": "tm-1"})
    job = job.model_copy(
        update={"workload": parse(type(job.workload), {"arrivals": {"in": {"rate_per_s": 2400, "law": "constant"}}})}
    )
    busy = {}
    for count in (2, 3):
        run = simulate(
            Scenario(**dict(with_subtasks(job, count)), name="job", run=RunSettings(horizon_s=20, warmup_s=5))
        )
        busy[count] = {each.operator: each.busy for each in run.operators}["work"]
        assert run.metrics.backpressured == (count == 2)
    assert busy == {2: pytest.approx(1, abs=0.01), 3: pytest.approx(0.8, abs=0.01)}


def test_a_place_is_the_same_however_it_is_written():
    """`w-1/0` is `w-1`: the crowded worker gives one up, not the last of three places."""
    for second in ("w-1", "w-1/0"):
        places = {"in": "w-1", "work": ["w-1", second, "w-2"], "out": "w-1"}
        assert at(line([host("w-1", 2), host("w-2", 2)], QUIET, places), 2) == ("w-1", "w-2")


def test_what_is_pinned_apart_from_its_producers_stays_there():
    """Records leave a host without a consumer, so a pinned consumer of a local stream may be on another."""
    job = line(
        [host("w-1", 2), host("w-2", 2)],
        QUIET,
        {"in": "w-1", "work": "w-2", "out": "w-1"},
        work={"pinned": True},
        partitioning={"work": "local"},
    )
    assert at(job, 3) == ("w-2",) * 3


def test_what_no_plan_can_have_is_refused():
    job = line([host("w-1", 2)], QUIET, {"in": "w-1", "work": "w-1", "out": "w-1"})
    with pytest.raises(BadInput, match=f"here: {10**12:,} subtasks, of {MOST_SUBTASKS:,} at most"):
        resized(job, "work", 10**12, "here")


def slots(job: Deployment) -> dict[str, int]:
    names = [each.name for each in job.query.operators]
    return dict(SlotDeployment.of(job.plan, names, job.query.slot_sharing_groups).task_managers)


@given(st.lists(st.integers(1, 6), min_size=3, max_size=3), st.integers(1, 3), st.sampled_from(["default", "own"]))
def test_plans_in_slots_stay_plans_in_slots(parallelism: list[int], managers: int, group: str):
    """From one slot, whatever the order in which operators grow: Flink's number of slots, spread evenly."""
    hosts = [host(f"tm-{number}", 4) for number in range(managers)]
    own = {"slot_sharing_group": group}
    job = line(
        hosts, SLOTS, dict.fromkeys(("in", "work", "out"), "tm-0"), work=own, sink={"slot_sharing_group": "default"}
    )
    for name, count in zip(("in", "work", "out"), parallelism, strict=True):
        job = with_subtasks(job, count, name)
    reading, working, writing = parallelism
    most = max(parallelism) if group == "default" else max(reading, writing) + working
    assert sum(slots(job).values()) == most
    if group == "default":
        pinned = counts_of(job, job.plan).any(axis=1) & False
        assert fits(counts_of(job, job.plan)[None], pinned, groups_of(job))[0]


@given(st.lists(st.sampled_from(["a", "b", "c"]), min_size=1, max_size=8), st.integers(1, 12), st.booleans())
def test_what_is_there_stays_and_what_goes_leaves_an_even_plan(places: list[str], count: int, in_slots: bool):
    hosts = [host(name, 4) for name in "abc"]
    job = line(hosts, SLOTS if in_slots else QUIET, {"in": "a", "work": places, "out": "b"})
    new = at(job, count)
    before, after = Counter(places), Counter(new)
    assert len(new) == count
    if count >= len(places):
        assert new[: len(places)] == tuple(places)
        return
    assert after <= before
    gone = [name for name in before if after[name] < before[name]]
    assert all(after[name] >= max(after.values()) - 1 for name in gone)
    assert at(job, len(places)) == tuple(places)
