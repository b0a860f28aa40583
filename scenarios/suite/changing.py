"""Jobs of the suite whose load changes while they run: from a seed to a scenario with rate changes and room to scale.

At first one replica of each operator is enough by far; at the peak the most costly one needs two to four.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

from twin.randomness import stream
from twin.scenario import RunSettings, Scenario
from twin.spec import parse

RUN = RunSettings(horizon_s=240.0, warmup_s=20.0, period_s=10.0)
LOW = 0.5
"""Utilisation of the most costly operator at first."""
WORKERS = 4


def changing(seed: int) -> Scenario:
    """A source, a costly map, a keyed window, a sink; the rate rises once, rises and falls, or climbs in steps."""
    rng = stream(seed, "suite")
    rate, window_s = float(rng.uniform(200, 600)), float(rng.choice([1.0, 2.0, 5.0]))
    peak = float(rng.uniform(2.5, 5.0))
    courses = ([(60, peak)], [(60, peak), (150, 1.0)], [(50, peak**0.5), (110, peak)])
    operators: list[dict[str, Any]] = [
        {"kind": "source", "name": "events", "columns": {"ints": 2, "strings": 1, "doubles": 1}},
        {"kind": "map", "name": "enrich", "service_time_s": LOW / rate},
        {
            "kind": "aggregate",
            "name": "count",
            "group_by": "int",
            "groups": 200,
            "window": {"policy": "time", "size_s": window_s},
            "service_time_s": float(rng.uniform(0.05, 0.4)) * LOW / rate,
        },
        {"kind": "sink", "name": "out"},
    ]
    names = [each["name"] for each in operators]
    hosts = [_host(f"worker-{n}") for n in range(1, WORKERS + 1)]
    document = {
        "name": f"changing-load-{seed}",
        "query": {
            "operators": operators,
            "streams": [{"producer": a, "consumer": b} for a, b in pairwise(names)],
        },
        "cluster": {"hosts": [_host("gateway"), *hosts]},
        "plan": {"placement": dict(zip(names, ("gateway", "worker-1", "worker-1", "gateway"), strict=True))},
        "workload": {"arrivals": {"events": {"law": "poisson", "rate_per_s": rate}}},
        "run": RUN.model_dump(mode="json"),
        "events": [
            {"kind": "rate-change", "at_s": float(at_s), "source": "events", "factor": factor}
            for at_s, factor in courses[int(rng.integers(len(courses)))]
        ],
    }
    return parse(Scenario, document, "suite")


def _host(name: str) -> dict[str, Any]:
    return {"name": name, "cpu_percent": 200, "ram_mb": 8000, "bandwidth_mbps": 1000, "latency_ms": 1}
