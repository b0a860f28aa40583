"""Nexmark's queries as Flink SQL, and operating points of them on a real Flink."""

from __future__ import annotations

import contextlib
import json
import shutil
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import accumulate
from pathlib import Path
from statistics import median
from typing import Annotated, Any, NamedTuple, Self
from urllib.parse import quote

import numpy as np
import yaml
from pydantic import Field, model_validator

from benchmarks.real.local.flink import ABOUT, Cluster, kept, started, write
from streamtwin.connect.importers.flink_answers import from_folder
from streamtwin.connect.importers.flink_job import read_job
from streamtwin.connect.importers.flink_live import from_endpoint, in_requests
from streamtwin.connect.importers.flink_scenario import ImportedJob, heads_of, scenario_of
from twin.errors import BadInput, suggest
from twin.spec import Spec, parse

# queries -------------------------------------------------------------------------------------------------------------
# Read from queries.yaml.


FILE = Path(__file__).with_name("queries.yaml")


class Query(Spec):
    """Query of Nexmark. knee_per_s: events a second that it is expected to bear. columns: types of its results, by
    name. ages: the column from which ages of results count; empty if none has a time."""

    says: str
    knee_per_s: Annotated[float, Field(gt=0)]
    columns: Annotated[Mapping[str, str], Field(min_length=1)]
    ages: str = ""
    select: str

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.ages and self.columns.get(self.ages) != "TIMESTAMP(3)":
            raise ValueError(f"ages: {self.ages!r} is no column of type TIMESTAMP(3)")
        return self

    @property
    def is_windowed(self) -> bool:
        """Whether ages count from the end of a window instead of from an event."""
        return self.ages == "endtime"

    def sink(self, file: Path) -> str:
        """Statement that makes the table of results, whose ages go to a file."""
        columns = ", ".join(f"`{name}` {kind}" for name, kind in self.columns.items())
        column = list(self.columns).index(self.ages) if self.ages else -1
        return f"CREATE TABLE results ({columns}) WITH ('connector' = 'ages', 'file' = '{file}', 'column' = '{column}')"


class _Queries(Spec):
    source: str
    queries: Mapping[str, Query]


@cache
def _read() -> _Queries:
    return parse(_Queries, yaml.safe_load(FILE.read_text(encoding="utf-8")), FILE.name)


def names() -> tuple[str, ...]:
    """All queries, in order."""
    return tuple(_read().queries)


def checked(name: str) -> str:
    """The name, if it is of a query. Raises BadInput for another one."""
    if name not in names():
        raise BadInput(f"--queries: there is no {name!r}; {suggest(name, names())}")
    return name


def query(name: str) -> Query:
    """A query by its name."""
    return _read().queries[name]


Steps = Sequence[tuple[float, float]]
"""Rates a second, each from so many seconds on, the first from 0."""


def statements(name: str, steps: Steps, start_ms: int, sources: int, ages: Path, taken: Path | None = None) -> str:
    """Statements of a query for `Nexmark`. steps: of the events. start_ms: when the first is due, since 1970. sources:
    subtasks that have events. ages, taken: files of the ages of results, and of when which event was taken (None: none
    is written), to which each subtask of the sink or source appends its number."""
    asked = query(name)
    rate = ",".join(f"{per_s:.6f}@{from_s:g}" for per_s, from_s in steps)
    source = _read().source.format(rate=rate, start_ms=start_ms, sources=sources, taken=taken or "")
    return f"{source.strip()}\n{asked.sink(ages)};\nINSERT INTO results {asked.select.strip()};\n"


# operating points ----------------------------------------------------------------------------------------------------
# A folder each, with the answers of the import, and what it leaves out: quantiles of latency markers, ages of results
# at the sink, and the time that the collector of garbage took.


AGES, MARKERS = "ages", "markers.json"
SOURCE = "nexmark"
"""Name of the source in every query."""
WRITTEN_S = 12.0
"""Time beyond a window until its answers are there: the last metrics may be seconds old."""
QUANTILES = {"latency_median": "p50_s", "latency_p95": "p95_s"}
"""Endings of Flink's metrics of latency markers (ms)."""
COLLECTED = "Status.JVM.GarbageCollector.All.Time"


@dataclass(frozen=True, slots=True)
class Span:
    """Times of a job whose load rises by steps. first_s: for which it runs before it is watched; warmup_s: after each
    further step. window_s: for which it is watched."""

    first_s: float
    warmup_s: float
    window_s: float

    def steps(self, rates: Sequence[float]) -> list[tuple[float, float]]:
        """Rates, each with the time (s) from which it is offered."""
        warmups_s = [self.first_s, *[self.warmup_s] * (len(rates) - 2)]
        lasts_s = [warmup_s + self.window_s + WRITTEN_S for warmup_s in warmups_s]
        return list(zip(rates, accumulate(lasts_s, initial=0.0), strict=True))


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


def measure(
    cluster: Cluster,
    query: str,
    parallelism: int,
    points: Mapping[float, Path],
    span: Span,
    goes_on: Callable[[float], bool],
) -> None:
    """Writes folders of operating points of one job, whose load rises by steps: each new job has its code compiled
    anew, which takes CPU for a minute. points: folders by rate, in order. goes_on: is asked after each rate, whether
    the next one is wanted. Raises BadInput for a query that Flink or the import refuses."""
    with tempfile.TemporaryDirectory() as results:
        ages, steps = Path(results) / AGES, span.steps(list(points))

        def options(start_s: float) -> dict[str, object]:
            for each in ages.parent.glob(f"{AGES}.*"):
                each.unlink()
            sql = statements(query, steps, round(1000 * start_s), parallelism, ages)
            return {"name": query, "parallelism": parallelism, "sql": sql}

        when: dict[str, Any] = {}
        job, start_s = started(cluster, options, when)
        try:
            for rate, from_s in steps:
                print(f"  {rate:,.0f}/s", flush=True)
                begins_s = start_s + from_s + (span.warmup_s if from_s else span.first_s)
                about = {"query": query, "rate_per_s": rate, "parallelism": parallelism, **when}
                with kept(points[rate], about) as (aside, said):
                    time.sleep(max(0.0, begins_s - time.time()))
                    said |= _watched(cluster, job, start_s, span.window_s, aside)
                    for each in ages.parent.glob(f"{AGES}.*"):
                        shutil.copy(each, aside)
                    _imported(aside, rate)  # raises BadInput before anything is kept
                if not goes_on(rate):
                    return
        finally:
            with contextlib.suppress(BadInput):  # it may have ended by itself
                cluster.cancel(job)


def _watched(cluster: Cluster, job: str, start_s: float, window_s: float, folder: Path) -> dict[str, object]:
    """Writes the answers about a job over a window from now on; returns when that was, and the share of it in which
    garbage was collected."""
    begun_s, before_s = time.time() - start_s, _collected_s(cluster)
    answers = from_endpoint(cluster.url, job, window_s)
    ended_s = time.time() - start_s
    collecting = (_collected_s(cluster) - before_s) / (ended_s - begun_s)
    markers = {each.id: _markers(cluster, job, each.id) for each in answers.job.vertices}
    (folder / MARKERS).write_text(json.dumps(markers), encoding="utf-8")
    write(folder, answers)
    return {"window_s": [begun_s, ended_s], "collecting": collecting}


def read(folder: Path) -> Measured:
    """Operating point from a folder that `measure` wrote, imported."""
    about = json.loads((folder / ABOUT).read_text(encoding="utf-8"))
    answers = from_folder(folder)
    flink, imported = read_job(answers), _imported(folder, about["rate_per_s"])
    names = heads_of(flink.vertices)
    window_s: tuple[float, float] = tuple(about["window_s"])
    checkpoint = None
    if flink.taken:
        checkpoint = Checkpoint(flink.state_bytes, median(each.took_s for each in flink.taken))
    markers = json.loads((folder / MARKERS).read_text(encoding="utf-8"))
    return Measured(
        rate_per_s=about["rate_per_s"],
        job=imported,
        window_s=window_s,
        rows={str(row["operator"]): row for row in imported.readings if "operator" in row},
        markers_s={names[vertex]: found for vertex, found in markers.items() if found},
        ages_s=_ages_s(folder, about["start_s"], window_s),
        checkpoint=checkpoint,
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
    found: dict[str, list[float]] = {}
    for part in in_requests(names):
        for each in cluster.get(f"{of_vertex}?get={part}"):
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
