"""Notices a change of what simulation computes, by short runs of small jobs, pinned in pinned.json.

Between them the jobs use every law of simulation. Run `python -m benchmarks.validity --pin` after a change that is
meant.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

from benchmarks.validity.runs import result_of
from tests.twin.worlds import HOST, deployment
from twin.deployment import Deployment
from twin.overrides import put
from twin.profiles import STORM
from twin.scenario import RunSettings, Scenario

Parts = dict[str, Any]
FILE = Path(__file__).with_name("pinned.json")
SETTINGS = RunSettings(horizon_s=4, warmup_s=0.5, period_s=0.5, seed=1)
LATENCIES = ("processing_latency_s", "e2e_latency_s")
TOLD = ("throughput_per_s", *LATENCIES, "backpressure_per_s", "records_in", "records_out", "crashed", "operators")
"""Parts of a result that are pinned."""
RATE_PER_S = 400.0
FOUR = {"ints": 2, "strings": 2, "doubles": 0}
EDGE = {**HOST, "name": "g", "cpu_percent": 400, "latency_ms": 3, "bandwidth_mbps": 2}


def scenarios() -> dict[str, Scenario]:
    """Pinned jobs by name, as they are run."""
    jobs = {**_simple(), **_windowed(), **_joined(), **_spread(), **_disturbed()}
    return {name: Scenario.of(job, SETTINGS) for name, job in jobs.items()}


def measure(scenario: Scenario) -> dict[str, Any]:
    """Digest of a run, and two of its metrics for people who look."""
    result = result_of(scenario)
    told = {name: result[name] for name in TOLD}
    latency = result["e2e_latency_s"]
    return {
        "digest": hashlib.sha256(json.dumps(told, sort_keys=True).encode()).hexdigest()[:16],
        "throughput_per_s": result["throughput_per_s"],
        "e2e_latency_s": latency and latency["mean"],
    }


def pin() -> str:
    """Measures all jobs anew and writes the file; returns words on what is different now."""
    before = pinned() if FILE.exists() else {}
    now = {name: measure(each) for name, each in scenarios().items()}
    FILE.write_text(json.dumps(now, indent=1) + "\n", encoding="utf-8")
    other = [name for name, each in now.items() if before.get(name) != each]
    return f"{len(now)} jobs; other numbers: {', '.join(other) or 'none'}"


def pinned() -> dict[str, Any]:
    """Measurements by job, as the file holds them."""
    found: dict[str, Any] = json.loads(FILE.read_text(encoding="utf-8"))
    return found


def _simple() -> dict[str, Deployment]:
    filtered = {"kind": "filter", "name": "f", "of": ("a",), "selectivity": 0.5}
    return {
        "union": _job([_source("a"), _source("b"), _map("m", "a", "b"), _sink("m")]),
        "union, charged": _job(
            [_source("a"), _source("b", columns=FOUR), _map("m", "a", "b", service_time_s=None), _sink("m")], rate=50
        ),
        "chain, charged": _job(
            [_source("a", None), filtered, _map("m", "f", selectivity=2, service_time_s=None), _sink("m", None)],
            rate=50,
        ),
        "full channels": _job(
            [_source("a"), _map("m", "a", service_time_s=1e-4), _map("slow", "m", service_time_s=4e-3), _sink("slow")],
            engine={"channel_records": 8},
        ),
    }


def _windowed() -> dict[str, Deployment]:
    count = {"policy": "count", "size_records": 60, "slide_records": 20}
    time = {"policy": "time", "size_s": 0.3, "slide_s": 0.1}
    keyed = {"kind": "aggregate", "name": "w", "of": ("a",), "group_by": "int", "groups": 25}
    return {
        "count window": _job([_source("a"), {**keyed, "window": count}, _sink("w")], rate=100),
        "time window": _job([_source("a"), {**keyed, "window": time}, _sink("w")], rate=100),
    }


def _joined() -> dict[str, Deployment]:
    sides = [_source("a"), _source("b", columns=FOUR)]
    time = {"policy": "time", "size_s": 0.5}
    count = {"policy": "count", "size_records": 40, "slide_records": 10}
    join = {"kind": "join", "name": "j", "window": time, "of": ("a", "b")}
    given, amplified = {"selectivity": 0.01}, {"amplification": 0.5, "service_time_s": 1e-3}
    three = {**join, "of": ("a", "b", "c"), "window": count, "selectivity": 1e-3}
    return {
        "join, given": _job([*sides, {**join, **given, "service_time_s": 1e-3}, _sink("j")], rate=100),
        "join, charged": _job([*sides, {**join, **given}, _sink("j")], rate=100),
        "join of three, charged": _job([*sides, _source("c"), three, _sink("j")], rate=60),
        "join, amplified": _job([*sides, {**join, **amplified}, _sink("j")], rate=100),
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
        "links": _job(queue, plan={"m": {"h": 1, "g": 1}}, links=links, switches=["s"]),
        "batches": _job(queue, plan={"m": {"h": 2}}, engine={"batch_records": 10, "flush_s": 0.05}),
        "hashed": _job(queue, plan={"m": {"h": 3}}, partitioning="hash"),
        "key groups": _job([queue[0], grouped, queue[2]], plan={"m": {"h": 3}}, keys={"m": {"zipf": 0.8}}),
        "shared queue": _job(queue, plan={"m": {"h": 3}}, partitioning="shared"),
        "sockets": _job(queue, plan={"m": ["h", "h/1"]}, host=numa, engine={"memory_factor": 1.0}),
    }


def _disturbed() -> dict[str, Deployment]:
    queue = [_source("a"), _map("m", "a"), _sink("m")]
    shed = _job([queue[0], _map("m", "a", service_time_s=4e-3), queue[2]], engine={"channel_records": 16})
    window = {"kind": "aggregate", "name": "w", "window": {"policy": "time", "size_s": 1}, "of": ("a",)}
    bursts = {"law": "bursty", "states": [{"rate_per_s": 100, "mean_s": 0.2}, {"rate_per_s": 900, "mean_s": 0.2}]}
    heap = {"base_mb": 0.3, "object_overhead": 8, "onset": 0.35, "crash": 1, "slowdown_at_crash": 4}
    noise = {"gc_interval_s": 0.3, "gc_pause_s": 0.02, "jitter_scv": 0.5}
    return {
        "heap": _job(
            [queue[0], {**window, "service_time_s": 1e-3}, _sink("w")], host={"ram_mb": 1}, engine={"memory": heap}
        ),
        "shed": put(shed, "query.streams.a->m.overflow", "drop", "pinned"),
        "noise": _job(queue, plan={"m": {"h": 1, "g": 1}}, engine={"noise": noise}),
        "bursts": _job(queue, rate=bursts),
    }


def _source(name: str, service_time_s: float | None = 0.0, **more: Any) -> Parts:
    return {"kind": "source", "name": name, "of": (), "service_time_s": service_time_s, **more}


def _map(name: str, *of: str, **more: Any) -> Parts:
    return {"kind": "map", "name": name, "of": of, "service_time_s": 1e-3, "service_scv": 1.0, **more}


def _sink(of: str, service_time_s: float | None = 0.0) -> Parts:
    return {"kind": "sink", "name": "sink", "of": (of,), "service_time_s": service_time_s}


def _job(
    operators: list[Parts],
    rate: Any = RATE_PER_S,
    plan: Parts | None = None,
    host: Parts | None = None,
    engine: Parts | None = None,
    partitioning: str | None = None,
    **more: Any,
) -> Deployment:
    """Deployment on one large host by default. operators: with their producers as `of`. partitioning: that of `m`."""
    return deployment(
        [{key: value for key, value in each.items() if key != "of"} for each in operators],
        [(producer, each["name"]) for each in operators for producer in each["of"]],
        {each["name"]: rate for each in operators if not each["of"]},
        hosts=[{**HOST, **(host or {})}, EDGE],
        placement=plan,
        engine=STORM.model_dump(mode="json") | {"name": "pinned"} | (engine or {}),
        partitioning={"m": partitioning},
        **more,
    )
