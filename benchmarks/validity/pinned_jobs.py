"""Small jobs that between them use every law of simulation, a few seconds each."""

from __future__ import annotations

from typing import Any

from tests.twin.worlds import HOST
from twin.deployment import Deployment
from twin.profiles import STORM
from twin.spec import parse

RATE_PER_S = 400.0
FOUR = {"ints": 2, "strings": 2, "doubles": 0}
EDGE = {**HOST, "name": "g", "cpu_percent": 400, "latency_ms": 3, "bandwidth_mbps": 2}


def jobs() -> dict[str, Deployment]:
    """By name."""
    return {**_simple(), **_windowed(), **_joined(), **_spread(), **_disturbed()}


def _simple() -> dict[str, Deployment]:
    return {
        "union": _job([_source("a"), _source("b"), _map("m", "a", "b"), _sink("m")]),
        "union, charged": _job(
            [_source("a"), _source("b", columns=FOUR), _map("m", "a", "b", service_time_s=None), _sink("m")], rate=50
        ),
        "chain, charged": _job(
            [
                _source("a", None),
                _filter("f", "a"),
                _map("m", "f", selectivity=2, service_time_s=None),
                _sink("m", None),
            ],
            rate=50,
        ),
        "full channels": _job(
            [_source("a"), _map("m", "a", service_time_s=1e-4), _map("slow", "m", service_time_s=4e-3), _sink("slow")],
            engine={"channel_tuples": 8},
        ),
    }


def _windowed() -> dict[str, Deployment]:
    count = {"policy": "count", "size_tuples": 60, "slide_tuples": 20}
    time = {"policy": "time", "size_s": 0.3, "slide_s": 0.1}
    keyed = {"kind": "aggregate", "group_by": "int", "groups": 25}
    return {
        "count window": _job(
            [_source("a"), {**keyed, "name": "w", "window": count, "of": ("a",)}, _sink("w")], rate=100
        ),
        "time window": _job([_source("a"), {**keyed, "name": "w", "window": time, "of": ("a",)}, _sink("w")], rate=100),
    }


def _joined() -> dict[str, Deployment]:
    sides = [_source("a"), _source("b", columns=FOUR)]
    time = {"policy": "time", "size_s": 0.5}
    count = {"policy": "count", "size_tuples": 40, "slide_tuples": 10}
    join = {"kind": "join", "name": "j", "window": time, "selectivity": 0.01, "of": ("a", "b")}
    three = {**join, "of": ("a", "b", "c"), "window": count, "selectivity": 1e-3}
    return {
        "join, given": _job([*sides, {**join, "service_time_s": 1e-3}, _sink("j")], rate=100),
        "join, charged": _job([*sides, join, _sink("j")], rate=100),
        "join of three, charged": _job([*sides, _source("c"), three, _sink("j")], rate=60),
        "join, amplified": _job(
            [*sides, _without(join, "selectivity") | {"amplification": 0.5, "service_time_s": 1e-3}, _sink("j")],
            rate=100,
        ),
    }


def _spread() -> dict[str, Deployment]:
    queue = [_source("a"), _map("m", "a"), _sink("m")]
    crowded = {"cpu_percent": 150}
    links = [{"between": [name, "s"], "bandwidth_mbps": 1, "latency_ms": 4} for name in ("h", "g")]
    numa = {"sockets": [{"cores": 2}] * 2, "numa": {"latency_ns": [[0, 5000], [5000, 0]]}}
    grouped = _map("m", "a", key_groups=16, service_time_s=4e-3)
    return {
        "dealt": _job([_source("a"), _map("m", "a"), _map("n", "m"), _sink("n")], plan={"m": {"h": 3}, "n": {"h": 2}}),
        "crowded": _job(queue, plan={"m": {"h": 3}, "a": "h", "sink": "h"}, host=crowded),
        "two hosts": _job(queue, plan={"m": {"h": 1, "g": 2}}),
        "links": _job(queue, plan={"m": {"h": 1, "g": 1}}, links=links),
        "batches": _job(queue, plan={"m": {"h": 2}}, engine={"batch_tuples": 10, "flush_s": 0.05}),
        "hashed": _job(queue, plan={"m": {"h": 3}}, partitioning="hash"),
        "key groups": _job([queue[0], grouped, queue[2]], plan={"m": {"h": 3}}, keys={"m": {"zipf": 0.8}}),
        "shared queue": _job(queue, plan={"m": {"h": 3}}, partitioning="shared"),
        "sockets": _job(queue, plan={"m": ["h", "h/1"]}, host=numa, engine={"memory_factor": 1.0}),
    }


def _disturbed() -> dict[str, Deployment]:
    queue = [_source("a"), _map("m", "a"), _sink("m")]
    slow = _map("m", "a", service_time_s=4e-3)
    window = {"kind": "aggregate", "name": "w", "window": {"policy": "time", "size_s": 1}, "of": ("a",)}
    bursts = {"law": "bursty", "states": [{"rate_per_s": 100, "mean_s": 0.2}, {"rate_per_s": 900, "mean_s": 0.2}]}
    heap = {"base_mb": 0.3, "object_overhead": 8, "onset": 0.35, "crash": 1, "slowdown_at_crash": 4}
    noise = {"gc_interval_s": 0.3, "gc_pause_s": 0.02, "jitter_scv": 0.5}
    return {
        "heap": _job(
            [queue[0], {**window, "service_time_s": 1e-3}, _sink("w")], host={"ram_mb": 1}, engine={"memory": heap}
        ),
        "shed": _job([queue[0], slow, queue[2]], overflow="drop", engine={"channel_tuples": 16}),
        "noise": _job(queue, plan={"m": {"h": 1, "g": 1}}, engine={"noise": noise}),
        "bursts": _job(queue, rate=bursts),
    }


def _without(operator: dict[str, Any], name: str) -> dict[str, Any]:
    return {key: value for key, value in operator.items() if key != name}


def _source(name: str, service_time_s: float | None = 0.0, **more: Any) -> dict[str, Any]:
    return {"kind": "source", "name": name, "of": (), "service_time_s": service_time_s, **more}


def _filter(name: str, *of: str, **more: Any) -> dict[str, Any]:
    return {"kind": "filter", "name": name, "of": of, "selectivity": 0.5, **more}


def _map(name: str, *of: str, **more: Any) -> dict[str, Any]:
    return {"kind": "map", "name": name, "of": of, "service_time_s": 1e-3, "service_scv": 1.0, **more}


def _sink(of: str, service_time_s: float | None = 0.0) -> dict[str, Any]:
    return {"kind": "sink", "name": "sink", "of": (of,), "service_time_s": service_time_s}


def _job(
    operators: list[dict[str, Any]],
    rate: Any = RATE_PER_S,
    plan: dict[str, Any] | None = None,
    host: dict[str, Any] | None = None,
    engine: dict[str, Any] | None = None,
    links: list[dict[str, Any]] | None = None,
    keys: dict[str, Any] | None = None,
    **stream: Any,
) -> Deployment:
    """On one large host, if nothing else is said; `of` of an operator are its producers, `stream` is of all streams."""
    producers = {each["name"]: each["of"] for each in operators}
    law = rate if isinstance(rate, dict) else {"law": "poisson", "rate_per_s": rate}
    hosts = [{**HOST, **(host or {})}, EDGE]
    return parse(
        Deployment,
        {
            "query": {
                "operators": [_without(each, "of") for each in operators],
                "streams": [
                    {"producer": one, "consumer": name} | (stream if name == "m" else {})
                    for name, of in producers.items()
                    for one in of
                ],
            },
            "cluster": {"hosts": hosts} | ({"links": links, "switches": ["s"]} if links else {}),
            "plan": {"placement": dict.fromkeys(producers, "h") | (plan or {})},
            "workload": {
                "arrivals": {name: law for name, of in producers.items() if not of},
                "keys": keys or {},
            },
            "engine": STORM.model_dump(mode="json") | {"name": "pinned"} | (engine or {}),
        },
    )
