"""Jobs of the live benchmark, and operating points of them on a real Flink."""

from __future__ import annotations

import contextlib
import csv
import json
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np

from benchmarks.real.local.flink import ABOUT, NICE, Cluster, kept, started, write
from streamtwin.connect.importers.flink_answers import from_folder
from streamtwin.connect.importers.flink_job import read_job
from streamtwin.connect.importers.flink_live import from_endpoint
from streamtwin.connect.importers.flink_scenario import ImportedJob, scenario_of
from twin.scenario import put_all

# jobs ----------------------------------------------------------------------------------------------------------------
# Jobs for the real Flink, with their rates: two light points of each are calibrated on, the others predicted.


Event = Literal["", "fails", "rescales", "savepoint"]
"""Event of a job: it fails; its slow operator gets a second subtask while it runs; or all slow operators get twice the
subtasks, by a savepoint and a restart from it."""


@dataclass(frozen=True, slots=True)
class Shape:
    """Job of `LiveJob`. work_us: service time of its slow operator; waits: whether that sleeps instead of computing.
    subtasks: of each slow operator.

    fitted, predicted: rates of each source [records/s] at the points that are calibrated on and at the others. shares:
    of that rate, by source. neighbours: processes that compute beside it. told: by path in the scenario, what the owner
    says because an import cannot read it.
    """

    name: str
    shape: str
    work_us: int
    waits: bool
    parallelism: tuple[int, ...]
    chaining: bool
    fitted: tuple[float, ...]
    predicted: tuple[float, ...]
    shares: Mapping[str, float] = field(default_factory=lambda: {"source": 1.0})
    neighbours: int = 0
    told: Mapping[str, Any] = field(default_factory=dict)
    event: Event = ""

    @property
    def options(self) -> dict[str, object]:
        """Arguments of the job's main program."""
        return {
            "shape": self.shape,
            "work_us": self.work_us,
            "wait": str(self.waits).lower(),
            "replicas": ",".join(map(str, self.parallelism)),
            "chaining": str(self.chaining).lower(),
            **{f"share_{source}": share for source, share in self.shares.items()},
        }

    @property
    def slow(self) -> tuple[str, ...]:
        """Names of the slow operators."""
        return ("first", "second") if self.shape == "keyed" else ("work",)

    def folder(self, rate: float) -> str:
        """Name of the folder that keeps the point at that rate."""
        return f"{self.name.replace(', ', '-').replace(' ', '-')}-{rate:g}"

    @property
    def rates(self) -> tuple[float, ...]:
        """All rates, those that are calibrated on first."""
        return (*self.fitted, *self.predicted)


@dataclass(frozen=True, slots=True)
class Jobs:
    """Set of jobs. shapes: measured at steady rates. events: jobs with an event, whose work sleeps; each with the shape
    of the same work that is calibrated for it."""

    shapes: tuple[Shape, ...]
    events: tuple[tuple[Shape, Shape], ...]


BOTH = {"left": 1.0, "right": 1.0}
LINE = Shape("line, two subtasks", "line", 2000, True, (2,), False, (300, 1700), (700, 2300))
FIRST = Jobs(
    (
        Shape("line, a window", "line", 1000, True, (1,), False, (300, 1700), (700, 2300)),
        LINE,
        Shape("fork", "fork", 1000, True, (1,), False, (300, 1600), (700, 2200)),
        Shape("join", "join", 500, True, (1,), False, (80, 160), (110, 140), BOTH),
        Shape("chained", "chain", 1000, True, (1,), True, (300, 1700), (700, 2300)),
        Shape("CPU", "chain", 500, False, (1,), False, (100, 400), (200, 300)),
    ),
    (
        (Shape("fails", "chain", 1000, True, (1,), False, (), (500,), event="fails"), LINE),
        (Shape("rescaled", "chain", 2000, True, (1,), False, (), (700,), event="rescales"), LINE),
    ),
)
UNEQUAL = {"left": 1.0, "right": 0.25}
A_CALL = {
    f"query.operators.async_wait_operator.{key}": value
    for key, value in (("latency_s", 0.05), ("latency_scv", 0.0), ("capacity", 20))
}
"""Calls of the job `async`: they all take 50 ms, and at most 20 are pending."""
KEYS = {"workload.keys": {name: {"keys": 64} for name in ("first", "second")}}
KEYED = Shape("keyed, 2 and 3 subtasks", "keyed", 2000, True, (2, 3), False, (200, 350), (450, 550, 1400))
OTHER = Jobs(
    (
        KEYED,
        Shape("unequal join", "slow left", 2000, True, (1,), False, (100, 200), (280, 360, 1000), UNEQUAL),
        Shape("session", "session", 1000, True, (1,), False, (200, 400), (550, 700, 2000)),
        Shape("async", "async", 50_000, True, (1,), False, (100, 200), (270, 340, 900), told=A_CALL),
        Shape("CPU, busy neighbour", "chain", 500, False, (1,), False, (200, 500), (800, 1100, 3500), neighbours=1),
    ),
    (
        (Shape("keyed fails", "keyed", 2000, True, (2, 3), False, (), (500,), event="fails"), KEYED),
        (
            Shape("keyed, savepoint", "keyed", 2000, True, (2, 3), False, (), (1500,), told=KEYS, event="savepoint"),
            KEYED,
        ),
    ),
)
SETS = {"first": FIRST, "other": OTHER}
EVENT_S = 14.0
"""Time of the event after the first record was due."""


# operating points ----------------------------------------------------------------------------------------------------
# One run of a real job: submitted, watched, imported; kept as a folder that `twin import flink` reads, too.


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
