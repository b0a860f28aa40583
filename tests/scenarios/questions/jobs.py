"""Ordinary jobs that no paper has, small enough for tests; and an audience that hears nothing."""

from __future__ import annotations

import itertools
from typing import Any

from scenarios.executing import Lines
from twin.profiles import BRISK
from twin.scenario import Scenario
from twin.spec import parse

SILENT = Lines(lambda _text: None)
SHALLOW = BRISK.model_copy(update={"channel_records": 100}).model_dump(mode="json")


def host(name: str, cores: int = 2, **more: Any) -> dict[str, Any]:
    return {
        "name": name,
        "cpu_percent": 100 * cores,
        "ram_mb": 8000,
        "bandwidth_mbps": 1000,
        "latency_ms": 1,
    } | more


def shop(**run: Any) -> Scenario:
    """Job of orders and clicks; clicks are filtered, counted per page in windows by four subtasks, and joined."""
    data = {
        "name": "shop",
        "query": {
            "operators": [
                {"name": "orders", "kind": "source", "service_time_s": 1e-5},
                {"name": "clicks", "kind": "source", "service_time_s": 1e-5},
                {"name": "human", "kind": "filter", "selectivity": 0.5, "service_time_s": 5e-4},
                {
                    "name": "per-page",
                    "kind": "aggregate",
                    "group_by": "int",
                    "groups": 20,
                    "key_groups": 16,
                    "window": {"policy": "time", "size_s": 0.5},
                    "service_time_s": 1e-4,
                },
                {
                    "name": "match",
                    "kind": "join",
                    "key_type": "int",
                    "selectivity": 0.01,
                    "window": {"policy": "time", "size_s": 0.5},
                },
                {"name": "board", "kind": "sink", "service_time_s": 1e-5},
            ],
            "streams": [
                {"producer": "clicks", "consumer": "human"},
                {"producer": "human", "consumer": "per-page"},
                {"producer": "per-page", "consumer": "match"},
                {"producer": "orders", "consumer": "match"},
                {"producer": "match", "consumer": "board"},
            ],
        },
        "cluster": {"hosts": [host("edge-1"), host("w-1"), host("w-2"), host("w-3")]},
        "plan": {
            "placement": {
                "orders": "edge-1",
                "clicks": "edge-1",
                "human": ["w-1"],
                "per-page": {"w-1": 2, "w-2": 2},
                "match": "w-2",
                "board": "edge-1",
            }
        },
        "workload": {
            "arrivals": {
                "orders": {"law": "poisson", "rate_per_s": 50},
                "clicks": {"law": "poisson", "rate_per_s": 400},
            }
        },
        "run": {"horizon_s": 12, "warmup_s": 2, "period_s": 1} | run,
    }  # fmt: skip
    return parse(Scenario, data)


def queue(rate_per_s: float = 500, service_s: float = 1e-3, cores: int = 1, **run: Any) -> Scenario:
    """Job of one M/M/1 queue between a source and a sink that cost nothing."""
    data = {
        "name": "queue",
        "query": {
            "operators": [
                {"name": "in", "kind": "source", "service_time_s": 0},
                {"name": "work", "kind": "filter", "selectivity": 1, "service_time_s": service_s, "service_scv": 1},
                {"name": "out", "kind": "sink", "service_time_s": 0},
            ],
            "streams": [{"producer": "in", "consumer": "work"}, {"producer": "work", "consumer": "out"}],
        },
        "cluster": {"hosts": [host("big", 16, ram_mb=64_000, bandwidth_mbps=10_000), host("small", cores)]},
        "plan": {"placement": {"in": "big", "work": "big", "out": "big"}},
        "workload": {"arrivals": {"in": {"law": "poisson", "rate_per_s": rate_per_s}}},
        "run": {"horizon_s": 10, "warmup_s": 1, "period_s": 1} | run,
    }
    return parse(Scenario, data)


def ordinary(service_s, parallelism, partitions=None, shares=None, cores=16, rate_per_s=400, horizon_s=90):
    """Job of a source and an operator of so many subtasks, fed evenly, by keys or by partitions."""
    work = {"name": "work", "kind": "map", "service_time_s": service_s}
    feed = {"name": "in", "kind": "source", "service_time_s": 1e-6}
    if partitions:
        work = {"name": "work", "kind": "kafka-source", "partitions": partitions, "service_time_s": service_s}
    elif shares:
        work["key_groups"] = len(shares)
    chain = [work, {"name": "out", "kind": "sink"}] if partitions else [feed, work, {"name": "out", "kind": "sink"}]
    names = [operator["name"] for operator in chain]
    streams = [{"producer": a, "consumer": b} for a, b in itertools.pairwise(names)]
    if shares:
        streams[0]["partitioning"] = "hash"
    return {
        "name": "ordinary",
        "query": {"operators": chain, "streams": streams},
        "cluster": {"hosts": [host(name, cores, ram_mb=16_000, bandwidth_mbps=10_000) for name in ("big", "other")]},
        "plan": {"placement": {name: {"big": parallelism} if name == "work" else "other" for name in names}},
        "workload": {
            "arrivals": {names[0]: {"law": "poisson", "rate_per_s": rate_per_s}},
            "keys": {"work": {"shares": shares}} if shares else {},
        },
        "run": {"horizon_s": horizon_s, "warmup_s": 10, "period_s": 1},
    }
