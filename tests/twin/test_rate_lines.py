"""Lines in which streams wait together, the room of each subtask's buffers, and what full channels keep upstream idle.

By arithmetic, and beside exact runs.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.twin.test_rate_answer import host
from tests.twin.worlds import deployment, simulated, sink, source
from twin.deployment import Deployment
from twin.profiles import FLINK, STORM
from twin.rates.channels import fair_rates
from twin.rates.model import RateAnswer, RateModel

CONSTANT = {"service_scv": 0.0}


def answer(job: Deployment, horizon_s: float) -> RateAnswer:
    return RateModel(horizon_s).answer(job, [job.plan])


@given(st.lists(st.tuples(st.floats(0.1, 1e4), st.floats(1.0, 1e3)), min_size=1, max_size=5), st.floats(1.0, 50.0))
def test_streams_in_one_line_pass_it_as_they_stand_in_it(streams: list[tuple[float, float]], over: float) -> None:
    """All together pass at the rate that the consumer takes, and those that are held back at rates like their room."""
    rates, places = np.array(streams).T
    allowed = fair_rates(rates[:, None], np.array([over]), places[:, None])[:, 0]
    assert np.minimum(rates, allowed).sum() == pytest.approx(rates.sum() / over)
    assert allowed / places == pytest.approx(np.full(len(rates), allowed[0] / places[0]))


def test_an_overloaded_operator_takes_of_each_stream_what_its_buffers_bring() -> None:
    """Of streams from one subtask and from three, the second has three times as many buffers, and is taken as often."""
    job = deployment(
        [source("one"), source("three"), sink(service_time_s=1e-3, **CONSTANT)],
        [("one", "sink"), ("three", "sink")],
        {"one": 6000, "three": 6000},
        hosts=[host("h")],
        placement={"three": {"h": 3}},
        engine=FLINK.model_dump(mode="json") | {"chaining": False},
    )
    found, run = answer(job, 60.0), simulated(job, horizon_s=60, warmup_s=20)
    taken = {each.operator: each.rate_out_per_s for each in run.operators}
    said = dict(zip(found.sources, found.ingested[0] * 6000, strict=True))
    assert said["three"] / said["one"] == pytest.approx(3.0, rel=0.1)
    for name in said:
        assert said[name] == pytest.approx(taken[name], rel=0.1)


@pytest.mark.parametrize("far", ["h", "i"])
def test_the_first_source_is_held_back_when_its_own_buffers_are_full(far: str) -> None:
    """A source on the consumer's host has its own buffers alone, and is held back as soon whether another is far."""
    job = deployment(
        [source(), sink(service_time_s=1e-3, **CONSTANT)],
        [("source", "sink")],
        {"source": 1400},
        hosts=[host("h"), host("i")],
        placement={"source": ["h", far], "sink": ["h"]},
        engine=FLINK.model_dump(mode="json") | {"chaining": False},
    )
    too_many_per_s = 400.0
    buffer = FLINK.batch_of(FLINK.output_bytes(job.query, "source"))
    full_s = 2 * 9.5 * buffer / too_many_per_s
    for part, held in ((0.85, False), (1.2, True)):
        said = RateModel(part * full_s).predict(job, [job.plan])["backpressured"][0]
        run = simulated(job, horizon_s=part * full_s, warmup_s=0, period_s=part * full_s / 20)
        assert (said > 0.5) == run.metrics.backpressured == held, part


def windowed(sink_s: float, room: int, map_s: float = 1e-3, **changes: Any) -> Deployment:
    middle: list[dict[str, Any]] = [
        {"kind": "map", "name": "m", "service_time_s": map_s} | CONSTANT,
        {"kind": "aggregate", "name": "n", "group_by": "int", "groups": 100_000, "service_time_s": 0.0}
        | {"window": {"policy": "time", "size_s": 1}},
    ]
    engine = STORM.model_dump(mode="json") | {"channel_records": room}
    arrivals = {"law": "constant", "rate_per_s": 400.0}
    end = sink(service_time_s=sink_s, **CONSTANT)
    operators = [source(service_time_s=0.0), *middle, end]
    names = [each["name"] for each in operators]
    return deployment(operators, [*pairwise(names)], {"source": arrivals}, hosts=[host("h")], engine=engine, **changes)


def pressures(job: Deployment) -> dict[str, float]:
    found = answer(job, 60.0)
    return dict(zip(found.operators, found.offered_pressure[0], strict=True))


def test_while_results_leave_upstream_works_only_as_far_as_channels_have_room() -> None:
    """Of 400 records in a second, 20 have room while the results keep their window blocked; the others' work has to
    fit into the rest of the second."""
    job = windowed(1e-3, 20)
    results = simulated(job, horizon_s=20, warmup_s=5).metrics.throughput_per_s
    found = pressures(job)
    blocked = 1e-3 * results * (1.0 - 20 / results)
    assert found["n"] == pytest.approx(blocked, rel=0.02)
    assert found["m"] == pytest.approx(0.4 * (1.0 - 20 / 400) + blocked, rel=0.02)
    assert pressures(windowed(1e-3, 2000))["m"] == pytest.approx(0.4)


@pytest.mark.parametrize(("sink_s", "kept_up"), [(1.5e-3, True), (1.8e-3, False)])
def test_a_job_falls_behind_where_results_leave_upstream_too_little_time(sink_s: float, kept_up: bool) -> None:
    job = windowed(sink_s, 20)
    assert (max(pressures(job).values()) < 1.0) == kept_up
    assert simulated(job, horizon_s=30, warmup_s=10).metrics.backpressured != kept_up


@pytest.mark.parametrize(("how", "kept_up"), [("shared", False), ("rebalance", True)])
def test_a_common_queue_has_the_room_of_one_queue(how: str, kept_up: bool) -> None:
    """Of 330 results, a queue that four subtasks share takes 80, and a queue for each of them 320."""
    job = windowed(7e-3, 80, 2e-3, placement={"sink": {"h": 4}}, partitioning={"sink": how})
    assert (max(pressures(job).values()) < 1.0) == kept_up
    assert simulated(job, horizon_s=30, warmup_s=10).metrics.backpressured != kept_up
