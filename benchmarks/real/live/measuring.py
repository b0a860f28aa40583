"""One run of a real job: submitted, watched, imported; kept as a folder that `twin import flink` reads, too."""

from __future__ import annotations

import contextlib
import csv
import json
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.real.live.jobs import EVENT_S, Shape
from benchmarks.real.local.cluster import NICE, Cluster
from benchmarks.real.local.points import ABOUT, kept, started, write
from streamtwin.connect.importers.flink_answers import from_folder
from streamtwin.connect.importers.flink_job import read_job
from streamtwin.connect.importers.flink_live import from_endpoint
from streamtwin.connect.importers.flink_scenario import ImportedJob, scenario_of
from twin.overrides import put_all

AGES = "ages.csv"
WATCHED_S = 40.0
"""Time for which a job is watched after an event."""
COMPUTES = "while True: pass"
"""Program of a neighbour."""


@dataclass(frozen=True, slots=True)
class Measured:
    """Run of a real job, read back. ages: lines of (s since the first record was due, results, sums of their ages since
    they were due, and since sources took them, s). aged_s: ages of the window's results since they were taken. load:
    processes that wanted one of the machine's cores then. submitted_s: from the submission until all subtasks ran;
    deployed_s: the part of it in which they were deployed."""

    shape: str
    rate_per_s: float
    job: ImportedJob
    ages: np.ndarray
    window_s: tuple[float, float]
    cores: int
    load: float
    aged_s: np.ndarray
    submitted_s: float = 0.0
    deployed_s: float = 0.0

    @property
    def latency_s(self) -> float:
        """Mean age of the window's results since they were taken."""
        return float(self.aged_s.mean()) if len(self.aged_s) else float("nan")

    def quantile_s(self, share: float) -> float:
        """Quantile of the ages of the window's results since they were taken."""
        return float(np.quantile(self.aged_s, share)) if len(self.aged_s) else float("nan")


def measure(
    cluster: Cluster, shape: Shape, rate: float, folder: Path, warmup_s: float = 10.0, window_s: float = 8.0
) -> None:
    """Writes the folder of one operating point, which is read for a window after a warm-up."""
    with kept(folder, _about(shape, rate)) as (aside, about), _beside(shape.neighbours):
        job, start_s = _started(cluster, shape, rate, aside, about)
        time.sleep(max(0.0, start_s + warmup_s - time.time()))
        begin_s = time.time() - start_s
        answers = from_endpoint(cluster.url, job, window_s)
        about["window_s"] = [begin_s, time.time() - start_s]
        read_job(answers)  # raises BadInput before anything is kept
        cluster.cancel(job)
        write(aside, answers)


def measure_event(cluster: Cluster, shape: Shape, rate: float, folder: Path) -> None:
    """Writes the folder of a job that has its event at EVENT_S."""
    with kept(folder, _about(shape, rate)) as (aside, about):
        fails = {"fail_ms": int(1000 * EVENT_S)} if shape.event == "fails" else {}
        job, start_s = _started(cluster, shape, rate, aside, about, **fails)
        time.sleep(max(0.0, start_s + 3.0 - time.time()))
        answers = from_endpoint(cluster.url, job, EVENT_S - 5.0)
        time.sleep(max(0.0, start_s + EVENT_S - time.time()))
        if shape.event == "rescales":
            cluster.rescale(job, next(each.id for each in answers.job.vertices if each.name == "work"), 2)
        if shape.event == "savepoint":
            more = replace(shape, parallelism=tuple(2 * each for each in shape.parallelism))
            savepoint = cluster.stop(job, aside / "savepoints")
            job = cluster.submit(savepoint, **more.options, **_places(aside, rate, start_s))
        time.sleep(WATCHED_S)
        cluster.cancel(job)
        about["window_s"] = [3.0, EVENT_S]
        write(aside, answers)


def _started(
    cluster: Cluster, shape: Shape, rate: float, folder: Path, about: dict[str, Any], **more: object
) -> tuple[str, float]:
    """Starts a job. Returns its id and the time when its first record is due (s since 1970), which is after it runs."""

    def options(start_s: float) -> dict[str, object]:
        (folder / AGES).unlink(missing_ok=True)
        return {**shape.options, **_places(folder, rate, start_s), **more}

    return started(cluster, options, about)


def _about(shape: Shape, rate: float) -> dict[str, Any]:
    return {"shape": asdict(shape), "rate_per_s": rate}


def _places(folder: Path, rate: float, start_s: float) -> dict[str, object]:
    return {"rate": rate, "stats": (folder / AGES).resolve(), "start_ms": round(1000 * start_s)}


@contextlib.contextmanager
def _beside(neighbours: int) -> Iterator[None]:
    """Runs processes that compute all the time, with the cluster's priority."""
    found = [subprocess.Popen([*NICE, sys.executable, "-c", COMPUTES]) for _ in range(neighbours)]
    try:
        yield
    finally:
        for each in found:
            each.kill()
            each.wait()


def read(folder: Path) -> Measured:
    """Run from a folder that `measure` wrote, imported."""
    about = json.loads((folder / ABOUT).read_text(encoding="utf-8"))
    rate, shape = float(about["rate_per_s"]), about["shape"]
    answers = from_folder(folder)
    flink = read_job(answers)
    imported = scenario_of(flink, {source: rate * share for source, share in shape["shares"].items()})
    told = put_all(imported.scenario, list(shape["told"].items()), "told")
    ages, aged_s = _ages(folder / AGES, about["start_s"], tuple(about["window_s"]))
    return Measured(
        shape=shape["name"],
        rate_per_s=rate,
        job=replace(imported, scenario=told),
        ages=ages,
        window_s=tuple(about["window_s"]),
        cores=about["cores"],
        load=about["load"],
        aged_s=aged_s,
        submitted_s=about["submitted_s"],
        deployed_s=flink.deployed_s or 0.0,
    )


def _ages(file: Path, start_s: float, window_s: tuple[float, float]) -> tuple[np.ndarray, np.ndarray]:
    """Lines for `Measured.ages`, and ages in the window; counts go on where an attempt of the job begins anew."""
    with file.open() as lines:
        rows = list(csv.reader(lines))
    given = np.array([[float(cell) for cell in row[:4]] for row in rows]).reshape(-1, 4)
    steps = np.diff(given[:, 1:], axis=0, prepend=0.0)
    begins = np.flatnonzero(np.diff(given[:, 1], prepend=0.0) < 0)
    steps[begins] = given[begins, 1:]
    sums = np.cumsum(steps, axis=0) / [1.0, 1000.0, 1000.0]
    ends_s = given[:, 0] / 1000 - start_s
    seen = [row[4] for row, end_s in zip(rows, ends_s, strict=True) if window_s[0] <= end_s <= window_s[1]]
    return np.column_stack([ends_s, sums]), np.array(" ".join(seen).split(), dtype=float) / 1000
