"""Where answers of Flink's REST API come from: a folder of saved ones, or a live endpoint.

`GET /jobs/:id` returns the metrics that were gathered before it was asked, and has new ones gathered every 10 s at
most, so a live job is asked again and again through the window, and rates are differences between two fresh snapshots.
"""

from __future__ import annotations

import json
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from twin.errors import BadInput, suggest

RUNNING = "RUNNING"
ASKED_EVERY_S = 0.5
PATIENCE_S = 10.0
REFRESHED_S = 30.0
"""How long fresh metrics are waited for; by default a cluster gathers them every 10 s."""
JOB = "_jobs_id.json"
COMPLETE = "-complete"
"""How the word is named that says whether a metric is of all subtasks."""
MARKERS = "latency_mean"
"""How the names of these metrics end."""
AT_A_TIME = 40
"""Metrics that are asked for by one address."""

Json = Any


@dataclass(frozen=True, slots=True)
class Answers:
    """What is known of one job. first: an earlier snapshot of the job; None: all counters are since its start.

    details: by vertex, where its subtasks are; absent where nobody asked. markers: by vertex, ages of latency markers,
    if the job has any. managers, config: of the cluster.
    """

    where: str
    first: Mapping[str, Json] | None
    job: Mapping[str, Json]
    plan: Mapping[str, Json]
    details: tuple[Mapping[str, Json] | None, ...]
    managers: Mapping[str, Json]
    markers: tuple[tuple[Json, ...], ...] = ()
    config: tuple[Mapping[str, Json], ...] = ()
    checkpoints: Mapping[str, Json] | None = None
    version: str = ""

    def saved(self) -> dict[str, Json]:
        """By the file in which `from_folder` looks for it."""
        files = {"job_jobs_id.json": self.job, "job_jobs_id_plan.json": self.plan, "taskmanagers.json": self.managers}
        optional = {
            "job_jobs_id_first.json": self.first,
            "job_jobs_id_checkpoints.json": self.checkpoints,
            "jobmanager_config.json": list(self.config) or None,
            "overview.json": {"flink-version": self.version} if self.version else None,
            **{f"job_v{number}_detail.json": each for number, each in enumerate(self.details)},
            **{f"job_v{number}_latency_markers.json": list(each) or None for number, each in enumerate(self.markers)},
        }
        return {**files, **{name: each for name, each in optional.items() if each is not None}}


def from_folder(folder: Path, job: str | None = None) -> Answers:
    """Saved answers: NAME_jobs_id.json, NAME_jobs_id_plan.json, NAME_v0_detail.json, ..., taskmanagers.json.

    job: the NAME; may be left out if there is one. Raises BadInput if something is missing or no JSON.
    """
    names = sorted(each.name.removesuffix(JOB) for each in folder.glob(f"*{JOB}"))
    if not names:
        raise BadInput(f"{folder} holds no answer of a job (NAME{JOB}); save GET /jobs/:id under that name")
    if job is None and len(names) > 1:
        raise BadInput(f"{folder} has answers of several jobs ({', '.join(names)}); choose one with --job")
    name = job or names[0]
    if name not in names:
        raise BadInput(f"{folder} has no job {name!r}; {suggest(name, names)}")

    def read(file: str, needed: bool = False) -> Json:
        path = folder / file
        if not path.is_file():
            if needed:
                raise BadInput(f"{path} is missing; save that answer of Flink's REST API under this name")
            return None
        try:
            return json.loads(path.read_text(encoding="utf-8"))
        except (OSError, UnicodeDecodeError, ValueError) as error:
            raise BadInput(f"{path} is no answer of Flink's REST API ({error}); save it again") from None

    last = read(f"{name}{JOB}", needed=True)
    vertices = last.get("vertices", ()) if isinstance(last, Mapping) else ()
    return Answers(
        where=f"{folder}, job {name}",
        first=read(f"{name}_jobs_id_first.json"),
        job=last,
        plan=read(f"{name}_jobs_id_plan.json", needed=True),
        details=tuple(read(f"{name}_v{number}_detail.json") for number in range(len(vertices))),
        markers=tuple(_listed(read(f"{name}_v{number}_latency_markers.json")) for number in range(len(vertices))),
        managers=read("taskmanagers.json", needed=True),
        config=_listed(read("jobmanager_config.json")),
        checkpoints=read(f"{name}_jobs_id_checkpoints.json"),
        version=_version(read("overview.json")),
    )


def from_endpoint(
    url: str,
    job: str | None = None,
    window_s: float = 20.0,
    report: Callable[[int, int], None] | None = None,
    sleep: Callable[[float], None] = time.sleep,
) -> Answers:
    """A live job: polled for window_s. job: its name or id; may be left out if one runs.

    Raises BadInput if the endpoint does not answer, no such job is running, or its metrics stand still.
    """
    base = url.rstrip("/")
    found = _job_id(base, job)
    first, last = _watched(f"{base}/jobs/{found}", window_s, report, sleep)
    overview, config = _get(f"{base}/overview"), _get(f"{base}/jobmanager/config", needed=False)
    return Answers(
        where=f"{base}, job {found}",
        first=first,
        job=last,
        plan=_get(f"{base}/jobs/{found}/plan"),
        details=tuple(_get(f"{base}/jobs/{found}/vertices/{each['id']}") for each in last.get("vertices", ())),
        markers=tuple(_markers(f"{base}/jobs/{found}/vertices/{each['id']}") for each in last.get("vertices", ())),
        managers=_get(f"{base}/taskmanagers"),
        config=_listed(config),
        checkpoints=_get(f"{base}/jobs/{found}/checkpoints", needed=False),
        version=_version(overview),
    )


def _markers(vertex: str) -> tuple[Json, ...]:
    """The mean ages of latency markers at a vertex, by source and subtask; none where the job sends none."""
    listed = _listed(_get(f"{vertex}/metrics", needed=False))
    names = [str(each.get("id")) for each in listed if str(each.get("id")).endswith(MARKERS)]
    asked = (names[start : start + AT_A_TIME] for start in range(0, len(names), AT_A_TIME))
    answers = (_listed(_get(f"{vertex}/metrics?get={','.join(part)}", needed=False)) for part in asked)
    return tuple(each for answer in answers for each in answer)


def _version(overview: Json) -> str:
    return str(overview.get("flink-version") or "") if isinstance(overview, Mapping) else ""


def _listed(config: Json) -> tuple[Json, ...]:
    return tuple(config) if isinstance(config, list) else () if config is None else (config,)


def _watched(
    url: str, window_s: float, report: Callable[[int, int], None] | None, sleep: Callable[[float], None]
) -> tuple[Json, Json]:
    """The first and the last snapshot that were fresh; watched for longer where there are not two in window_s."""
    fresh: list[Json] = []
    polls, last = max(3, round(window_s / ASKED_EVERY_S)), _get(url)
    for done in range(polls + round(REFRESHED_S / ASKED_EVERY_S)):
        if done >= polls and len(fresh) > 1:
            return fresh[0], fresh[-1]
        sleep(ASKED_EVERY_S)
        seen, last = last, _get(url)
        if last.get("state") != RUNNING or not last.get("vertices"):
            return seen, last
        if _metrics(last) != _metrics(seen) and _complete(last):
            fresh.append(last)
        if report is not None:
            report(min(done + 1, polls), polls)
    raise BadInput(
        f"{url}: its metrics were not refreshed in {window_s + REFRESHED_S:.0f} s; lower the cluster's "
        "metrics.fetcher.update-interval, or take a longer --window"
    )


def _metrics(job: Mapping[str, Json]) -> list[Json]:
    return [each.get("metrics") for each in job["vertices"]]


def _complete(job: Mapping[str, Json]) -> bool:
    metrics = (each.get("metrics") or {} for each in job["vertices"])
    return all(value for of_vertex in metrics for key, value in of_vertex.items() if key.endswith(COMPLETE))


def _job_id(base: str, job: str | None) -> str:
    jobs = _get(f"{base}/jobs/overview").get("jobs", [])
    running = [each for each in jobs if each.get("state") == RUNNING]
    named = [each for each in jobs if job in (each.get("name"), each.get("jid"))] if job else running
    if len(named) == 1:
        return str(named[0]["jid"])
    names = [str(each.get("name")) for each in running]
    if job and not named:
        raise BadInput(f"{base} has no job {job!r}; {suggest(job, names)}")
    if not named:
        raise BadInput(f"{base} has no running job; start one")
    raise BadInput(f"{base} has {len(named)} such jobs ({', '.join(names)}); choose one by its id with --job")


def _get(url: str, needed: bool = True) -> Json:
    try:
        with urllib.request.urlopen(url, timeout=PATIENCE_S) as answer:
            return json.loads(answer.read())
    except (OSError, ValueError, urllib.error.URLError) as error:
        if not needed:
            return None
        raise BadInput(f"{url} gives no answer of Flink's REST API ({error}); check the address") from None
