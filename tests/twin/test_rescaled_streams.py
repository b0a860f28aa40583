"""Streams that are rescaled: who sends to whom, in which order, over which channels, and what loads follow."""

from __future__ import annotations

from fractions import Fraction
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from tests.twin.machine.runs import same_however
from tests.twin.worlds import HOST, chain, deployment, simulated, sink, world_of
from twin.chaining import fused
from twin.change.fan import channels
from twin.deployment import Deployment
from twin.errors import BadInput
from twin.events import Failure, Scale
from twin.rates.model import RateModel
from twin.scenario import RunSettings, Scenario

HOSTS = [{**HOST, "name": name} for name in ("h0", "h1")]


def wired(producers: int, consumers: int) -> list[list[int]]:
    """Consumers of each producer, by channel, from the consumers' side, as Flink computes its pointwise pattern."""
    found: list[dict[int, int]] = [{} for _ in range(producers)]
    if producers >= consumers:
        for consumer in range(consumers):
            for producer in range(consumer * producers // consumers, (consumer + 1) * producers // consumers):
                found[producer][0] = consumer
    else:
        for producer in range(producers):
            start = (producer * consumers + producers - 1) // producers
            end = ((producer + 1) * consumers + producers - 1) // producers
            for consumer in range(start, end):
                found[producer][consumer % (end - start)] = consumer
    return [[each[channel] for channel in sorted(each)] for each in found]


def job(producers: Any, consumers: Any, how: str = "rescale", rate_per_s: Any = 100.0, **more: Any) -> Deployment:
    middle = [{"kind": "map", "name": name, "service_time_s": 1e-3, "service_scv": 0} for name in ("send", "take")]
    return chain(
        middle,
        rate_per_s,
        hosts=HOSTS,
        placement={"source": "h0", "send": producers, "take": consumers, "sink": "h0"},
        partitioning={"take": how},
        **more,
    )


@pytest.mark.parametrize("producers", range(1, 9))
@pytest.mark.parametrize("consumers", range(1, 9))
def test_each_record_goes_where_flink_sends_it(producers: int, consumers: int) -> None:
    """The first three rounds of each producer are the channels of Flink's pattern, beginning with the first one."""
    world = world_of(job({"h0": producers}, {"h0": consumers}), RunSettings(horizon_s=1.0))
    for task, expected in zip(world.tasks["send"], wired(producers, consumers), strict=True):
        port = task.ports[0]
        share = 1.0 / len(expected)
        assert list(port.weights) == [share if k in expected else 0.0 for k in range(consumers)]
        if len(expected) > 1:
            live = world.memory.blocks[port.here, "keys"].tolist()
            assert [live[(port.turn + k) % len(live)] for k in range(3 * len(live))] == 3 * expected
        else:
            assert port.only == expected[0]


@pytest.mark.parametrize(("producers", "consumers"), [(2, 5), (3, 2), (4, 2), (2, 4), (5, 5)])
def test_subtasks_take_what_their_producers_send(producers: int, consumers: int) -> None:
    """Evenly spaced records, dealt to producers in turn: each subtask takes its part of each producer's, to a record
    for each of them."""
    law = {"law": "constant", "rate_per_s": 300.0}
    made = job({"h0": producers}, {"h0": consumers}, rate_per_s=law)
    world = world_of(made, RunSettings(horizon_s=20.0))
    world.advance(20.0)
    expected = np.zeros(consumers)
    for each in wired(producers, consumers):
        expected[each] += 300 * 20 / producers / len(each)
    taken = np.array([task.records_in for task in world.tasks["take"]])
    assert np.abs(taken - expected).max() <= producers + 1
    busiest = RateModel().answer(made, [made.plan]).busiest[0, 2]
    assert busiest == pytest.approx(expected.max() / expected.mean())


def test_nothing_crosses_the_network_where_each_host_has_its_part() -> None:
    """The first host sends half of the source's records to the second one, and by rebalance a quarter more."""
    apart = {"h0": 1, "h1": 1}, {"h0": 2, "h1": 2}
    sent = {
        how: next(each.sent_mbps for each in simulated(job(*apart, how), horizon_s=20).hosts if each.host == "h0")
        for how in ("rescale", "rebalance")
    }
    assert sent["rescale"] == pytest.approx(sent["rebalance"] * 2 / 3, rel=0.05)


@pytest.mark.parametrize(("producers", "consumers"), [(2, 4), (4, 2), (3, 5)])
def test_only_pointwise_channels_are_there(producers: int, consumers: int) -> None:
    """Barriers and failures go along the channels of the pattern alone."""
    world = world_of(job({"h0": producers}, {"h0": consumers}), RunSettings(horizon_s=1.0))
    numbers = {task: k for name in ("send", "take") for k, task in enumerate(world.tasks[name])}
    found = {
        (numbers[each.producer], numbers[each.consumer])
        for each in channels(world)
        if each.producer in world.tasks["send"]
    }
    assert found == {(p, c) for p, some in enumerate(wired(producers, consumers)) for c in some}


def test_shares_of_the_rate_model_follow_uneven_producers() -> None:
    """Of partitions as 3 : 1, the first reader feeds the first two subtasks, and the second the other two."""
    topic = {"kind": "kafka-source", "partitions": 2, "partition_shares": [3, 1], "name": "topic", "service_time_s": 0}
    made = deployment(
        [topic, {"kind": "map", "name": "take", "service_time_s": 1e-3}, sink()],
        [("topic", "take"), ("take", "sink")],
        {"topic": 100.0},
        placement={"topic": {"h": 2}, "take": {"h": 4}},
        partitioning={"take": "rescale"},
    )
    assert RateModel().answer(made, [made.plan]).busiest[0, 1] == pytest.approx(float(4 * Fraction(3, 8)))


@pytest.mark.parametrize(("producers", "consumers"), [(2, 5), (4, 2)])
def test_a_run_with_checkpoints_and_a_failure_is_the_same_however_code_runs(producers: int, consumers: int) -> None:
    made = job({"h0": producers}, {"h1": consumers}, rate_per_s=200.0)
    scenario = Scenario.of(made, RunSettings(horizon_s=6, period_s=1, checkpoint_interval_s=1))
    failing = scenario.model_copy(update={"events": (Failure(at_s=2.5, host="h1", recover_after_s=0.5),)})
    same_however(failing)


def test_what_a_rescaled_stream_cannot_is_refused() -> None:
    for operator, words in (("send", "feeds a rescale stream"), ("take", "fed by a rescale stream")):
        with pytest.raises(BadInput, match=words):
            simulated(job({"h0": 2}, {"h0": 4}), Scale(at_s=3, operator=operator, placement=("h0",)), horizon_s=5)
    made = job({"h0": 2}, {"h0": 2})
    with pytest.raises(BadInput, match="rescale keeps 'send' and 'take' apart, as in Flink; use forward"):
        made.with_plan(made.plan.model_copy(update={"fused": (("send", "take"),)}))
    with pytest.raises(BadInput, match="forward needs equal subtasks, got 2 -> 4; use rebalance or rescale"):
        simulated(job({"h0": 2}, {"h0": 4}, "forward"), horizon_s=5)


def test_flink_chains_no_rescaled_stream() -> None:
    made = job({"h0": 2}, {"h0": 2}, engine="flink")
    assert ("send", "take") not in {
        pair for group in fused(made.query, made.plan, made.engine) for pair in pairwise(group)
    }
