"""Which keys a replica has records of: its own where they are dealt by key, else any."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.twin.worlds import chain, simulated
from twin.deployment import Deployment

RATE_PER_S, KEYS, REPLICAS = 200.0, 30, 3


def _dealt(operator: dict[str, Any], partitioning: str) -> Deployment:
    window = operator | {"name": "window", "service_time_s": 0}
    places = {"window": ["h"] * REPLICAS}
    return chain([window], RATE_PER_S, placement=places, partitioning={"window": partitioning})


def _per_s(job: Deployment) -> np.ndarray:
    """Results a second, of as many runs as standard errors need."""
    runs = [simulated(job, horizon_s=22.5, warmup_s=2.5, period_s=1, seed=seed) for seed in range(12)]
    return np.array([run.metrics.throughput_per_s for run in runs])


@pytest.mark.parametrize(
    ("partitioning", "places", "copies"),
    [("hash", 1, 1), ("rebalance", REPLICAS, 1), ("broadcast", REPLICAS, REPLICAS)],
)
@pytest.mark.parametrize("kind", ["aggregate", "session"])
def test_results_are_of_all_keys_that_come_to_a_replica(kind: str, partitioning: str, places: int, copies: int) -> None:
    """A key's records come to so many replicas: as many Poisson streams, of which each has results of its own."""
    per_s, span_s = RATE_PER_S * copies / places / KEYS, 0.25
    operator: dict[str, Any] = {"kind": "session", "gap_s": span_s, "keys": KEYS}
    expected = KEYS * places * per_s * np.exp(-per_s * span_s)
    if kind == "aggregate":
        window = {"policy": "time", "size_s": span_s}
        operator = {"kind": "aggregate", "function": "count", "group_by": "int", "groups": KEYS, "window": window}
        expected = KEYS * places * -np.expm1(-per_s * span_s) / span_s
    found = _per_s(_dealt(operator, partitioning))
    assert abs(found.mean() - expected) < 6 * found.std(ddof=1) / np.sqrt(len(found))
