"""Disturbances of a run, all of which can be switched off."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.twin.worlds import HOST, chain, simulated
from twin.deployment import Deployment
from twin.errors import BadInput
from twin.profiles import STORM
from twin.randomness import random_stream
from twin.world.memory import RunMemory
from twin.world.parts import Jitter


def job(rate: Any, load: float, noise: dict[str, Any], service_scv: float = 1.0, **more: Any) -> Deployment:
    per_s = rate["rate_per_s"] if isinstance(rate, dict) else rate
    middle = {"kind": "map", "name": "work", "service_time_s": load / per_s, "service_scv": service_scv}
    engine = STORM.model_dump(mode="json") | {"name": "noisy", "noise": noise}
    return chain([middle], rate, engine=engine, **more)


def ran(deployment: Deployment, **more: Any) -> Any:
    return simulated(deployment, **more).metrics


PAUSES = {"gc_interval_s": 2, "gc_pause_s": 0.1}


def test_pauses_take_their_share_of_a_saturated_operator() -> None:
    run = simulated(job(300, 1.5, PAUSES), horizon_s=100, warmup_s=5)
    assert run.metrics.throughput_per_s == pytest.approx(200 * 2 / 2.1, rel=0.03)


def test_a_shared_processor_pauses_too() -> None:
    """A shared processor pauses, too: two saturated operators and their neighbours on one core."""
    host = HOST | {"cpu_percent": 100}
    run = simulated(job(300, 1.5, PAUSES, hosts=[host]), horizon_s=100, warmup_s=5)
    assert run.metrics.throughput_per_s == pytest.approx(200 * 2 / 2.1, rel=0.03)


def test_records_wait_for_pauses_as_fluids_do() -> None:
    """Evenly spaced records with equal services wait for pauses alone: d^2 / (2 (1 - load)) for each, end to end."""
    metrics = ran(job({"law": "constant", "rate_per_s": 200}, 0.5, PAUSES, 0.0), horizon_s=300)
    expected_s = 0.1**2 / (2 * 2.1 * 0.5) + 0.5 / 200
    assert metrics.e2e_latency_s.mean == pytest.approx(expected_s, rel=0.2)


def test_without_noise_a_queue_of_evenly_spaced_records_never_waits() -> None:
    noisy = PAUSES | {"jitter_scv": 0.5}
    hosts = [HOST, HOST | {"name": "g", "latency_ms": 20}]
    deployment = job({"law": "constant", "rate_per_s": 100}, 0.9, noisy, 2.0, hosts=hosts, placement={"source": "g"})
    latency = ran(deployment, horizon_s=20, noise=False).processing_latency_s
    assert latency.p99 <= latency.mean * 1.03
    assert latency.mean == pytest.approx(0.02 + 0.009, rel=0.03)


def test_jitter_has_the_moments_it_states() -> None:
    memory = RunMemory(0)
    jitter = Jitter(memory, random_stream(0, "jitter"), 0.3)
    factors = np.array([jitter.factor(0.013 * k) for k in range(200_000)])
    assert factors.mean() == pytest.approx(1, rel=0.02)
    assert factors.var() == pytest.approx(0.3, rel=0.05)
    assert factors.min() >= 0


def test_jitter_spreads_latencies() -> None:
    hosts = [HOST | {"latency_ms": 50}, HOST | {"name": "g"}]
    jittery, steady = (
        chain([], 100, engine=STORM.model_dump(mode="json") | {"name": "jittery", "noise": {"jitter_scv": scv}},
              hosts=hosts, placement={"sink": "g"})
        for scv in (0.5, 0.0)
    )  # fmt: skip
    spread, calm = (ran(each, horizon_s=100).processing_latency_s for each in (jittery, steady))
    assert spread.mean == pytest.approx(calm.mean, rel=0.05)
    assert spread.p95 > 1.8 * calm.p95


@pytest.mark.parametrize(
    ("noise", "message"),
    [
        ({"gc_interval_s": 5}, "needs both"),
        ({"gc_pause_s": 1}, "needs both"),
        ({"gc_interval_s": 0, "gc_pause_s": 1}, "greater than"),
        ({"jitter_scv": -1}, "greater than or equal to 0"),
    ],
)
def test_bad_noise_is_named(noise: dict[str, Any], message: str) -> None:
    with pytest.raises(BadInput, match=message):
        job(10, 0.5, noise)
