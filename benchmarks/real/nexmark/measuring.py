"""One operating point of a query on a real Flink: its folder has the answers of the import, and what it leaves out.

These are quantiles of latency markers, ages of results at the sink, and the time that the collector of garbage took.
"""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple
from urllib.parse import quote

import numpy as np

from benchmarks.real.local.cluster import Cluster
from benchmarks.real.local.points import ABOUT, kept, started, write
from benchmarks.real.nexmark.queries import statements
from streamtwin.connect.importers.flink_answers import from_endpoint, from_folder
from streamtwin.connect.importers.flink_job import read_job
from streamtwin.connect.importers.flink_scenario import ImportedJob, heads_of, scenario_of
from twin.errors import BadInput

AGES, MARKERS = "ages", "markers.json"
SOURCE = "nexmark"
"""Name of the source in every query."""
QUANTILES = {"latency_median": "p50_s", "latency_p95": "p95_s"}
"""Endings of Flink's metrics of latency markers (ms)."""
COLLECTED = "Status.JVM.GarbageCollector.All.Time"


@dataclass(frozen=True, slots=True)
class Span:
    """Time for which a job runs before it is watched, and for which it is watched."""

    warmup_s: float
    window_s: float


class Checkpoint(NamedTuple):
    """Size of the last complete checkpoint, and the median of how long all of them took."""

    bytes: float
    duration_s: float


@dataclass(frozen=True, slots=True)
class Measured:
    """Operating point of a query, read back. rate_per_s: of events that were offered. window_s: since the first event
    was due. rows: readings by the name of an operator. markers_s: quantiles of the ages of latency markers there.
    ages_s: of results in the window. collecting: share of the time in which garbage was collected. load: processes that
    wanted one of the machine's cores then."""

    rate_per_s: float
    job: ImportedJob
    window_s: tuple[float, float]
    rows: Mapping[str, Mapping[str, float]]
    markers_s: Mapping[str, Mapping[str, float]]
    ages_s: np.ndarray
    checkpoint: Checkpoint | None
    collecting: float
    cores: int
    load: float

    @property
    def delivered_per_s(self) -> float:
        """Events a second that the source took."""
        return float(self.rows[SOURCE]["out_per_s"])


def measure(cluster: Cluster, query: str, rate: float, parallelism: int, folder: Path, span: Span) -> None:
    """Writes the folder of one operating point. Raises BadInput for a query that Flink or the import refuses."""
    about = {"query": query, "rate_per_s": rate, "parallelism": parallelism}
    with kept(folder, about) as (aside, said):

        def options(start_s: float) -> dict[str, object]:
            for each in aside.glob(f"{AGES}.*"):
                each.unlink()
            sql = statements(query, rate, round(1000 * start_s), parallelism, (aside / AGES).resolve())
            return {"name": query, "parallelism": parallelism, "sql": sql}

        job, start_s = started(cluster, options, said)
        try:
            time.sleep(max(0.0, start_s + span.warmup_s - time.time()))
            begun_s, before_s = time.time() - start_s, _collected_s(cluster)
            answers = from_endpoint(cluster.url, job, span.window_s)
            ended_s = time.time() - start_s
            said["window_s"] = [begun_s, ended_s]
            said["collecting"] = (_collected_s(cluster) - before_s) / (ended_s - begun_s)
            markers = {each.id: _markers(cluster, job, each.id) for each in answers.job.vertices}
            (aside / MARKERS).write_text(json.dumps(markers), encoding="utf-8")
            write(aside, answers)
            _imported(aside, rate)  # raises BadInput before anything is kept
        finally:
            with contextlib.suppress(BadInput):  # it may have ended by itself
                cluster.cancel(job)


def read(folder: Path) -> Measured:
    """Operating point from a folder that `measure` wrote, imported."""
    about = json.loads((folder / ABOUT).read_text(encoding="utf-8"))
    answers = from_folder(folder)
    flink, imported = read_job(answers), _imported(folder, about["rate_per_s"])
    names = heads_of(flink.vertices)
    window_s: tuple[float, float] = tuple(about["window_s"])
    markers = json.loads((folder / MARKERS).read_text(encoding="utf-8"))
    return Measured(
        rate_per_s=about["rate_per_s"],
        job=imported,
        window_s=window_s,
        rows={str(row["operator"]): row for row in imported.readings if "operator" in row},
        markers_s={names[vertex]: found for vertex, found in markers.items() if found},
        ages_s=_ages_s(folder, about["start_s"], window_s),
        checkpoint=Checkpoint(flink.state_bytes, median(flink.durations_s)) if flink.durations_s else None,
        collecting=about["collecting"],
        cores=about["cores"],
        load=about["load"],
    )


def _imported(folder: Path, rate: float) -> ImportedJob:
    return scenario_of(read_job(from_folder(folder)), {SOURCE: rate})


def _markers(cluster: Cluster, job: str, vertex: str) -> dict[str, float]:
    """Largest of each quantile over the operators and subtasks of a vertex; empty if it has none, as a source."""
    of_vertex = f"/jobs/{job}/vertices/{vertex}/metrics"
    names = [each["id"] for each in cluster.get(of_vertex) if each["id"].endswith(tuple(QUANTILES))]
    if not names:
        return {}
    read = cluster.get(f"{of_vertex}?get={quote(','.join(names))}")
    found: dict[str, list[float]] = {}
    for each in read:
        found.setdefault(QUANTILES[each["id"].rpartition(".")[2]], []).append(float(each["value"]) / 1000)
    return {key: max(values) for key, values in found.items()}


def _collected_s(cluster: Cluster) -> float:
    """Seconds for which the task manager has collected garbage since it started."""
    manager = cluster.get("/taskmanagers")["taskmanagers"][0]["id"]
    read: list[dict[str, Any]] = cluster.get(f"/taskmanagers/{quote(manager, safe='')}/metrics?get={COLLECTED}")
    return sum(float(each["value"]) for each in read) / 1000


def _ages_s(folder: Path, start_s: float, window_s: tuple[float, float]) -> np.ndarray:
    """Ages in the window, of all subtasks of the sink. Lines have the time (ms), the number of results, and ages."""
    found: list[str] = []
    for file in sorted(folder.glob(f"{AGES}.*")):
        for line in file.read_text(encoding="utf-8").splitlines():
            now, _, ages = line.split(",")
            if window_s[0] <= float(now) / 1000 - start_s <= window_s[1]:
                found += ages.split()
    return np.array(found, dtype=float) / 1000
