"""Jumbo tuples: what a batch and a flush cost in latency, and that they cost nothing else."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.twin.worlds import chain, queue
from twin.deployment import Deployment
from twin.engine.streams.batching import fill_wait_s
from twin.errors import BadInput
from twin.profiles import FLINK, STORM
from twin.scenario import RunSettings, Scenario
from twin.simulation import simulate


def engine(batch: int, flush_s: float | None, **more: Any) -> dict[str, Any]:
    return STORM.model_dump(mode="json") | {"name": "batched", "batch_tuples": batch, "flush_s": flush_s} | more


def job(batch: int, flush_s: float, rate: float, load: float, replicas: int = 1, stages: int = 1) -> Deployment:
    """A chain of operators of that load each."""
    names = [f"work{k}" for k in range(stages)]
    middle = [{"kind": "map", "name": name, "service_time_s": load * replicas / rate} for name in names]
    return chain(middle, rate, engine=engine(batch, flush_s), placement={name: {"h": replicas} for name in names})


def both(deployment: Deployment, **more: Any) -> list[Any]:
    runs = [simulate(Scenario.of(deployment, RunSettings(fidelity=fidelity, **more))) for fidelity in ("exact", "fast")]
    return [run.metrics for run in runs]


@given(rate=st.floats(1, 1000), batch=st.integers(2, 60), flush_s=st.floats(0.01, 5))
@settings(max_examples=40, deadline=None)
def test_the_wait_for_a_batch_is_brute_force(rate: float, batch: int, flush_s: float) -> None:
    """Evenly spaced tuples between two flushes, one by one."""
    times = [(k + 0.5) / rate for k in range(int(rate * flush_s))]
    if not times:
        return
    leaves = [
        times[k // batch * batch + batch - 1] if k // batch < len(times) // batch else flush_s
        for k in range(len(times))
    ]
    waits = [left - came for left, came in zip(leaves, times, strict=True)]
    assert fill_wait_s(rate, batch, flush_s) == pytest.approx(sum(waits) / len(waits), abs=1.5 / rate)


def test_an_idle_operator_waits_for_half_a_batch() -> None:
    """Evenly spaced tuples and no work: (b - 1) / (2 rate) at the source's port; the next one is filled at once."""
    exact, fast = both(
        chain([], {"law": "constant", "rate_per_s": 500}, engine=engine(20, 1e4)), horizon_s=20, warmup_s=2
    )
    for metrics in (exact, fast):
        assert metrics.processing_latency_s.mean == pytest.approx(19 / 2 / 500, rel=0.03)


@pytest.mark.parametrize(
    ("batch", "flush_s", "rate", "load", "replicas", "stages"),
    [(50, 1, 1000, 0.5, 1, 1), (50, 1, 1000, 0.2, 1, 2), (30, 1, 1000, 0.6, 2, 2), (1000, 0.1, 500, 0.5, 1, 2)],
)
def test_fast_agrees_with_exact(
    batch: int, flush_s: float, rate: float, load: float, replicas: int, stages: int
) -> None:
    exact, fast = both(job(batch, flush_s, rate, load, replicas, stages), horizon_s=20, warmup_s=4)
    assert fast.throughput_per_s == pytest.approx(exact.throughput_per_s, rel=0.04)
    assert fast.processing_latency_s.mean == pytest.approx(exact.processing_latency_s.mean, rel=0.15)
    assert fast.processing_latency_s.p95 == pytest.approx(exact.processing_latency_s.p95, rel=0.4)


@pytest.mark.parametrize("selectivity", [1, 2])
def test_bursts_of_whole_batches_stay_in_step(selectivity: int) -> None:
    """What comes in batches of 50 makes one or two batches of 50, with nothing left to wait for the next burst."""
    middle = [{"kind": "map", "name": "m", "service_time_s": 1e-3, "selectivity": selectivity}]
    batched = chain(middle, {"law": "constant", "rate_per_s": 100}, engine=engine(50, 3.0))
    found = [both(batched, horizon_s=60, warmup_s=5, seed=seed) for seed in range(3)]
    exact, fast = (sum(metrics.processing_latency_s.mean for metrics in each) for each in zip(*found, strict=True))
    assert fast == pytest.approx(exact, rel=0.2)  # 0.27 and 0.45 off, if they were not


def test_batches_of_a_few_large_tuples_fall_out_of_step() -> None:
    """Flushes leave part of a batch, so that those of 10 fill in the middle of a burst of 5: 0.8 of it in step."""
    middle = [{"kind": "map", "name": "m", "service_time_s": 5e-4, "tuple_bytes": 3000}]
    large = chain(middle, 800.0, engine="flink", placement={"m": {"h": 4}})
    operators = [
        each.model_copy(update={"tuple_bytes": 6000}) if each.is_source else each for each in large.query.operators
    ]
    job = large.model_copy(update={"query": large.query.model_copy(update={"operators": tuple(operators)})})
    exact, fast = both(job, horizon_s=15, warmup_s=3, period_s=3)
    assert fast.processing_latency_s.mean == pytest.approx(exact.processing_latency_s.mean, rel=0.1)
    assert fast.processing_latency_s.p50 == pytest.approx(exact.processing_latency_s.p50, rel=0.15)


def test_batches_do_not_move_the_throughput_of_saturated_operators() -> None:
    for metrics in both(job(40, 0.5, 1000, 1.5), horizon_s=20, warmup_s=5):
        assert metrics.throughput_per_s == pytest.approx(1000 / 1.5, rel=0.02)
        assert metrics.backpressured


def test_the_last_tuples_leave_with_the_flush() -> None:
    """Far fewer tuples than fit into a batch still arrive, half a period late at each of two ports."""
    law = {"law": "constant", "rate_per_s": 5}
    for metrics in both(chain([], law, engine=engine(1000, 0.4)), horizon_s=100):
        assert metrics.tuples_out == pytest.approx(500, abs=3)
        assert metrics.processing_latency_s.mean == pytest.approx(0.2, rel=0.1)


def test_a_batch_larger_than_the_channel_still_passes() -> None:
    job = queue(200, 0.5, 1, engine=engine(64, 1, channel_tuples=4))
    for metrics in both(job, horizon_s=20):
        assert metrics.throughput_per_s > 150


def test_flink_buffers_by_bytes_and_only_latency_feels_it() -> None:
    plain = FLINK.model_copy(update={"name": "plain", "buffer_bytes": None, "flush_s": None})
    runs = [
        simulate(Scenario.of(chain([], 2000, engine=profile.model_dump(mode="json")), RunSettings(horizon_s=20)))
        for profile in (FLINK, plain)
    ]
    rows = [[{k: v for k, v in row.items() if "Latency" not in k} for row in run.operator_rows] for run in runs]
    assert rows[0] == rows[1]
    assert FLINK.batch_of(100) == 327
    latencies = [run.metrics.processing_latency_s for run in runs]
    assert latencies[0] is not None and latencies[1] is not None
    assert 0.02 < latencies[0].mean - latencies[1].mean < 0.11


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"batch_tuples": 5, "flush_s": None}, "batches need flush_s"),
        ({"batch_tuples": 5, "buffer_bytes": 100, "flush_s": 1}, "not both"),
        ({"batch_tuples": 0}, "greater than or equal to 1"),
        ({"flush_s": 0}, "greater than"),
    ],
)
def test_bad_batches_are_named(change: dict[str, Any], message: str) -> None:
    with pytest.raises(BadInput, match=message):
        chain([], 10, engine=engine(1, None) | change)
