"""Jumbo records: a batch and a flush cost latency, and nothing else."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.twin.worlds import chain, queue, simulated
from twin.deployment import Deployment
from twin.errors import BadInput
from twin.profiles import FLINK, STORM


def engine(batch: int, flush_s: float | None, **more: Any) -> dict[str, Any]:
    return STORM.model_dump(mode="json") | {"name": "batched", "batch_records": batch, "flush_s": flush_s} | more


def job(batch: int, flush_s: float, rate: float, load: float, parallelism: int = 1, stages: int = 1) -> Deployment:
    """Chain of operators of that load each."""
    names = [f"work{k}" for k in range(stages)]
    middle = [{"kind": "map", "name": name, "service_time_s": load * parallelism / rate} for name in names]
    return chain(middle, rate, engine=engine(batch, flush_s), placement={name: {"h": parallelism} for name in names})


def ran(deployment: Deployment, **more: Any) -> Any:
    return simulated(deployment, **more).metrics


def test_an_idle_operator_waits_for_half_a_batch() -> None:
    """An idle source's evenly spaced records wait (b - 1) / (2 rate) at its port; the next port is filled at once."""
    idle = chain([], {"law": "constant", "rate_per_s": 500}, engine=engine(20, 1e4))
    metrics = ran(idle, horizon_s=20, warmup_s=2)
    assert metrics.processing_latency_s.mean == pytest.approx(19 / 2 / 500, rel=0.03)


def test_batches_do_not_move_the_throughput_of_saturated_operators() -> None:
    metrics = ran(job(40, 0.5, 1000, 1.5), horizon_s=20, warmup_s=5)
    assert metrics.throughput_per_s == pytest.approx(1000 / 1.5, rel=0.02)
    assert metrics.backpressured


def test_the_last_records_leave_with_the_flush() -> None:
    """Far fewer records than fit into a batch still arrive, half a period late at each of two ports."""
    law = {"law": "constant", "rate_per_s": 5}
    metrics = ran(chain([], law, engine=engine(1000, 0.4)), horizon_s=100)
    assert metrics.records_out == pytest.approx(500, abs=3)
    assert metrics.processing_latency_s.mean == pytest.approx(0.2, rel=0.1)


def test_a_batch_larger_than_the_channel_still_passes() -> None:
    job = queue(200, 0.5, 1, engine=engine(64, 1, channel_records=4))
    assert ran(job, horizon_s=20).throughput_per_s > 150


def test_flink_buffers_by_bytes_and_only_latency_feels_it() -> None:
    alone = {"buffer_bytes": None, "flush_s": None, "network_memory": None, "channel_records": 2048}
    plain = FLINK.model_copy(update={"name": "plain"} | alone)
    runs = [
        simulated(chain([], 2000, engine=profile.model_dump(mode="json")), horizon_s=20) for profile in (FLINK, plain)
    ]
    sources = [[row["numRecordsOut"] for row in run.operator_rows if row["kind"] == "source"] for run in runs]
    assert sources[0] == sources[1]
    buffered, passed = (
        np.cumsum([row["numRecordsIn"] for row in run.operator_rows if row["kind"] == "sink"]) for run in runs
    )
    assert len(passed) > 1 and (passed >= buffered).all(), "nothing is late but what a buffer holds"
    assert (passed - buffered <= FLINK.batch_of(100)).all()
    assert FLINK.batch_of(100) == 327
    latencies = [run.metrics.processing_latency_s for run in runs]
    assert latencies[0] is not None and latencies[1] is not None
    assert 0.02 < latencies[0].mean - latencies[1].mean < 0.11


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"batch_records": 5, "flush_s": None}, "batches need flush_s"),
        ({"batch_records": 5, "buffer_bytes": 100, "flush_s": 1}, "not both"),
        ({"batch_records": 0}, "greater than or equal to 1"),
        ({"flush_s": 0}, "greater than"),
    ],
)
def test_bad_batches_are_named(change: dict[str, Any], message: str) -> None:
    with pytest.raises(BadInput, match=message):
        chain([], 10, engine=engine(1, None) | change)
