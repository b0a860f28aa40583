"""Problems of the suite that ask for no placement, from a seed each: jobs whose load changes while they run, and key
groups on nodes that are loaded unevenly.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np

from optimizers.balancing.balance import Balance
from twin.randomness import random_stream
from twin.scenario import RunSettings, Scenario
from twin.spec import parse

RUN = RunSettings(horizon_s=240.0, warmup_s=20.0, period_s=10.0)
LOW = 0.5
"""Utilisation of the most costly operator at the start."""
WORKERS = 4
MEAN = 60.0
"""Mean load of a node, in percent."""
SKEWS = (0.2, 0.5, 1.0)
"""Standard deviations of the log of a group's load."""
SHARES = (0.01, 0.05, 0.2)
"""Shares of key groups that may migrate."""


def changing(seed: int) -> Scenario:
    """Job of a source, a costly map, a keyed window, a sink; its rate rises once, rises and falls, or climbs in steps.

    At first one replica of each operator is enough by far; at the peak the most costly one needs two to four.
    """
    rng = random_stream(seed, "suite")
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


def unbalanced(seed: int) -> Balance:
    """Balancing problem: 5 to 40 nodes of one or two capacities, unevenly loaded by 10 to 40 groups of lognormal load
    each."""
    rng = random_stream(seed, "suite")
    nodes, each = int(rng.integers(5, 41)), int(rng.integers(10, 41))
    load = np.exp(rng.choice(SKEWS) * rng.standard_normal((nodes, each)))
    load *= (MEAN * rng.uniform(0.5, 1.5, nodes) / load.sum(axis=1))[:, None]
    capacity = rng.choice([1.0, 2.0], nodes) if rng.random() < 0.5 else np.ones(nodes)
    budget = max(1, round(float(rng.choice(SHARES)) * nodes * each))
    home = np.repeat(np.arange(nodes), each)
    return Balance(loads={"cpu": load.ravel()}, home_g=home, capacity_h=capacity, budget=budget)
