"""A task manager is killed, or a job goes on from a savepoint with twice the subtasks: what the twin says beforehand.

The job is watched at its source, which writes down when it takes which event: results of windows are too far apart. A
second task manager stands by, so that what is measured is Flink and not how fast a Java machine starts.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
from pydantic import TypeAdapter

from benchmarks.real.local.flink import ABOUT, Cluster, kept, started, working
from benchmarks.real.nexmark.judging import Figure
from benchmarks.real.nexmark.measuring import AGES, statements
from streamtwin import dry_run
from streamtwin.connect.importers.flink_job import BEFORE
from twin.scenario import Scenario

Kind = Literal["killed", "rescaled"]
KINDS: tuple[Kind, ...] = ("killed", "rescaled")
EVENT_S, WATCHED_S = 30.0, 30.0
"""When the event comes, after the first record is due, and for how long the job is watched then."""
LATE_S = 0.2
"""Age of events from which on the job has not caught up."""
TAKEN, JOB, DETAILS = "taken", "after.json", "vertices.json"
TIMES = 2
"""Factor on the subtasks of all operators."""


@dataclass(frozen=True, slots=True)
class Course:
    """What an event did to a job; None: not known. noticed_s: until Flink restarts it; delay_s: of its restart
    strategy; deployed_s: until all subtasks run, reading state included; saved_s: of the savepoint. down_s: longest
    time without an event taken; oldest_s: greatest age of one; caught_up_s: from the event until ages are as before;
    replayed: events taken again."""

    noticed_s: float | None
    delay_s: float | None
    saved_s: float | None
    deployed_s: float | None
    down_s: float | None
    oldest_s: float | None
    caught_up_s: float | None
    replayed: float | None


FORM = TypeAdapter(dict[Kind, Course])
"""Form of predictions in a file."""
UNITS = {"replayed": "events"}
WORDS = {
    "noticed_s": "noticed after",
    "delay_s": "restart delay",
    "saved_s": "savepoint",
    "deployed_s": "deployed, with its state",
    "down_s": "takes no event for",
    "oldest_s": "oldest event",
    "caught_up_s": "caught up after",
    "replayed": "taken again",
}


# predicted -----------------------------------------------------------------------------------------------------------


def predicted(job: Scenario) -> dict[Kind, Course]:
    """Courses after both events, by dry runs. job: as it was imported and calibrated; it knows Flink's settings, and
    how long the job took to start."""
    watched = job.with_run(horizon_s=EVENT_S + WATCHED_S, warmup_s=EVENT_S / 2, period_s=1.0)
    return {"killed": _killed(watched), "rescaled": _rescaled(watched)}


def _killed(job: Scenario) -> Course:
    (host,) = (each.name for each in job.cluster.hosts)
    found = dry_run(job, fail=[host]).result
    parts, known = found.recovery, {name: each.mean for name, each in found.measures.items()}
    assert parts is not None and known["pause_s"] is not None
    return Course(
        noticed_s=parts.noticed_s,
        delay_s=parts.delay_s,
        saved_s=None,
        deployed_s=known["pause_s"] - parts.noticed_s - parts.delay_s,
        down_s=known["pause_s"],
        oldest_s=None,
        caught_up_s=known["catch_up_s"],
        replayed=known.get("replayed"),
    )


def _rescaled(job: Scenario) -> Course:
    wanted = {"parallelism": TIMES * max(job.plan.parallelism(each.name) for each in job.query.operators)}
    known = {name: each.mean for name, each in dry_run(job, rescale=wanted, at_s=EVENT_S).result.measures.items()}
    return Course(
        noticed_s=None,
        delay_s=None,
        saved_s=None,
        deployed_s=None,
        down_s=known["pause_s"],
        oldest_s=None,
        caught_up_s=known["catch_up_s"],
        replayed=known.get("replayed", 0.0),
    )


# measured ------------------------------------------------------------------------------------------------------------


def measure(cluster: Cluster, query: str, rate: float, parallelism: int, kind: Kind, folder: Path) -> None:
    """Writes the folder of a job that has its event at EVENT_S. Raises BadInput for what Flink refuses."""
    about = {"query": query, "rate_per_s": rate, "parallelism": parallelism, "kind": kind}
    with working(cluster) as process, kept(folder, about) as (aside, said):

        def options(start_s: float, subtasks: int) -> dict[str, object]:
            files = ((aside / each).resolve() for each in (AGES, TAKEN))
            sql = statements(query, [(rate, 0.0)], round(1000 * start_s), parallelism, *files)
            return {"name": query, "parallelism": subtasks, "sql": sql}

        def first(start_s: float) -> dict[str, object]:
            for each in (*aside.glob(f"{AGES}.*"), *aside.glob(f"{TAKEN}.*")):
                each.unlink()  # of a start that came too late
            return options(start_s, parallelism)

        job, start_s = started(cluster, first, said)
        with working(cluster, "standing-by"):
            time.sleep(max(0.0, start_s + EVENT_S - time.time()))
            said["event_s"] = time.time()
            if kind == "killed":
                process.kill()
            else:
                savepoint = cluster.stop(job, aside / "savepoints")
                said["saved_s"] = time.time() - said["event_s"]
                job = cluster.submit(savepoint, **options(start_s, TIMES * parallelism))
            time.sleep(max(0.0, said["event_s"] + WATCHED_S - time.time()))
            after = cluster.get(f"/jobs/{job}")
            details = [cluster.get(f"/jobs/{job}/vertices/{each['id']}") for each in after["vertices"]]
            (aside / JOB).write_text(json.dumps(after), encoding="utf-8")
            (aside / DETAILS).write_text(json.dumps(details), encoding="utf-8")
            cluster.cancel(job)


def measured(folder: Path) -> Course:
    """Course from a folder that `measure` wrote."""
    about, after, details = (json.loads((folder / name).read_text()) for name in (ABOUT, JOB, DETAILS))
    event_s, stamps = about["event_s"], {name: at / 1000 for name, at in after["timestamps"].items()}
    killed = about["kind"] == "killed"
    lasted = [sum(each["status-duration"].get(state, 0) for state in BEFORE) for each in _subtasks(details)]
    return Course(
        noticed_s=stamps["RESTARTING"] - event_s if killed else None,
        delay_s=stamps["RUNNING"] - stamps["RESTARTING"] if killed else None,
        saved_s=about.get("saved_s"),
        deployed_s=max(lasted) / 1000,
        **_at_the_source(folder, about, event_s),
    )


def _subtasks(details: list[dict[str, Any]]) -> Iterator[Mapping[str, Any]]:
    for each in details:
        yield from each["subtasks"]


def _at_the_source(folder: Path, about: Mapping[str, Any], event_s: float) -> dict[str, float]:
    """Measures of an event by when which event of the stream was taken."""
    lines = [line.split(",") for file in sorted(folder.glob(f"{TAKEN}.*")) for line in file.read_text().splitlines()]
    rows = np.array(sorted((float(now) / 1000, float(number)) for now, number in lines))
    now_s, number = rows.T
    ages_s = now_s - (about["start_s"] + number / about["rate_per_s"])
    after = now_s > event_s
    late_s = now_s[after & (ages_s > LATE_S)]
    first = int(np.argmax(after))
    return {
        "down_s": float(np.diff(now_s, prepend=now_s[0])[after].max()),
        "oldest_s": float(ages_s[after].max()),
        "caught_up_s": float(late_s.max() - event_s) if len(late_s) else 0.0,
        "replayed": max(0.0, float(number[:first].max() - number[after].min())),
    }


def figures(kind: Kind, said: Course | None, was: Course) -> list[Figure]:
    """Rows of a table, predicted beside measured."""
    expected, found = {} if said is None else asdict(said), asdict(was)
    return [
        Figure(f"{kind}: {words}", UNITS.get(name, "s"), expected.get(name), found[name])
        for name, words in WORDS.items()
        if found[name] is not None
    ]
