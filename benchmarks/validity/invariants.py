"""The same seed gives the same trace, bit by bit, whatever the hash seed of Python and the number of workers."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import pyarrow as pa

from twin.trace import TABLES, read_table

ROOT = Path(__file__).resolve().parents[2]
RUNS = {"small": 8, "full": 48}
HORIZON_S = {"small": 30, "full": 240}
WAYS = (("local[1]", "0"), ("local[2]", "4242"), ("local[2]", "random"))
"""Spark master and PYTHONHASHSEED of the corpora that must be equal."""


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
        [sys.executable, "-c", "from streamtwin.cli.app import main; main()", "corpus", str(out), *options, "--json"],
        env={**os.environ, "PYTHONHASHSEED": hash_seed, "PYTHONPATH": str(ROOT)},
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    summary: dict[str, Any] = json.loads(done.stdout)
    return summary


def _digest(corpus: Path) -> tuple[str, int]:
    """Over all tables in the order of the runs; the CPU time that a run took is no part of what it says. Rows."""
    digest, size = hashlib.sha256(), 0
    chunks = sorted(path.parent for path in corpus.rglob("runs.parquet"))
    for name in TABLES:
        table = pa.concat_tables([read_table(chunk, name) for chunk in chunks])
        rows = [{key: value for key, value in row.items() if key != "cpu_s"} for row in table.to_pylist()]
        rows.sort(key=lambda row: str(row["run"]))  # stable: the rows of a run keep their order
        digest.update(json.dumps(rows, sort_keys=True).encode())
        size += len(rows)
    return digest.hexdigest()[:16], size
