"""Capacity in buffers: channels of a pair of replicas, and what all channels into a replica share."""

from __future__ import annotations

import numpy as np
import pytest

from tests.twin.worlds import deployment, sink, source
from twin.deployment import Deployment
from twin.errors import BadInput
from twin.job import compile
from twin.profiles import FLINK, EngineProfile
from twin.rates.coefficients import PlacementCoefficients
from twin.rates.model import RateModel
from twin.scenario import RunSettings, Scenario
from twin.simulation import simulate
from twin.spec import parse

BUFFER = 900.0
SIZED = {"tuple_bytes": 90}


def engine(**changes: object) -> EngineProfile:
    plain = FLINK.model_dump(mode="json") | {"buffer_bytes": BUFFER, "flush_s": 0.01, "service_scv": 0.0}
    return parse(EngineProfile, plain | changes)


def overloaded(profile: EngineProfile, sources: int, **more: object) -> Deployment:
    """A map that takes 100 tuples/s of the 400 that are offered, from so many replicas of the source."""
    slow = {"kind": "map", "name": "map", "service_time_s": 0.01, **SIZED}
    placed = {"source": ["h"] * sources, "map": ["h"]}
    return deployment(
        [source(**SIZED), slow, sink()],
        [("source", "map"), ("map", "sink")],
        {"source": 400},
        placement=placed,
        engine=profile.model_dump(mode="json"),
        **more,
    )


@pytest.mark.parametrize(
    ("sources", "channels", "gate", "room"), [(1, 2.0, 8.0, 100), (4, 2.0, 8.0, 160), (4, 3.5, 0.0, 140)]
)
def test_what_channels_hold_is_what_they_would_as_a_number_of_tuples(
    sources: int, channels: float, gate: float, room: int
) -> None:
    """Buffers of ten tuples. The same run, and the same answer of the rate model, as with that many tuples."""
    by_buffers = overloaded(engine(channel_buffers=channels, gate_buffers=gate), sources)
    by_tuples = overloaded(engine(channel_tuples=room), sources)
    assert [edge.room for edge in compile(by_buffers).edges if edge.ends[0] == "source"] == [room]
    settings = RunSettings(horizon_s=20, warmup_s=10)
    told, plain = (simulate(Scenario.of(each, settings)) for each in (by_buffers, by_tuples))
    assert told.metrics.processing_latency_s is not None and plain.metrics.processing_latency_s is not None
    assert told.metrics.processing_latency_s.mean == pytest.approx(plain.metrics.processing_latency_s.mean, rel=0.02)
    # Little: a tuple waits for all before it at 100 tuples/s
    assert told.metrics.processing_latency_s.mean == pytest.approx(room / 100, rel=0.1)
    answers = [RateModel(horizon_s=1000).answer(each, [each.plan]) for each in (by_buffers, by_tuples)]
    assert answers[0].channel_s == pytest.approx(answers[1].channel_s)
    assert answers[0].delivered == pytest.approx(answers[1].delivered)


def test_the_rate_model_counts_the_channels_of_each_plan() -> None:
    """More replicas of the source fill more channels, each plan of one call by itself."""
    job = overloaded(engine(channel_buffers=2.0), 1)
    alike = {"map": ("h",), "sink": ("h",)}
    plans = [job.plan.with_placement({"source": ("h",) * count, **alike}) for count in (1, 2, 4)]
    waits = RateModel(horizon_s=1000).answer(job, plans).channel_s[:, 1]
    alone = [RateModel(horizon_s=1000).answer(job, [plan]).channel_s[0, 1] for plan in plans]
    assert waits == pytest.approx(np.array(alone))
    assert waits[1] == pytest.approx(2 * waits[0], rel=0.1) and waits[2] == pytest.approx(4 * waits[0], rel=0.1)


def test_a_paired_stream_has_one_channel() -> None:
    job = overloaded(engine(channel_buffers=2.0, gate_buffers=1.0), 2)
    streams = [each.model_copy(update={"partitioning": "forward"}) for each in job.query.streams]
    query = job.query.model_copy(update={"streams": tuple(streams)})
    plan = job.plan.with_placement({"source": ("h", "h"), "map": ("h", "h"), "sink": ("h", "h")})
    paired = job.model_copy(update={"query": query, "plan": plan})
    assert [edge.room for edge in compile(paired).edges if edge.ends[0] == "source"] == [30]
    coefficients = PlacementCoefficients.of(paired)
    assert coefficients.streams.credits_per_s[coefficients.names.index("source")] > 0


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"gate_buffers": 8}, "gate_buffers need channel_buffers"),
        ({"channel_buffers": 2, "buffer_bytes": None, "batch_tuples": 10}, "need buffer_bytes"),
        ({"channel_buffers": 0}, "channels hold nothing"),
        ({"channel_buffers": -1}, "greater than or equal to 0"),
    ],
)
def test_buffers_that_cannot_be(changes: dict[str, object], words: str) -> None:
    with pytest.raises(BadInput, match=words):
        engine(**changes)
