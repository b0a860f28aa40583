"""Invariants to the last bit: equal traces of compiled code and of the same text in plain Python, of pinned jobs and of
demanding ones; and equal traces of the same seed, whatever Python's hash seed and the number of workers."""

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

from benchmarks.validity.pins import scenarios
from scenarios.spaces.families import drawn
from tests.twin.machine.digests import digest_of
from tests.twin.machine.runs import outcome
from twin.scenario import Scenario
from twin.trace import TABLES, read_table

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
