"""Jobs that once got wrong answers, and small random ones with all of their plans."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np

from optimizers.interface import Problem
from optimizers.space import counts_of, locations
from tests.twin import worlds
from tests.twin.worlds import sink, source
from twin.plan import ExecutionPlan
from twin.randomness import random_stream
from twin.rates.model import RateModel
from twin.scenario import Scenario


def _host(name: str, cpu_percent: float = 200, **more: Any) -> dict[str, Any]:
    usual = {"ram_mb": 16_000, "bandwidth_mbps": 10_000, "latency_ms": 1}
    return usual | {"name": name, "cpu_percent": cpu_percent} | more


def _scenario(operators, streams, rates, hosts, placement, **more: Any) -> Scenario:
    return Scenario.of(worlds.deployment(operators, streams, rates, hosts=hosts, placement=placement, **more))


def asked(job: Scenario, objective: str = "processing_latency_s", **more: Any) -> Problem:
    """Problem of a plan for the job by the rate model."""
    return Problem(**{"scenario": job, "cost_model": RateModel(), "objective": objective} | more)


def hosts_of(plan: ExecutionPlan) -> set[str]:
    """Hosts that a plan uses."""
    return {place.host for name in plan.placement for place in plan.locations(name)}


def spread() -> Scenario:
    """Job of four subtasks that need three cores, on two hosts of two cores."""
    operators = [
        source("src", service_time_s=None),
        {"kind": "map", "name": "work", "service_time_s": 0.001},
        sink("out", service_time_s=None),
    ]
    return _scenario(
        operators,
        [("src", "work"), ("work", "out")],
        {"src": 3000},
        [_host("a"), _host("b")],
        {"src": "a", "work": {"a": 2, "b": 2}, "out": "b"},
        engine="flink",
    )


def ruled_out() -> Scenario:
    """Job of which only a host of a weaker kind has room for the sink."""
    operators = [
        source("s", service_time_s=0.9e-3, service_scv=0),
        sink("k", service_time_s=0.5e-3, service_scv=0),
    ]
    hosts = [_host("strong", 100, ram_mb=32_000), _host("weak", 60, ram_mb=2000)]
    return _scenario(operators, [("s", "k")], {"s": 1000}, hosts, {"s": "strong", "k": "weak"}, engine="brisk")


def _socketed(name: str, ram_mb: float) -> dict[str, Any]:
    far = [[0, 100, 400, 400], [100, 0, 400, 400], [400, 400, 0, 100], [400, 400, 100, 0]]
    sockets = {"sockets": [{"cores": 4}] * 4, "numa": {"latency_ns": far}}
    return _host(name, 1600, ram_mb=ram_mb, latency_ms=0.1, **sockets)


def first_host_too_small() -> Scenario:
    """Job that crashes on the first of two hosts."""
    operators = [
        source("s", service_time_s=1e-6, record_bytes=100),
        {"kind": "map", "name": "m", "selectivity": 2, "service_time_s": 3e-6, "record_bytes": 64},
        sink("k", service_time_s=5e-7),
    ]
    job = _scenario(
        operators,
        [("s", "m"), ("m", "k")],
        {"s": 10_000},
        [_socketed("h", 100), _socketed("g", 64_000)],
        {"s": "h", "m": "h", "k": "h"},
        engine="brisk",
    )
    return job.with_run(horizon_s=0.3, warmup_s=0.1, period_s=0.05)


def edge(*, pinned: bool = False) -> Scenario:
    """Job of sensors behind two gateways, whose results are wanted in a cloud."""
    operators = [
        source("sensors", **({"pinned": True} if pinned else {})),
        {"kind": "filter", "name": "clean", "selectivity": 0.8},
        {
            "kind": "aggregate",
            "name": "average",
            "window": {"policy": "time", "size_s": 10},
            "group_by": "int",
            "groups": 20,
        },
        sink("dashboard"),
    ]
    hosts = [_host("gw-1", 100, ram_mb=2000), _host("gw-2", 100, ram_mb=2000), _host("cloud", 800, ram_mb=32_000)]
    return _scenario(
        operators,
        [("sensors", "clean"), ("clean", "average"), ("average", "dashboard")],
        {"sensors": 10_000},
        hosts,
        {"sensors": {"gw-1": 5, "gw-2": 5}, "clean": {"gw-1": 5, "gw-2": 5}, "average": "cloud", "dashboard": "cloud"},
        engine="flink",
    )


def ends_apart(hosts: int) -> Scenario:
    """Chain on equal hosts, each with room for all, from the last to a sink pinned to the first: whatever goes there
    alone, or with a neighbour, sends no less over the network."""
    operators = [
        source("src", service_time_s=1e-4),
        {"kind": "map", "name": "m", "service_time_s": 2e-3},
        {"kind": "filter", "name": "f", "service_time_s": 1e-3, "selectivity": 0.5},
        sink("snk", pinned=True, service_time_s=1e-4),
    ]
    names = [f"h{number}" for number in range(hosts)]
    last = names[-1]
    return _scenario(
        operators,
        [("src", "m"), ("m", "f"), ("f", "snk")],
        {"src": 100},
        [_host(name, 100) for name in names],
        {"src": last, "m": {last: 2}, "f": {last: 1, "h0": 1}, "snk": "h0"},
    )


def small_job(seed: int, sockets: int = 1) -> Scenario:
    """Job source -> map -> sink on two or three hosts, some subtasks, at any load, from almost none to too much."""
    rng = random_stream(seed, "small-job")
    parts = {"sockets": [{"cores": 2}] * sockets, "numa": {"latency_ns": _far(sockets)}} if sockets > 1 else {}
    names = ("a", "b", "c")[: 2 if parts else int(rng.integers(2, 4))]
    hosts = [
        _host(
            name,
            200 * sockets if parts else float(rng.choice([60, 100, 200, 400])),
            ram_mb=float(rng.choice([100, 2000, 16_000, 64_000])),
            latency_ms=float(rng.choice([0.1, 1, 20])),
            **parts,
        )
        for name in names
    ]
    counts = {"s": 1, "m": int(rng.integers(1, 4)), "k": 1}
    placement = {name: rng.choice(names, count).tolist() for name, count in counts.items()}
    rate_per_s = float(rng.choice([100, 1000, 3000]))
    each_s = float(rng.uniform(0.05, 1.2)) / rate_per_s * (1 if rng.random() < 0.8 else 3)
    operators = [
        source("s", service_time_s=each_s * 0.3),
        {"kind": "map", "name": "m", "service_time_s": each_s},
        sink("k", service_time_s=each_s * 0.2),
    ]
    engine = str(rng.choice(["storm", "flink", "brisk"]))
    return _scenario(operators, [("s", "m"), ("m", "k")], {"s": rate_per_s}, hosts, placement, engine=engine)


def _far(sockets: int) -> list[list[float]]:
    return [[0.0 if one == other else 200.0 for other in range(sockets)] for one in range(sockets)]


def ways(job: Scenario) -> list[list[np.ndarray]]:
    """All placements of the given number of subtasks, for each operator, as counts by place."""
    places = len(locations(job))
    return [
        [np.bincount(each, minlength=places) for each in itertools.combinations_with_replacement(range(places), count)]
        for count in counts_of(job, job.plan).sum(axis=1).tolist()
    ]


def brute_force(job: Scenario) -> np.ndarray:
    """All plans with the given numbers of subtasks. [N, O, L]"""
    return np.array([np.stack(each) for each in itertools.product(*ways(job))])
