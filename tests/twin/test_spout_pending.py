"""Sources that wait while so many of their records are not handled: Little's law, and counts by brute force."""

from __future__ import annotations

from collections import Counter
from random import Random
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from tests.twin.checkpointed import hosts, steady
from tests.twin.machine.random_jobs import scenario as random_job
from tests.twin.machine.random_timed_jobs import timed_scenario
from tests.twin.worlds import chain, noting_worlds, simulated
from twin.deployment import Deployment
from twin.errors import BadInput
from twin.job import compile
from twin.machine.layout import ITEM
from twin.profiles import STORM
from twin.run import Run
from twin.scenario import Scenario
from twin.simulation import simulate
from twin.spec import parse
from twin.unsupported import unsupported_features
from twin.world.world import World


def job(pending: int | None, *middle: dict[str, Any], latency_ms: float = 0.0, spouts: int = 1) -> Deployment:
    """Job source -> what is in between -> sink, of 400 records a second, each host with what it sends delayed."""
    names = [each["name"] for each in middle]
    engine = STORM.model_copy(update={"max_spout_pending": pending})
    return chain(
        [{"service_scv": 0} | each for each in middle],
        steady(400.0),
        hosts=hosts("a", "b", latency_ms=latency_ms),
        placement={"source": ["a"] * spouts, **dict.fromkeys(names, "b"), "sink": "b"},
        engine=engine.model_dump(mode="json"),
    )


def ran(what: Deployment) -> Run:
    return simulated(what, horizon_s=40.0, warmup_s=20.0)


@pytest.mark.parametrize("spouts", [1, 2])
@pytest.mark.parametrize("pending", [5, 15])
def test_what_takes_a_time_to_be_handled_comes_as_often_as_littles_law_says(pending: int, spouts: int) -> None:
    """With nothing else in the way, `pending` records of each subtask are on a way of 100 ms: so many in that time, or
    all that come."""
    metrics = ran(job(pending, latency_ms=100.0, spouts=spouts)).metrics
    assert metrics.processing_latency_s.mean == pytest.approx(0.1, rel=0.01)
    assert metrics.throughput_per_s == pytest.approx(min(400.0, pending * spouts / 0.1), rel=0.01)


@pytest.mark.parametrize("pending", [1, 20])
@pytest.mark.parametrize("spouts", [1, 3])
def test_no_more_wait_for_a_bottleneck_than_are_pending(pending: int, spouts: int) -> None:
    """Where a bolt takes 100 a second of 400, throughput times latency is the number of pending records; without a
    limit, its channel fills."""
    work = {"kind": "map", "name": "work", "service_time_s": 0.01}
    run = ran(job(pending, work, spouts=spouts))
    assert run.metrics.throughput_per_s == pytest.approx(100.0, rel=0.01)
    assert run.metrics.throughput_per_s * run.metrics.processing_latency_s.mean == pytest.approx(
        pending * spouts, rel=0.01
    )
    rows = [row for row in run.operator_rows if row["operator"] == "work"]
    assert max(row["queueLength"] for row in rows) <= pending * spouts - 1
    assert ran(job(None, work)).metrics.processing_latency_s.mean > 10.0


def test_a_record_is_handled_when_all_that_it_became_is() -> None:
    """One record becomes three, which leave one after the other, 10 ms each; then the next one comes. A record that is
    filtered out is handled at once."""
    split = {"kind": "map", "name": "split", "selectivity": 3.0, "service_time_s": 0}
    work = {"kind": "map", "name": "work", "service_time_s": 0.01}
    run = ran(job(1, split, work))
    assert run.metrics.throughput_per_s == pytest.approx(100.0, rel=0.01)
    assert run.metrics.processing_latency_s.mean == pytest.approx((0.01 + 0.02 + 0.03) / 3, rel=0.01)
    thin = {"kind": "filter", "name": "thin", "selectivity": 0.0, "service_time_s": 0.01}
    taken = [row["numRecordsIn"] for row in ran(job(1, thin)).operator_rows if row["operator"] == "thin"]
    assert sum(taken) == pytest.approx(40 * 100, rel=0.01)


# counts by brute force -----------------------------------------------------------------------------------------------


def check_counts(world: World) -> None:
    """Each root counts the records in memory that are its own, and each source its roots."""
    roots, found = dict[int, Any](), Counter[int]()
    for items in [each for each in world.memory.arena.kept if each.dtype == ITEM]:
        found.update(items["tree"][items["tree"] != 0].tolist())
        here = items.ctypes.data + ITEM.itemsize * (items["tree"] == 0).nonzero()[0]
        roots |= {int(each): items[(each - items.ctypes.data) // ITEM.itemsize] for each in here}
    assert {root: int(roots[root]["count"]) for root in found} == dict(found)
    pending = Counter(int(roots[root]["sender"]) for root in found)
    for task in [task for task in world.every_task() if task.polls]:
        assert task.pending == pending[task.here] <= task.most_pending


def limited(random: Random, changing: bool) -> Scenario | None:
    """Random job with such a limit, or one over event time, whose logics are in Python; None if that cannot be."""
    what = random.choice([random_job, timed_scenario])(random, changing)
    engine = what.engine.model_copy(update={"max_spout_pending": random.choice([1, 2, 7, 50])})
    try:
        return parse(Scenario, {**dict(what), "engine": engine})
    except BadInput:
        return None


@settings(max_examples=12)
@given(st.integers(0, 2**32 - 1))
def test_sources_count_what_is_in_memory_and_all_of_it_is_handled(seed: int) -> None:
    """When sources then wait until nothing is left, nothing is."""
    what = limited(Random(seed), changing=False)
    assume(what is not None)
    assert what is not None
    try:
        world = World(compile(what), what.run)
    except BadInput:
        return  # it cannot be simulated without a limit either
    sources = [task for task in world.every_task() if task.polls]
    world.advance(1.0)
    check_counts(world)
    for task in sources:
        task.most_pending = 1
    world.advance(20.0)
    check_counts(world)


@settings(max_examples=12)
@given(st.integers(0, 2**32 - 1))
def test_changes_of_the_plan_lose_no_record_that_is_counted(seed: int) -> None:
    what = limited(Random(seed), changing=True)
    assume(what is not None)
    assert what is not None
    with noting_worlds() as worlds:
        try:
            simulate(what)
        except BadInput:
            return  # it cannot be simulated without a limit either
    check_counts(worlds[0])


# where it is not known -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"checkpoints": {}}, "max_spout_pending is 5, and checkpoints may take records"),
        ({"events": [{"kind": "failure", "host": "a", "at_s": 1, "recover_after_s": 1}]}, "and a failure may take"),
    ],
)
def test_records_that_come_again_are_not_counted(more: dict[str, Any], words: str) -> None:
    with pytest.raises(BadInput, match=words):
        parse(Scenario, {**dict(Scenario.of(job(5))), **more})


def test_the_rate_model_says_that_it_does_not_see_it() -> None:
    (said,) = set(unsupported_features(Scenario.of(job(5)), ())) - set(unsupported_features(Scenario.of(job(None)), ()))
    assert said == "that a source waits while 5 of its records are not handled"
