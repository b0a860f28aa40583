"""Import cases: files of other tools, changed. They are recordings of arrivals, graphs of runs, saved answers of Flink,
hwloc's XML and tables of samples."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from random import Random

import numpy as np
import pyarrow as pa
from pyarrow import csv, parquet

from benchmarks.fuzz.mutate import NUMBERS, changed_bytes, changed_data, changed_text, other_number
from benchmarks.fuzz.outcome import Outcome, of_command, of_import
from scenarios.files import scenario_file
from tests.scenarios.calibration.test_points import JOB
from tests.streamtwin.importers.flink_cluster import CONFIG, detail, job_at, managers, markers, plan
from tests.streamtwin.importers.test_hardware import MLC, NUMACTL, V1, V2
from tests.streamtwin.importers.test_metrics import COLUMNS, samples
from tests.streamtwin.test_run_graph import HOSTS, JOINED, LINEAR

REPLAYED = """
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
ANSWERS = {
    "job_jobs_id.json": job_at(100.0),
    "job_jobs_id_first.json": job_at(60.0),
    "job_jobs_id_plan.json": plan(),
    "taskmanagers.json": managers(),
    "overview.json": {"flink-version": "2.3.0"},
    "jobmanager_config.json": CONFIG,
    "job_v1_latency_markers.json": markers(),
    **{f"job_v{number}_detail.json": detail(number) for number in range(4)},
}


def recording_case(random: Random, folder: Path) -> Outcome:
    """Runs a job with a recording of times or rates, some of them senseless, in a file that may be damaged."""
    rows = random.choice((0, 1, 2, 3, 50, 500))
    rng = np.random.default_rng(random.randrange(2**32))
    columns = {"time_s": np.sort(rng.uniform(0, random.choice((1e-9, 1, 20, 1e9)), rows))}
    if random.random() < 0.6:
        columns["rate_per_s"] = rng.uniform(0, random.choice((1e-9, 10, 500, 1e6)), rows)
    for values in columns.values():
        for _ in range(random.choice((0, 0, 1, 3)) if rows else 0):
            values[rng.integers(rows)] = float(random.choice(NUMBERS))
    path = folder / random.choice(("r.csv", "r.parquet", "r.pq"))
    _write(pa.table(columns), path)
    if random.random() < 0.4:
        path.write_bytes(changed_bytes(path.read_bytes(), random))
    elif random.random() < 0.3 and path.suffix == ".csv":
        path.write_text(changed_text(path.read_text(), random), encoding="utf-8", errors="surrogatepass")
    name = path.name if random.random() < 0.95 else random.choice(('"a\\0b"', "none.csv", ".", '""', "/dev/null"))
    (folder / "s.yaml").write_text(REPLAYED.format(path=name, more=random.choice(MORE)))
    return of_command("run", str(folder / "s.yaml"))


def _write(table: pa.Table, path: Path) -> None:
    (csv.write_csv if path.suffix == ".csv" else parquet.write_table)(table, path)


def graph_case(random: Random, folder: Path) -> Outcome:
    """Imports and runs a graph of which words, numbers or bytes are changed."""
    text, way = "graph {\n" + random.choice((LINEAR, JOINED)) + HOSTS + "}\n", random.randrange(6)
    if way == 0:
        text = changed_text(text, random)
    elif way > 1:
        text = '"'.join(_other_numbers(text.split('"'), random.choice((1, 1, 2)), ".6g", random))
    content = text.encode("utf-8", "surrogatepass")
    (folder / "run.graph").write_bytes(changed_bytes(content, random) if way == 1 else content)
    return of_import(folder / "run.yaml", "run-graph", str(folder / "run.graph"))


def _other_numbers(words: list[str], count: int, digits: str, random: Random) -> list[str]:
    """Words of which `count` that are numbers are changed."""
    numbers = [index for index, word in enumerate(words) if word.replace(".", "").isdigit()]
    for index in random.sample(numbers, min(count, len(numbers))):
        words[index] = f"{other_number(float(words[index]), random):{digits}}"
    return words


def import_case(random: Random, folder: Path) -> Outcome:
    """Imports a changed file of one tool, and runs the imported job if there is one."""
    return random.choice(CASES)(random, folder)


def _flink(random: Random, folder: Path) -> Outcome:
    (folder / "answers").mkdir()
    changed = random.choice([*ANSWERS])
    for name, answer in ANSWERS.items():
        found = changed_data(answer, random) if name == changed else answer  # type: ignore[arg-type]
        text = json.dumps(found, default=str)
        if name == changed and random.random() < 0.2:
            text = changed_text(text, random)
        (folder / "answers" / name).write_text(text, encoding="utf-8", errors="surrogatepass")
    return of_import(folder / "job.yaml", "flink", str(folder / "answers"))


def _hardware(random: Random, folder: Path) -> Outcome:
    command, text, *more = random.choice(HARDWARE)
    if random.random() < 0.5:
        text = "".join(_other_numbers(re.split(r"([\w.]+)", text), 2, ".12g", random))
    content = changed_text(text, random).encode("utf-8", "surrogatepass")
    (folder / "machine").write_bytes(changed_bytes(content, random) if random.random() < 0.2 else content)
    return of_command("import", command, str(folder / "machine"), *more)


HARDWARE = (
    *(("lstopo", V2), ("lstopo", V1), ("numactl", NUMACTL), ("numactl", NUMACTL, "--threads-per-core", "2")),
    ("mlc", MLC, "--cores", "4", "--ram-mb", "8000"),
)


def _metrics(random: Random, folder: Path) -> Outcome:
    rows = [dict(zip(COLUMNS, each, strict=True)) for each in samples()]
    rows = changed_data(rows, random)  # type: ignore[arg-type,assignment]
    path = folder / random.choice(("m.csv", "m.parquet"))
    texts = [{str(key): str(value) for key, value in row.items()} for row in rows if isinstance(row, dict)]
    columns = dict.fromkeys(key for row in texts for key in row)
    _write(pa.table({key: [row.get(key) for row in texts] for key in columns}), path)
    if random.random() < 0.3:
        path.write_bytes(changed_bytes(path.read_bytes(), random))
    (folder / "job.yaml").write_text(scenario_file.dump(JOB))
    return of_command("import", "metrics", str(folder / "job.yaml"), str(path), str(folder / "rows"))


CASES: tuple[Callable[[Random, Path], Outcome], ...] = (_flink, _hardware, _metrics)
