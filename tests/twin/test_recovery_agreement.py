"""How old results are after a failure: fast runs against exact ones."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.twin.worlds import chain, deployment, sink, source
from twin.deployment import Deployment
from twin.events import Failure
from twin.scenario import RunSettings, Scenario
from twin.simulation import simulate


def grouped(policy: str, size: float, slide: float | None = None) -> dict[str, Any]:
    unit = "s" if policy == "time" else "tuples"
    slides = {} if slide is None else {f"slide_{unit}": slide}
    about = {"kind": "aggregate", "name": "a", "group_by": "int", "groups": 20, "service_time_s": 1e-4}
    return about | {"window": {"policy": policy, f"size_{unit}": size, **slides}}


CLUSTER = [
    {"name": f"h{k}", "cpu_percent": 400, "ram_mb": 64_000, "bandwidth_mbps": 100, "latency_ms": 5} for k in range(3)
]


def on_hosts(middle: list[dict[str, Any]], rate: float = 200) -> Deployment:
    places = {"source": "h0", "sink": "h0"} | {each["name"]: f"h{1 + k % 2}" for k, each in enumerate(middle)}
    return chain(middle, rate, hosts=CLUSTER, placement=places)


def joined(size_s: float, slide_s: float) -> Deployment:
    about = {"kind": "join", "name": "j", "key_type": "int", "service_time_s": 1e-4, "selectivity": 0.01}
    return deployment(
        [
            source("l"),
            source("r"),
            about | {"window": {"policy": "time", "size_s": size_s, "slide_s": slide_s}},
            sink(),
        ],
        [("l", "j"), ("r", "j"), ("j", "sink")],
        {"l": 60, "r": 60},
        hosts=CLUSTER,
        placement={"l": "h0", "r": "h1", "j": "h2", "sink": "h0"},
    )


MAP = {"kind": "map", "name": "m", "service_time_s": 5e-4}
JOBS: dict[str, tuple[Deployment, list[float]]] = {
    # with when h1 fails, for how long, and the checkpoints' interval. No window ends within two segments before a
    # failure: a fast run looks at it that much later, so its results would be lost
    "maps": (on_hosts([MAP, MAP | {"name": "n", "service_time_s": 1e-3}]), [6.5, 3, 2]),
    "a map that is full": (on_hosts([MAP | {"service_time_s": 4e-3}]), [9.7, 0.5, 4]),
    "a tumbling window": (on_hosts([MAP, grouped("time", 2)]), [6.5, 3, 2]),
    "a long window": (on_hosts([MAP, grouped("time", 9)]), [6, 3, 3]),
    "a sliding window": (on_hosts([MAP, grouped("time", 4, 1)]), [9.7, 2, 4]),
    "a count window": (on_hosts([MAP, grouped("count", 50)]), [6.5, 3, 2]),
    "a sliding count window": (on_hosts([MAP, grouped("count", 400, 20)]), [6, 3, 3]),
    "a join": (joined(6, 2), [6.5, 3, 2]),
}
JOBS["replicas that meet"] = (
    chain(
        [MAP, grouped("time", 4, 1)],
        200,
        hosts=[each | {"cpu_percent": 100} for each in CLUSTER],
        placement={"source": ["h0", "h2"], "m": ["h0", "h1", "h2"], "a": ["h0", "h1"], "sink": ["h1", "h2"]},
    ),
    [6.5, 6, 2],
)
SEGMENTS = 400
HORIZON_S = 20.0


@pytest.mark.slow
@pytest.mark.parametrize("name", JOBS)
def test_fast_runs_age_results_like_exact_ones(name: str) -> None:
    """Resolution: one segment more or less of what is read again, and in windows a segment's length."""
    job, (at_s, down_s, interval_s) = JOBS[name]
    failure = Failure(at_s=at_s, host="h1", recover_after_s=down_s)
    found: dict[str, np.ndarray] = {}
    about = {"horizon_s": HORIZON_S, "period_s": 1.0, "segments": SEGMENTS, "checkpoint_interval_s": interval_s}
    for fidelity in ("exact", "fast"):
        runs = [RunSettings(**about, fidelity=fidelity, seed=seed) for seed in range(12)]
        metrics = [simulate(Scenario.of(job, each, [failure])).metrics for each in runs]
        found[fidelity] = np.array(
            [(each.processing_latency_s.mean, each.e2e_latency_s.mean) for each in metrics]  # type: ignore[union-attr]
        )
    exact, fast = found["exact"], found["fast"]
    error_s = np.sqrt((exact.var(axis=0, ddof=1) + fast.var(axis=0, ddof=1)) / 12)
    segment_s = HORIZON_S / SEGMENTS
    resolution_s = segment_s * (at_s + down_s - at_s // interval_s * interval_s) / HORIZON_S
    if "map" not in name:
        resolution_s += segment_s
    assert (np.abs(fast.mean(axis=0) - exact.mean(axis=0)) < 4 * error_s + resolution_s).all(), (exact, fast)
    assert exact[:, 1].mean() > exact[:, 0].mean()
