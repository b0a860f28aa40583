"""Small random jobs on hosts with sockets, and every placement of them."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import numpy as np
from hypothesis import strategies as st

from tests.twin import worlds
from twin.deployment import Deployment
from twin.rates.numa_rates import NumaJob


def deployment(
    times_us: list[float],
    edges: list[tuple[int, int]],
    cores: list[int],
    latency_ns: list[list[float]],
    *,
    rate_per_s: float = 1e7,
    gains: list[float] | None = None,
    bytes_each: float = 64.0,
    limits: dict[str, Any] | None = None,
) -> Deployment:
    """Deployment of operators 0 (the source) to the last (the sink), one subtask each, on socket 0."""
    names = [f"op{number}" for number in range(len(times_us))]
    kinds = ["source", *["map"] * (len(names) - 2), "sink"]
    operators: list[dict[str, Any]] = []
    for number, (name, kind, time_us) in enumerate(zip(names, kinds, times_us, strict=True)):
        operators.append({"kind": kind, "name": name, "service_time_s": time_us * 1e-6, "record_bytes": bytes_each})
        if kind == "map" and gains:
            operators[-1]["selectivity"] = gains[number]
    limits = limits or {}
    host = {
        "name": "h",
        "cpu_percent": 100 * sum(cores),
        "ram_mb": 64_000,
        "bandwidth_mbps": 1000,
        "latency_ms": 1,
        "sockets": [{"cores": each} | limits.get("socket", {}) for each in cores],
        "numa": {"latency_ns": latency_ns} | limits.get("numa", {}),
    }
    streams, law = [(names[start], names[end]) for start, end in edges], {"law": "constant", "rate_per_s": rate_per_s}
    return worlds.deployment(operators, streams, {"op0": law}, [host], engine="brisk")


@st.composite
def small_jobs(draw: st.DrawFn) -> tuple[Deployment, np.ndarray]:
    """Strategy of jobs of 3 to 5 operators, with subtasks [o], at most 7 in all; 2 or 3 sockets."""
    count = draw(st.integers(3, 5))
    times = [draw(st.floats(0.2, 3.0)) for _ in range(count)]
    edges = [(draw(st.integers(0, number - 1)), number) for number in range(1, count - 1)]
    ends = set(range(count - 1)) - {start for start, _ in edges}
    edges += [(end, count - 1) for end in sorted(ends)]
    sockets = draw(st.integers(2, 3))
    cores = [draw(st.integers(1, 3)) for _ in range(sockets)]
    near, far = draw(st.sampled_from([(100.0, 100.0), (100.0, 400.0), (500.0, 2000.0)]))
    latency = [[0.0 if i == j else (near if abs(i - j) == 1 else far) for j in range(sockets)] for i in range(sockets)]
    gains = [draw(st.sampled_from([0.5, 1.0, 3.0])) for _ in range(count)]
    limits = draw(
        st.sampled_from(
            [{}, {"socket": {"bandwidth_gbps": 0.05}}, {"numa": {"bandwidth_gbps": [[0.03] * sockets] * sockets}}]
        )
    )
    job = deployment(times, edges, cores, latency, gains=gains, limits=limits)
    extra = draw(st.lists(st.integers(0, count - 1), max_size=7 - count))
    return job, np.ones(count, int) + np.bincount(extra, minlength=count).astype(int)


def every_placement(job: NumaJob, subtasks_o: np.ndarray) -> Iterator[np.ndarray]:
    """Yields all matrices of counts. [o, l]"""
    sockets = len(job.locations)

    def rows(count: int) -> list[list[int]]:
        return [
            [sum(place == socket for place in places) for socket in range(sockets)]
            for places in itertools.combinations_with_replacement(range(sockets), count)
        ]

    for chosen in itertools.product(*(rows(int(count)) for count in subtasks_o)):
        yield np.array(chosen, float)
