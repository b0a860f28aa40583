"""Reads a running Flink job from its REST answers, with checks: vertices with readings, streams, machines."""

from __future__ import annotations

import html
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import fmean, median

from streamtwin.connect.importers.flink_answers import ACCUMULATED, COMPLETE, CPU, MARKERS, OF_A_SECOND, Answers
from streamtwin.connect.importers.flink_form import RUNNING, ReadingAnswer, Subtask, VertexAnswer, finite
from twin.errors import BadInput

COUNTERS = ("read-records", "write-records", "read-bytes", "write-bytes")
CALLS = "async wait operator"
"""Flink's description of an asynchronous call that its job gives no name."""
VERSIONS = ((1, 13), (3, 0))
"""First known version of Flink, and the first that is not known."""
SEEN = 5
"""Fewest sightings of busy threads that tell the share of them that is asleep."""
SOUND = 0.1
"""Largest relative difference between the time in all states and the time that passed."""


@dataclass(frozen=True, slots=True)
class Vertex:
    """Vertex of a job: one or more chained operators. Rates are of all subtasks together; None: not measured. steps:

    descriptions of its operators. inputs: ids of producers, and how they ship. hosts: of the subtasks, or empty; dealt:
    records that each has taken, or empty. busy, backpressured: shares of time; busy of calls is not known, as Flink
    counts waits for a place as busy. asleep: share of the busy time without computing or waiting for a core. passed_s:
    seconds for which it was watched.
    """

    id: str
    name: str
    steps: tuple[str, ...]
    inputs: tuple[tuple[str, str], ...]
    parallelism: int
    key_groups: int
    hosts: tuple[str, ...]
    dealt: tuple[float, ...]
    in_per_s: float
    out_per_s: float
    out_bytes_per_s: float
    busy: float | None
    backpressured: float | None
    marker_s: float | None = None
    asleep: float = 0.0
    passed_s: float = 0.0


@dataclass(frozen=True, slots=True)
class TaskManagers:
    """Task managers of one address together, with the hardware that they report. cpu: cores that their JVMs used; None:
    not measured."""

    name: str
    cores: float
    ram_mb: float
    cpu: float | None = None


@dataclass(frozen=True, slots=True)
class FlinkJob:
    """Running Flink job. settings: configuration by key. state_bytes: of the last checkpoint, 0 if there is none."""

    name: str
    version: str
    vertices: tuple[Vertex, ...]
    machines: tuple[TaskManagers, ...]
    settings: Mapping[str, str]
    state_bytes: float
    notes: tuple[str, ...]


def read_job(answers: Answers) -> FlinkJob:
    """Job in Flink's answers. Raises BadInput, naming the answer and the error, if it does not run or is no job."""
    job = answers.job
    _check(answers)
    notes: list[str] = []
    managers, machines = _machines(answers)
    notes += _as_one(managers)
    vertices = tuple(_vertex(answers, number, managers, notes) for number, _ in enumerate(job.vertices))
    used = _used(answers, managers, median(each.passed_s for each in vertices))
    if answers.first is None:
        notes.append("readings are means since the job started, its warm-up included; a live import takes a window")
    if not _known(answers.version):
        version = f"{answers.version!r} is no version that this was made for" if answers.version else "is unknown"
        notes.append(f"the version of Flink {version}; answers are read as those of 1.13 to 2")
    return FlinkJob(
        name=job.name,
        version=answers.version,
        vertices=vertices,
        machines=tuple(replace(each, cpu=used[each.name]) for each in machines),
        settings={each.key: str(each.value) for each in answers.config},
        state_bytes=_state_bytes(answers),
        notes=tuple(notes),
    )


def _check(answers: Answers) -> None:
    """Raises BadInput if the job does not run, or if plan and job are not of the same run."""
    where, vertices = answers.where, {each.id: each for each in answers.job.vertices}
    if not vertices:
        raise BadInput(f"{where}: the job has no vertices, so there is nothing to import")
    if answers.job.state != RUNNING:
        raise BadInput(
            f"{where}: the job is {answers.job.state}; its rates are known while it is RUNNING, so import it then"
        )
    for each in answers.job.vertices:
        if each.status != RUNNING:
            raise BadInput(f"{where}: {each.name} is {each.status}; import the job while all its vertices are RUNNING")
    nodes = {each.id: each for each in answers.plan.plan.nodes}
    fed = {source.id for each in nodes.values() for source in each.inputs}
    for id_ in (*vertices, *fed):
        if id_ not in nodes or id_ not in vertices:
            name = vertices[id_].name if id_ in vertices else id_
            raise BadInput(f"{where}: the plan has no node of vertex {name!r}; save plan and job of the same run")


def _known(version: str) -> bool:
    found = re.match(r"(\d+)\.(\d+)", version)
    return found is not None and VERSIONS[0] <= (int(found[1]), int(found[2])) < VERSIONS[1]


def _vertex(answers: Answers, number: int, managers: Mapping[str, str], notes: list[str]) -> Vertex:
    given = answers.job.vertices[number]
    name, parallelism = given.name, given.parallelism
    node = next(each for each in answers.plan.plan.nodes if each.id == given.id)
    first = () if answers.first is None else answers.first.vertices
    before = next((each for each in first if each.id == given.id), None)
    detail = answers.details[number] if number < len(answers.details) else None
    subtasks = [] if detail is None else detail.subtasks
    dealt = [finite(each.metrics.get("read-records")) for each in subtasks]
    counts = _differences(given, before, COUNTERS, f"{answers.where}: {name}")
    states = _differences(given, before, ACCUMULATED, f"{answers.where}: {name}")
    passed_s = _passed_s(answers, given)
    spent_ms = sum(states[each] or 0.0 for each in ACCUMULATED)
    sound = all(states[each] is not None for each in ACCUMULATED) and spent_ms > 0
    if sound:
        seconds = spent_ms / 1000.0 / parallelism
        if abs(seconds / passed_s - 1.0) > SOUND:
            notes.append(
                f"{name}: its states add up to {seconds:.1f} s of {passed_s:.1f} s; readings are stale or partial"
            )
        passed_s = seconds
    busy, backpressured = (
        (max(0.0, states[key] or 0.0) / spent_ms for key in ACCUMULATED[:2]) if sound else _averages(answers, number)
    )
    if busy is None:
        notes.append(
            f"{name}: no busy time (NaN or absent), as of sources of the old interface; its cost is the profile's"
        )
    steps = _steps(name if node.description is None else node.description)
    rates = {each: (counts[each] or 0.0) / passed_s for each in COUNTERS}
    lacking = [each for each in COUNTERS if counts[each] is None]
    if len(lacking) == len(COUNTERS):
        raise BadInput(
            f"{answers.where}: {name} has no metrics ({', '.join(COUNTERS)}); save the answer of a running job"
        )
    if lacking:
        notes.append(f"{name}: {', '.join(lacking)} not measured; taken as 0")
    return Vertex(
        id=given.id,
        name=name,
        steps=steps,
        inputs=tuple((each.id, each.ship_strategy) for each in node.inputs),
        parallelism=parallelism,
        key_groups=given.maxParallelism,
        hosts=tuple(_host(answers.where, each, managers, name) for each in subtasks),
        dealt=tuple(each for each in dealt if each is not None) if None not in dealt else (),
        in_per_s=rates["read-records"],
        out_per_s=rates["write-records"],
        out_bytes_per_s=rates["write-bytes"],
        busy=None if CALLS in steps else busy,
        backpressured=backpressured,
        passed_s=passed_s,
        marker_s=_marker_s(answers, number),
        asleep=0.0 if CALLS in steps else _asleep(answers, number),
    )


def _averages(answers: Answers, number: int) -> tuple[float | None, float | None]:
    """Shares of time, busy and backpressured, as subtasks report them; None if they do not."""
    found = answers.averages[number] if number < len(answers.averages) else ()
    shares = {each.id: finite(each.avg) for each in found}
    busy, backpressured = (shares.get(key) for key in OF_A_SECOND)
    return busy and max(0.0, busy) / 1000.0, backpressured and max(0.0, backpressured) / 1000.0


def _asleep(answers: Answers, number: int) -> float:
    """Share of the busy time that threads are asleep, by those that were seen; 0 if too few were."""
    seen = answers.threads[number] if number < len(answers.threads) else None
    count = seen.asleep + seen.computing if seen else 0
    return seen.asleep / count if seen and count >= SEEN else 0.0


def _used(answers: Answers, managers: Mapping[str, str], passed_s: float) -> dict[str, float | None]:
    """Cores that the JVMs of each machine used; None unless all of them reported it twice."""
    found: dict[str, float | None] = dict.fromkeys(managers.values(), 0.0)
    for number, (_, name) in enumerate(managers.items()):
        times = [_cpu_s(each[number]) if number < len(each) else None for each in (answers.cpu_first, answers.cpu)]
        before, now, sum_ = *times, found[name]
        if before is None or now is None or sum_ is None or now < before:
            found[name] = None
        else:
            found[name] = sum_ + (now - before) / passed_s
    return found


def _cpu_s(metrics: Sequence[ReadingAnswer]) -> float | None:
    value = next((finite(each.value) for each in metrics if each.id == CPU), None)
    return None if value is None else value * 1e-9


def _marker_s(answers: Answers, number: int) -> float | None:
    """Mean age of latency markers over sources and subtasks (s); None if there are none."""
    readings = answers.markers[number] if number < len(answers.markers) else ()
    values = [finite(each.value) for each in readings if each.id.endswith(MARKERS)]
    known = [value / 1000.0 for value in values if value is not None]
    return fmean(known) if known else None


def _differences(
    given: VertexAnswer, before: VertexAnswer | None, keys: tuple[str, ...], where: str
) -> dict[str, float | None]:
    found: dict[str, float | None] = {}
    both = [each.metrics for each in (given, before) if each is not None]
    for key in keys:
        if not all(metrics.get(f"{key}{COMPLETE}", True) for metrics in both):
            raise BadInput(
                f"{where}: {key} is of some of its subtasks only ({key}{COMPLETE} is false); import it again"
            )
        now, *earlier = (finite(metrics.get(key)) for metrics in both)
        if key in COUNTERS and now is not None and now < 0:
            raise BadInput(f"{where}: {key} is {now:g}, and nothing counts below 0; save the answer again")
        then = earlier[0] if earlier else None
        if now is not None and then is not None:
            if now < then and key in COUNTERS:
                raise BadInput(
                    f"{where}: {key} fell from {then:g} to {now:g}, so the job was restarted; import it again"
                )
            now -= then
        found[key] = now
    return found


def _passed_s(answers: Answers, vertex: VertexAnswer) -> float:
    if answers.first is not None:
        passed_ms = (finite(answers.job.now) or 0.0) - (finite(answers.first.now) or 0.0)
    else:
        passed_ms = finite(vertex.duration) or 0.0
    if passed_ms <= 0:
        raise BadInput(f"{answers.where}: no time has passed in these answers; take a longer --window")
    return passed_ms / 1000.0


def _machines(answers: Answers) -> tuple[dict[str, str], tuple[TaskManagers, ...]]:
    """Machine of each task manager, by the manager's id; and all machines."""
    if not answers.managers.taskmanagers:
        raise BadInput(f"{answers.where}: there is no task manager in these answers; save GET /taskmanagers")
    machine_of, found = {}, {}
    for each in answers.managers.taskmanagers:
        address = re.search(r"@([^:/]+)", each.path)
        name = re.sub(r"[^A-Za-z0-9_.:@#-]", "-", address.group(1) if address else each.id.partition(":")[0])
        cores, memory = (finite(each.hardware.get(key)) for key in ("cpuCores", "physicalMemory"))
        if not cores or not memory:
            raise BadInput(f"{answers.where}: task manager {each.id} does not say its cpuCores and physicalMemory")
        machine_of[each.id] = name
        found[name] = TaskManagers(name, cores, memory / 1e6)
    return machine_of, tuple(found.values())


def _as_one(managers: Mapping[str, str]) -> list[str]:
    """Notes on machines with several task managers. managers: the machine of each."""
    counts = Counter(managers.values())
    return [
        f"{name}: its {count} task managers are one host, so streams between them count as streams within one, with "
        "fewer buffers"
        for name, count in counts.items()
        if count > 1
    ]


def _host(where: str, subtask: Subtask, managers: Mapping[str, str], name: str) -> str:
    if subtask.manager not in managers:
        raise BadInput(f"{where}: a subtask of {name} is on task manager {subtask.manager!r}, which is not listed")
    return managers[subtask.manager]


def _steps(description: str) -> tuple[str, ...]:
    """Descriptions of the chained operators, first to last."""
    lines = re.split(r"<br\s*/?>", description)
    return tuple(line for line in (html.unescape(each).strip().lstrip("+-: ").strip() for each in lines) if line)


def _state_bytes(answers: Answers) -> float:
    latest = answers.checkpoints and answers.checkpoints.latest
    return (finite(latest.completed.state_size) if latest and latest.completed else None) or 0.0
