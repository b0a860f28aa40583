"""Recordings of arrivals, CSV and Parquet, replayed by a small job."""

from __future__ import annotations

from pathlib import Path
from random import Random

import numpy as np
import pyarrow as pa
from pyarrow import csv, parquet

from benchmarks.fuzz.mutate import NUMBERS, changed_bytes, changed_text
from benchmarks.fuzz.outcome import Outcome, of_command

JOB = """
name: replayed
query:
  operators:
  - {{kind: source, name: in, columns: {{ints: 2}}}}
  - {{kind: filter, name: keep, selectivity: 0.5, function: "<", literal_type: int}}
  - {{kind: sink, name: out}}
  streams: [{{producer: in, consumer: keep}}, {{producer: keep, consumer: out}}]
cluster: {{hosts: [{{name: h, cpu_percent: 400, ram_mb: 8000, bandwidth_mbps: 1000, latency_ms: 1}}]}}
plan: {{placement: {{in: h, keep: h, out: h}}}}
workload: {{arrivals: {{in: {{law: replay, path: {path}{more}}}}}}}
run: {{horizon_s: 20, warmup_s: 0, period_s: 5}}
"""
MORE = ("", "", ", loop: false", ", speed: 1.0e+6", ", rate_factor: 1.0e+6", ", start_s: 3", ", poisson: false")


def recording_case(random: Random, folder: Path) -> Outcome:
    """Times or rates, some of them senseless, in a file that may be damaged."""
    rows = random.choice((0, 1, 2, 3, 50, 500))
    rng = np.random.default_rng(random.randrange(2**32))
    columns = {"time_s": np.sort(rng.uniform(0, random.choice((1e-9, 1, 20, 1e9)), rows))}
    if random.random() < 0.6:
        columns["rate_per_s"] = rng.uniform(0, random.choice((1e-9, 10, 500, 1e6)), rows)
    for values in columns.values():
        for _ in range(random.choice((0, 0, 1, 3)) if rows else 0):
            values[rng.integers(rows)] = float(random.choice(NUMBERS))
    path = folder / random.choice(("r.csv", "r.parquet", "r.pq"))
    (csv.write_csv if path.suffix == ".csv" else parquet.write_table)(pa.table(columns), path)
    if random.random() < 0.4:
        path.write_bytes(changed_bytes(path.read_bytes(), random))
    elif random.random() < 0.3 and path.suffix == ".csv":
        path.write_text(changed_text(path.read_text(), random), encoding="utf-8", errors="surrogatepass")
    name = path.name if random.random() < 0.95 else random.choice(('"a\\0b"', "none.csv", ".", '""', "/dev/null"))
    (folder / "s.yaml").write_text(JOB.format(path=name, more=random.choice(MORE)))
    return of_command("run", str(folder / "s.yaml"))
