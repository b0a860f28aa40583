"""Files that other tools wrote, changed: hwloc's XML, tables of samples, saved answers of Flink and the like."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from pathlib import Path
from random import Random

import pyarrow as pa
from pyarrow import csv, parquet

from benchmarks.fuzz.mutate import changed_bytes, changed_data, changed_text, other_number
from benchmarks.fuzz.outcome import RAN, Outcome, of_command
from scenarios.files import scenario_file
from tests.scenarios.calibration.test_points import JOB
from tests.streamtwin.importers.flink_cluster import CONFIG, detail, job_at, managers, markers, plan
from tests.streamtwin.importers.test_hardware import MLC, NUMACTL, V1, V2
from tests.streamtwin.importers.test_metrics import COLUMNS, samples

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


def import_case(random: Random, folder: Path) -> Outcome:
    """One tool's file; what was imported of a job is run."""
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
    out = str(folder / "job.yaml")
    outcome = of_command("import", "flink", str(folder / "answers"), "--out", out)
    if outcome.kind != RAN:
        return outcome
    return of_command("run", out, "--horizon", "5", "--set", "run.warmup_s=0")


def _hardware(random: Random, folder: Path) -> Outcome:
    command, text, *more = random.choice(HARDWARE)
    words = text.split()
    if random.random() < 0.5:
        at = [index for index, word in enumerate(words) if word.replace(".", "").isdigit()]
        for index in random.sample(at, min(2, len(at))):
            text = text.replace(words[index], f"{other_number(float(words[index]), random):.12g}", 1)
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
    path, content = folder / random.choice(("m.csv", "m.parquet")), io.BytesIO()
    texts = [{str(key): str(value) for key, value in row.items()} for row in rows if isinstance(row, dict)]
    columns = dict.fromkeys(key for row in texts for key in row)
    table = pa.table({key: [row.get(key) for row in texts] for key in columns})
    (csv.write_csv if path.suffix == ".csv" else parquet.write_table)(table, content)
    damaged = random.random() < 0.3
    path.write_bytes(changed_bytes(content.getvalue(), random) if damaged else content.getvalue())
    (folder / "job.yaml").write_text(scenario_file.dump(JOB))
    return of_command("import", "metrics", str(folder / "job.yaml"), str(path), str(folder / "rows"))


CASES: tuple[Callable[[Random, Path], Outcome], ...] = (_flink, _hardware, _metrics)
