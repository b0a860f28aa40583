"""One run of a real job: submitted, watched, imported; kept as a folder that `twin import flink` reads, too."""

from __future__ import annotations

import csv
import json
import os
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.real.live.cluster import Cluster
from benchmarks.real.live.jobs import EVENT_S, FAILS, Shape
from streamtwin.connect.importers.flink_answers import Answers, from_endpoint, from_folder
from streamtwin.connect.importers.flink_job import read_job
from streamtwin.connect.importers.flink_scenario import ImportedJob, scenario_of
from twin.errors import BadInput

AHEAD_S = (5.0, 10.0, 20.0)
"""From the submission to the first record; the next where a job was not there by then."""
AGES, ABOUT = "ages.csv", "run.json"
WATCHED_S = 40.0
"""After an event."""


@dataclass(frozen=True, slots=True)
class Measured:
    """A run, read back. ages: lines of (s since the first record was due, results, sums of their ages since they were
    due, and since sources took them, s). markers_s: by vertex, mean age of latency markers. load: processes that wanted
    one of the machine's cores then.
    """

    shape: str
    rate_per_s: float
    job: ImportedJob
    markers_s: Mapping[str, float]
    ages: np.ndarray
    window_s: tuple[float, float]
    cores: int
    load: float

    @property
    def latencies_s(self) -> tuple[float, float]:
        """Mean age of the window's results since they were due, and since they were taken."""
        seen = self.ages[(self.ages[:, 0] >= self.window_s[0]) & (self.ages[:, 0] <= self.window_s[1])]
        if len(seen) < 2 or seen[-1, 1] == seen[0, 1]:
            return float("nan"), float("nan")
        results, due, taken = (seen[-1] - seen[0])[1:]
        return float(due / results), float(taken / results)


def measure(cluster: Cluster, shape: Shape, rate: float, folder: Path, warmup_s: float, window_s: float) -> None:
    """Writes the folder of one operating point."""
    folder.mkdir(parents=True)
    job, start_s = _started(cluster, shape, rate, folder)
    time.sleep(max(0.0, start_s + warmup_s - time.time()))
    begin_s = time.time() - start_s
    answers = from_endpoint(cluster.url, job, window_s)
    end_s = time.time() - start_s
    markers = _markers(cluster, job, answers)
    cluster.cancel(job)
    _kept(folder, answers, shape, rate, start_s, {"markers_s": markers, "window_s": [begin_s, end_s]})


def measure_event(cluster: Cluster, shape: Shape, rate: float, folder: Path) -> None:
    """The same of a job that fails, or is given a second replica of its slow operator, at EVENT_S."""
    folder.mkdir(parents=True)
    fails = {"fail_ms": int(1000 * EVENT_S)} if shape is FAILS else {}
    job, start_s = _started(cluster, shape, rate, folder, **fails)
    time.sleep(max(0.0, start_s + 3.0 - time.time()))
    answers = from_endpoint(cluster.url, job, EVENT_S - 5.0)
    time.sleep(max(0.0, start_s + EVENT_S - time.time()))
    if not fails:
        slow = next(each.id for each in answers.job.vertices if each.name == "work")
        cluster.rescale(job, slow, 2)
    time.sleep(WATCHED_S)
    cluster.cancel(job)
    _kept(folder, answers, shape, rate, start_s, {"markers_s": {}, "window_s": [3.0, EVENT_S]})


def _started(cluster: Cluster, shape: Shape, rate: float, folder: Path, **more: object) -> tuple[str, float]:
    """The job's id, and when its first record is due (s since 1970): after it runs, or nothing would wait for it."""
    stats = (folder / AGES).resolve()
    for ahead_s in AHEAD_S:
        stats.unlink(missing_ok=True)
        start_ms = int(1000 * (time.time() + ahead_s))
        job = cluster.submit(**shape.options, rate=rate, stats=stats, start_ms=start_ms, **more)
        cluster.wait(job, "RUNNING")
        if time.time() < start_ms / 1000:
            return job, start_ms / 1000
        cluster.cancel(job)
    raise BadInput(f"a job takes more than {AHEAD_S[-1]:.0f} s to start; the machine is too busy to measure anything")


def _markers(cluster: Cluster, job: str, answers: Answers) -> dict[str, float]:
    """By name of the vertex: mean age of latency markers there, over sources and subtasks, s."""
    found = {}
    for vertex in answers.job.vertices:
        path = f"/jobs/{job}/vertices/{vertex.id}/metrics"
        names = [each["id"] for each in cluster.get(path) if each["id"].endswith("latency_mean")]
        if names:
            values = [float(each["value"]) for each in cluster.get(f"{path}?get={','.join(names)}")]
            found[vertex.name] = float(np.mean(values)) / 1000
    return found


def _kept(folder: Path, answers: Answers, shape: Shape, rate: float, start_s: float, more: dict[str, Any]) -> None:
    for name, answer in answers.saved().items():
        (folder / name).write_text(json.dumps(answer), encoding="utf-8")
    machine = {"cores": os.cpu_count(), "load": os.getloadavg()[0]}
    about = {
        "shape": asdict(shape),
        "sources": shape.sources,
        "rate_per_s": rate,
        "start_s": start_s,
        **machine,
        **more,
    }
    (folder / ABOUT).write_text(json.dumps(about), encoding="utf-8")


def read(folder: Path) -> Measured:
    """A folder as `measure` wrote it, imported."""
    about = json.loads((folder / ABOUT).read_text(encoding="utf-8"))
    rate = float(about["rate_per_s"])
    imported = scenario_of(read_job(from_folder(folder)), dict.fromkeys(about["sources"], rate))
    return Measured(
        shape=about["shape"]["name"],
        rate_per_s=rate,
        job=imported,
        markers_s=about["markers_s"],
        ages=_ages(folder / AGES, about["start_s"]),
        window_s=tuple(about["window_s"]),
        cores=about["cores"],
        load=about["load"],
    )


def _ages(file: Path, start_s: float) -> np.ndarray:
    """Lines as `Measured` has them; counts go on where an attempt of the job began anew."""
    with file.open() as lines:
        given = np.array([[float(cell) for cell in row] for row in csv.reader(lines)]).reshape(-1, 4)
    steps = np.diff(given[:, 1:], axis=0, prepend=0.0)
    begins = np.flatnonzero(np.diff(given[:, 1], prepend=0.0) < 0)
    steps[begins] = given[begins, 1:]
    sums = np.cumsum(steps, axis=0) / [1.0, 1000.0, 1000.0]
    return np.column_stack([given[:, 0] / 1000 - start_s, sums])
