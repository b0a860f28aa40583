"""Invariants to the last bit: pinned jobs, compiled code beside plain Python, and the same seed everywhere."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa

from benchmarks.validity.runs import result_of
from scenarios.spaces.registry import drawn
from tests.twin.machine.digests import digest_of
from tests.twin.machine.runs import outcome
from tests.twin.worlds import HOST, deployment
from twin.deployment import Deployment
from twin.profiles import STORM
from twin.scenario import RunSettings, Scenario, put
from twin.trace import TABLES, read_table

# pins ----------------------------------------------------------------------------------------------------------------
# Notices a change of what simulation computes, by short runs of small jobs, pinned in pinned.json.
#
# Between them the jobs use every law of simulation. Run `python -m benchmarks.validity --pin` after a change that is
# meant.


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


# equal traces --------------------------------------------------------------------------------------------------------
# Invariants to the last bit: equal traces of compiled code and of the same text in plain Python, of pinned jobs and of
# demanding ones; and equal traces of the same seed, whatever Python's hash seed and the number of workers.


ROOT = Path(__file__).resolve().parents[2]
RUNS = {"small": 8, "full": 48}
HORIZON_S = {"small": 30, "full": 240}
WAYS = (("local[1]", "0"), ("local[2]", "4242"), ("local[2]", "random"))
"""Spark master and PYTHONHASHSEED of the corpora that must be equal."""
RANDOM_JOBS = {"small": 5, "full": 60}
SPACE, SEED = "demanding", 98
PLAIN_S = 10.0
"""Simulated seconds of each job that plain Python repeats, which is some hundred times slower."""


def judged(scale: str) -> Iterator[tuple[str, str, Scenario]]:
    """Sort, name and job: small ones of every kind, and random ones."""
    for name, scenario in scenarios().items():
        yield "small, of every kind", name, scenario
    for index in range(RANDOM_JOBS[scale]):
        scenario = drawn(SPACE, SEED, index)
        yield "random ones", scenario.name, scenario


def plain_table(scale: str) -> list[tuple[str, ...]]:
    """Header and rows: one for all jobs of a sort that show no difference, and one for each job that does."""
    found = list(judged(scale))
    jobs = [each.with_run(horizon_s=min(each.run.horizon_s, PLAIN_S)) for *_, each in found]
    alike: dict[str, list[tuple[int, float, float]]] = {}
    different: list[tuple[str, ...]] = []
    for (sort, name, _), job, (digest, plain_s) in zip(found, jobs, _in_plain_python(jobs), strict=True):
        mine = outcome(job)
        if mine.run is None or digest != digest_of(mine):
            different.append((name, "1", "", "", "", "**no**"))
        else:
            alike.setdefault(sort, []).append((mine.run.metrics.records_out, plain_s, mine.run.cpu_s))
    rows = [("jobs", "", "results", "plain Python (CPU s)", "compiled (CPU s)", "kept")]
    for sort, each in alike.items():
        results, plain_s, compiled_s = map(sum, zip(*each, strict=True))
        rows.append((sort, str(len(each)), f"{results:,}", f"{plain_s:.2f}", f"{compiled_s:.2f}", "yes"))
    return [*rows, *different]


def _in_plain_python(jobs: list[Scenario]) -> list[tuple[str, float]]:
    """Digest of each run, and its CPU seconds."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.twin.machine.digests"],
        input="\n".join(job.model_dump_json(exclude_none=True) for job in jobs),
        env={**os.environ, "NUMBA_DISABLE_JIT": "1", "PYTHONPATH": str(ROOT)},
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    return [(digest, float(cpu_s)) for digest, cpu_s in map(str.split, done.stdout.splitlines())]


def determinism_table(scale: str) -> list[tuple[str, ...]]:
    """Header and rows: the same corpus made in several ways, with a digest of all its tables."""
    rows: list[tuple[str, ...]] = [("workers", "PYTHONHASHSEED", "runs", "rows", "digest of all tables", "kept")]
    digests: list[str] = []
    for master, hash_seed in WAYS:
        with tempfile.TemporaryDirectory() as folder:
            out = Path(folder) / "corpus"
            summary = _corpus(out, master, hash_seed, scale)
            digest, size = _digest(out)
        digests.append(digest)
        kept = "yes" if digest == digests[0] and not summary["failed"] else "**no**"
        rows.append((master, hash_seed, str(summary["runs"]), str(size), digest, kept))
    return rows


def _corpus(out: Path, master: str, hash_seed: str, scale: str) -> dict[str, Any]:
    options = ["--runs", str(RUNS[scale]), "--horizon", str(HORIZON_S[scale]), "--master", master]
    done = subprocess.run(
        [sys.executable, "-m", "streamtwin", "corpus", str(out), *options, "--json"],
        env={**os.environ, "PYTHONHASHSEED": hash_seed, "PYTHONPATH": str(ROOT)},
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    summary: dict[str, Any] = json.loads(done.stdout)
    return summary


def _digest(corpus: Path) -> tuple[str, int]:
    """Digest of all tables in the order of the runs, without CPU times; and the number of rows."""
    digest, size = hashlib.sha256(), 0
    chunks = sorted(path.parent for path in corpus.rglob("runs.parquet"))
    for name in TABLES:
        table = pa.concat_tables([read_table(chunk, name) for chunk in chunks])
        rows = [{key: value for key, value in row.items() if key != "cpu_s"} for row in table.to_pylist()]
        rows.sort(key=lambda row: str(row["run"]))  # stable: the rows of a run keep their order
        digest.update(json.dumps(rows, sort_keys=True).encode())
        size += len(rows)
    return digest.hexdigest()[:16], size
