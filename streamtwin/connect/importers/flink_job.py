"""A running Flink job from its REST answers, checked: vertices with readings, streams, machines."""

from __future__ import annotations

import html
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from statistics import fmean

from streamtwin.connect.importers.flink_answers import COMPLETE, MARKERS, RUNNING, Answers, Json
from streamtwin.connect.importers.flink_form import check
from twin.errors import BadInput

COUNTERS = ("read-records", "write-records", "read-bytes", "write-bytes")
STATES = ("accumulated-busy-time", "accumulated-backpressured-time", "accumulated-idle-time")
VERSIONS = ((1, 13), (3, 0))
"""From the first on, and before the second."""
SOUND = 0.1
"""By how much the time in all states may differ from the time that passed."""


@dataclass(frozen=True, slots=True)
class Vertex:
    """One or more chained operators. steps: what they are. Rates are of all replicas together; None: not measured.

    inputs: ids of producers, with how they ship. hosts: of the replicas, or none; dealt: tuples that each has taken,
    or none. busy, backpressured: shares of time.
    """

    id: str
    name: str
    steps: tuple[str, ...]
    inputs: tuple[tuple[str, str], ...]
    replicas: int
    key_groups: int
    hosts: tuple[str, ...]
    dealt: tuple[float, ...]
    in_per_s: float
    out_per_s: float
    in_bytes_per_s: float
    out_bytes_per_s: float
    busy: float | None
    backpressured: float | None
    marker_s: float | None = None


@dataclass(frozen=True, slots=True)
class TaskManagers:
    """Task managers of one address together. It is what they say of the hardware below them."""

    name: str
    cores: float
    ram_mb: float


@dataclass(frozen=True, slots=True)
class FlinkJob:
    """settings: the configuration by key. state_bytes: of the last checkpoint, 0 if there is none."""

    name: str
    version: str
    vertices: tuple[Vertex, ...]
    machines: tuple[TaskManagers, ...]
    settings: Mapping[str, str]
    state_bytes: float
    notes: tuple[str, ...]


def read_job(answers: Answers) -> FlinkJob:
    """Raises BadInput, naming the answer and what is wrong, if the job is not running, or it is none."""
    where, job = answers.where, answers.job
    if not isinstance(job, Mapping) or not isinstance(job.get("vertices"), list) or not job["vertices"]:
        raise BadInput(f"{where}: this is no answer to GET /jobs/:id, it has no vertices; save that one")
    check(answers)
    state = str(job.get("state", "unknown"))
    if state != RUNNING:
        raise BadInput(f"{where}: the job is {state}; its rates mean something while it is RUNNING, import it then")
    for each in job["vertices"]:
        if (status := each.get("status", RUNNING)) != RUNNING:
            raise BadInput(
                f"{where}: {each.get('name')} is {status}; import the job while all its vertices are RUNNING"
            )
    notes: list[str] = []
    managers, machines = _machines(answers)
    nodes = _nodes(answers)
    vertices = tuple(_vertex(answers, number, nodes, managers, notes) for number, _ in enumerate(job["vertices"]))
    if answers.first is None:
        notes.append("readings are means since the job started, its warm-up included; a live import takes a window")
    if not _known(answers.version):
        version = f"{answers.version!r} is no version that this was made for" if answers.version else "is unknown"
        notes.append(f"the version of Flink {version}; answers are read as those of 1.13 to 2")
    return FlinkJob(
        name=str(job.get("name", "flink-job")),
        version=answers.version,
        vertices=vertices,
        machines=machines,
        settings={str(each.get("key")): str(each.get("value")) for each in answers.config},
        state_bytes=_state_bytes(answers.checkpoints),
        notes=tuple(notes),
    )


def _known(version: str) -> bool:
    found = re.match(r"(\d+)\.(\d+)", version)
    return found is not None and VERSIONS[0] <= (int(found[1]), int(found[2])) < VERSIONS[1]


def _vertex(
    answers: Answers, number: int, nodes: Mapping[str, Json], managers: Mapping[str, str], notes: list[str]
) -> Vertex:
    given = answers.job["vertices"][number]
    name, id_, replicas = str(given.get("name")), str(given.get("id")), int(given.get("parallelism", 1))
    node = nodes.get(id_)
    if node is None:
        raise BadInput(f"{answers.where}: the plan has no node of vertex {name!r}; save plan and job of the same run")
    before = next((each for each in (answers.first or {}).get("vertices", ()) if each.get("id") == id_), None)
    counts = _differences(given, before, COUNTERS, f"{answers.where}: {name}")
    states = _differences(given, before, STATES, f"{answers.where}: {name}")
    passed_s = _passed_s(answers, given)
    spent_ms = sum(states[each] or 0.0 for each in STATES)
    sound = all(states[each] is not None for each in STATES) and spent_ms > 0
    if sound:
        seconds = spent_ms / 1000.0 / replicas
        if abs(seconds / passed_s - 1.0) > SOUND:
            notes.append(
                f"{name}: its states add up to {seconds:.1f} s of {passed_s:.1f} s; readings are stale or partial"
            )
        passed_s = seconds
    else:
        notes.append(
            f"{name}: no busy time (NaN or absent), as of sources of the old interface; its cost is the profile's"
        )
    rates = {each: (counts[each] or 0.0) / passed_s for each in COUNTERS}
    lacking = [each for each in COUNTERS if counts[each] is None]
    if len(lacking) == len(COUNTERS):
        raise BadInput(
            f"{answers.where}: {name} has no metrics ({', '.join(COUNTERS)}); save the answer of a running job"
        )
    if lacking:
        notes.append(f"{name}: {', '.join(lacking)} not measured; taken as 0")
    return Vertex(
        id=id_,
        name=name,
        steps=_steps(str(node.get("description", name))),
        inputs=tuple((str(each["id"]), str(each.get("ship_strategy", ""))) for each in node.get("inputs", ())),
        replicas=replicas,
        key_groups=int(given.get("maxParallelism", 128)),
        hosts=_hosts(answers, number, managers, name),
        dealt=_dealt(answers, number),
        in_per_s=rates["read-records"],
        out_per_s=rates["write-records"],
        in_bytes_per_s=rates["read-bytes"],
        out_bytes_per_s=rates["write-bytes"],
        busy=max(0.0, states[STATES[0]] or 0.0) / spent_ms if sound else None,
        backpressured=(states[STATES[1]] or 0.0) / spent_ms if sound else None,
        marker_s=_marker_s(answers, number),
    )


def _marker_s(answers: Answers, number: int) -> float | None:
    """Mean age of latency markers over sources and subtasks; None where none came."""
    readings = answers.markers[number] if number < len(answers.markers) else ()
    values = [_number(each.get("value")) for each in readings if str(each.get("id")).endswith(MARKERS)]
    known = [value / 1000.0 for value in values if value is not None]
    return fmean(known) if known else None


def _differences(
    given: Mapping[str, Json], before: Mapping[str, Json] | None, keys: tuple[str, ...], where: str
) -> dict[str, float | None]:
    found: dict[str, float | None] = {}
    for key in keys:
        now, then = (_number((each or {}).get("metrics", {}).get(key)) for each in (given, before))
        if not all((each or {}).get("metrics", {}).get(f"{key}{COMPLETE}", True) for each in (given, before)):
            raise BadInput(
                f"{where}: {key} is of some of its subtasks only ({key}{COMPLETE} is false); import it again"
            )
        if key in COUNTERS and now is not None and now < 0:
            raise BadInput(f"{where}: {key} is {now:g}, and nothing counts below 0; save the answer again")
        if now is not None and before is not None and then is not None:
            if now < then and key in COUNTERS:
                raise BadInput(
                    f"{where}: {key} fell from {then:g} to {now:g}, so the job was restarted; import it again"
                )
            now -= then
        found[key] = now
    return found


def _number(value: Json) -> float | None:
    try:
        number = float(value)
    except (TypeError, ValueError):
        return None
    return number if math.isfinite(number) else None


def _passed_s(answers: Answers, vertex: Mapping[str, Json]) -> float:
    if answers.first is not None:
        passed_ms = (_number(answers.job.get("now")) or 0.0) - (_number(answers.first.get("now")) or 0.0)
    else:
        passed_ms = _number(vertex.get("duration")) or 0.0
    if passed_ms <= 0:
        raise BadInput(f"{answers.where}: no time has passed in these answers; take a longer --window")
    return passed_ms / 1000.0


def _nodes(answers: Answers) -> dict[str, Json]:
    plan = answers.plan.get("plan", answers.plan) if isinstance(answers.plan, Mapping) else {}
    if not isinstance(plan.get("nodes"), list):
        raise BadInput(f"{answers.where}: this is no answer to GET /jobs/:id/plan, it has no nodes; save that one")
    return {str(each.get("id")): each for each in plan["nodes"]}


def _machines(answers: Answers) -> tuple[dict[str, str], tuple[TaskManagers, ...]]:
    """The machine of each task manager, by its id; and all machines that there are."""
    listed = answers.managers.get("taskmanagers") if isinstance(answers.managers, Mapping) else None
    if not listed:
        raise BadInput(f"{answers.where}: there is no task manager in these answers; save GET /taskmanagers")
    machine_of, found = {}, {}
    for each in listed:
        id_, hardware = str(each.get("id")), each.get("hardware") or {}
        address = re.search(r"@([^:/]+)", str(each.get("path", "")))
        name = re.sub(r"[^A-Za-z0-9_.:@#-]", "-", address.group(1) if address else id_.partition(":")[0])
        cores, memory = _number(hardware.get("cpuCores")), _number(hardware.get("physicalMemory"))
        if not cores or not memory:
            raise BadInput(f"{answers.where}: task manager {id_} does not say its cpuCores and physicalMemory")
        machine_of[id_] = name
        found[name] = TaskManagers(name, cores, memory / 1e6)
    return machine_of, tuple(found.values())


def _hosts(answers: Answers, number: int, managers: Mapping[str, str], name: str) -> tuple[str, ...]:
    detail = answers.details[number] if number < len(answers.details) else None
    if detail is None:
        return ()
    hosts = []
    for subtask in detail.get("subtasks", ()):
        manager = str(subtask.get("taskmanager-id", ""))
        if manager not in managers:
            raise BadInput(f"{answers.where}: a subtask of {name} is on task manager {manager!r}, which is not listed")
        hosts.append(managers[manager])
    return tuple(hosts)


def _dealt(answers: Answers, number: int) -> tuple[float, ...]:
    detail = answers.details[number] if number < len(answers.details) else None
    subtasks = (detail or {}).get("subtasks", ())
    counts = [_number((each.get("metrics") or {}).get("read-records")) for each in subtasks]
    return tuple(each for each in counts if each is not None) if None not in counts else ()


def _steps(description: str) -> tuple[str, ...]:
    """Chained operators, first to last."""
    lines = re.split(r"<br\s*/?>", description)
    return tuple(line for line in (html.unescape(each).strip().lstrip("+-: ").strip() for each in lines) if line)


def _state_bytes(checkpoints: Mapping[str, Json] | None) -> float:
    latest = ((checkpoints or {}).get("latest") or {}).get("completed") or {}
    return _number(latest.get("state_size")) or 0.0
