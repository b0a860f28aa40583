"""Reads a running Flink job from its REST answers, with checks: vertices with readings, streams, machines."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from statistics import fmean, median
from typing import NamedTuple

from streamtwin.connect.importers.flink_answers import (
    ACCUMULATED,
    COMPLETE,
    CPU,
    MARKERS,
    OF_A_SECOND,
    RUNNING,
    SEEN,
    Answers,
    CheckpointConfig,
    Manager,
    ReadingAnswer,
    Subtask,
    VertexAnswer,
    finite,
)
from streamtwin.connect.importers.flink_chain import COUNTED, Step, is_planned, steps_of
from twin.errors import BadInput
from twin.quantities import written

COUNTERS = ("read-records", "write-records", "read-bytes", "write-bytes")
CALLS = "async wait operator"
"""Flink's description of an asynchronous call that its job gives no name."""
VERSIONS = ((1, 13), (3, 0))
"""First known version of Flink, and the first that is not known."""
BY_KEY = re.compile(r"\b(?:partitionBy|groupBy|key)=\[[^\]]")
"""Keys in the description of an operator of SQL; without any, the brackets are empty."""
BEFORE = ("CREATED", "SCHEDULED", "DEPLOYING", "INITIALIZING")
"""States of a subtask that does not run yet."""
MOST_HARDWARE: Mapping[str, float] = {"cpuCores": 10_000, "physicalMemory": 1e15}
"""Most cores, and bytes of memory, of a machine, by Flink's key; a damaged answer has more."""
SOUND = 0.1
"""Largest relative difference between the time in all states and the time that passed."""


@dataclass(frozen=True, slots=True)
class Vertex:
    """Vertex of a job: one or more chained operators. Rates are of all subtasks together; None: not measured. chain:
    its operators. inputs: ids of producers, and how they ship. hosts: of the subtasks, or empty. dealt:
    records that each has taken, or empty. busy, backpressured: shares of time; busy of calls is not known, as Flink
    counts waits for a place as busy. asleep: share of the busy time without computing or waiting for a core. passed_s:
    seconds for which it was watched. lived_s: seconds since it started. taken: records since then. state_bytes: in the
    last checkpoint; None: not known.
    """

    id: str
    name: str
    chain: tuple[Step, ...]
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
    lived_s: float = 0.0
    taken: float = 0.0
    state_bytes: float | None = None

    @property
    def steps(self) -> tuple[str, ...]:
        """Descriptions of its operators."""
        return tuple(each.text for each in self.chain)

    @property
    def is_planned(self) -> bool:
        """Whether it is of a SQL query."""
        return is_planned(self.name) or any(each.word for each in self.chain)

    @property
    def keyed(self) -> bool:
        """Whether it works by key. Its records are shipped by hash, or its first operator has keys: Flink does not ship
        records again that are together already. A local phase has keys, too, but works on what comes to its subtask."""
        first = self.chain[0]
        told = bool(self.inputs) and not first.word.startswith("Local") and BY_KEY.search(first.text) is not None
        return told or any(how == "HASH" for _, how in self.inputs)


@dataclass(frozen=True, slots=True)
class TaskManagers:
    """Task managers of one address together, with the hardware that they report. cpu: cores that their JVMs used; None:
    not measured."""

    name: str
    cores: float
    ram_mb: float
    cpu: float | None = None


class Taken(NamedTuple):
    """Complete checkpoint: bytes that were uploaded, and how long it took."""

    bytes: float
    took_s: float


@dataclass(frozen=True, slots=True)
class FlinkJob:
    """Running Flink job. settings: configuration by key. state_bytes: of the last checkpoint, 0 if there is none.
    taken: its complete checkpoints that Flink remembers. grown: by vertex, its state (bytes) in an older and in the
    last checkpoint, and the seconds between them. deployed_s: from the creation of the subtasks until the last one ran;
    None: not known."""

    name: str
    version: str
    vertices: tuple[Vertex, ...]
    machines: tuple[TaskManagers, ...]
    settings: Mapping[str, str]
    state_bytes: float
    notes: tuple[str, ...]
    checkpoint_config: CheckpointConfig | None = None
    taken: tuple[Taken, ...] = ()
    grown: Mapping[str, tuple[float, float, float]] = field(default_factory=dict)
    deployed_s: float | None = None


def read_job(answers: Answers) -> FlinkJob:
    """Job in Flink's answers. Raises BadInput, naming the answer and the error, if it does not run or is no job."""
    job = answers.job
    _check(answers)
    notes = list(answers.notes)
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
        checkpoint_config=answers.checkpoint_config,
        taken=_taken(answers),
        grown=_grown(answers),
        deployed_s=_deployed_s(answers),
    )


def _deployed_s(answers: Answers) -> float | None:
    """Longest time that a subtask was in the states before it ran; None if no answer has times of states."""
    lasted = [each.lasted for detail in answers.details if detail for each in detail.subtasks if each.lasted]
    sums_ms = [sum(max(0.0, finite(each.get(state)) or 0.0) for state in BEFORE) for each in lasted]
    return max(sums_ms) / 1000 if sums_ms else None


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
    for counter in COUNTERS:
        read = given.metrics.get(counter)
        if isinstance(read, str) and finite(read) is None:
            raise BadInput(f"{answers.where}: {name}: {counter} is {read!r}, which is no number; save the answer again")
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
    chain = steps_of(name, node.description, _counters(answers, number, passed_s), _sums(answers.operators, number))
    calls = any(each.text == CALLS for each in chain)
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
        chain=chain,
        inputs=tuple((each.id, each.ship_strategy) for each in node.inputs),
        parallelism=parallelism,
        key_groups=given.maxParallelism,
        hosts=tuple(_host(answers.where, each, managers, name) for each in subtasks),
        dealt=tuple(each for each in dealt if each is not None) if None not in dealt else (),
        in_per_s=rates["read-records"],
        out_per_s=rates["write-records"],
        out_bytes_per_s=rates["write-bytes"],
        busy=None if calls else busy,
        backpressured=backpressured,
        passed_s=passed_s,
        marker_s=_marker_s(answers, number),
        asleep=0.0 if calls else _asleep(answers, number),
        lived_s=(finite(given.duration) or 0.0) / 1000.0,
        taken=finite(given.metrics.get("read-records")) or 0.0,
        state_bytes=_state_of(answers, given.id),
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
        cores, memory = (_amount(answers.where, each, key, most) for key, most in MOST_HARDWARE.items())
        machine_of[each.id] = name
        found[name] = TaskManagers(name, cores, memory / 1e6)
    return machine_of, tuple(found.values())


def _amount(where: str, manager: Manager, key: str, most: float) -> float:
    """Amount of the hardware of a task manager, above 0. Raises BadInput if it says none, or one beyond `most`."""
    said = manager.hardware.get(key)
    found = None if isinstance(said, bool) else finite(said)
    if found is None or not 0.0 < found <= most:
        about = "does not say its" if said is None else "says"
        value = "" if said is None else f" {str(said)[:40]!r}"
        raise BadInput(
            f"{where}: task manager {manager.id} {about} {key}{value}; it is a number above 0, up to {written(most)}: "
            "save GET /taskmanagers again"
        )
    return found


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


def _counters(answers: Answers, number: int, passed_s: float) -> dict[str, float]:
    """Counters of a vertex's operators, by operator and name of the counter: records a second of all subtasks. Those
    that fell, or have only the first of two readings, are left out."""
    now, before = (_sums(each, number) for each in (answers.operators, answers.operators_first))
    if answers.first is not None:
        now = {key: value - before[key] for key, value in now.items() if key in before}
    return {key: value / passed_s for key, value in now.items() if value >= 0}


def _sums(answers: Sequence[list[ReadingAnswer]], number: int) -> dict[str, float]:
    """Sums of counters over subtasks, by their names without the subtask's index; those that all subtasks have."""
    found: dict[str, list[float | None]] = {}
    for each in answers[number] if number < len(answers) else ():
        subtask, _, key = each.id.partition(".")
        if subtask.isdigit() and key.rpartition(".")[2] in COUNTED:
            found.setdefault(key, []).append(finite(each.value))
    return {
        key: sum(each for each in values if each is not None) for key, values in found.items() if None not in values
    }


def _state_of(answers: Answers, vertex: str) -> float | None:
    """State of a vertex in the last checkpoint (bytes); None if it was not asked for."""
    task = answers.checkpoint.tasks.get(vertex) if answers.checkpoint else None
    return None if task is None else finite(task.state_size)


def _state_bytes(answers: Answers) -> float:
    latest = answers.checkpoints and answers.checkpoints.latest
    return (finite(latest.completed.state_size) if latest and latest.completed else None) or 0.0


def _taken(answers: Answers) -> tuple[Taken, ...]:
    """Complete checkpoints that Flink remembers, but for savepoints. Older versions tell the size of the state only."""
    found = []
    for each in answers.checkpoints.history if answers.checkpoints else ():
        size, took_ms = finite(each.checkpointed_size), finite(each.end_to_end_duration)
        size = finite(each.state_size) if size is None else size
        if each.status == "COMPLETED" and not each.is_savepoint and took_ms is not None and took_ms >= 0.0:
            found.append(Taken(max(0.0, size or 0.0), took_ms / 1000.0))
    return tuple(found)


def _grown(answers: Answers) -> dict[str, tuple[float, float, float]]:
    """States of vertices in two checkpoints, and the seconds between these, if both were asked for."""
    first, last = answers.checkpoint_first, answers.checkpoint
    times = [finite(each.trigger_timestamp) for each in (first, last) if each is not None]
    if first is None or last is None or len(times) < 2 or times[0] is None or times[1] is None:
        return {}
    found = {}
    for vertex, task in last.tasks.items():
        before = finite(first.tasks[vertex].state_size) if vertex in first.tasks else None
        now = finite(task.state_size)
        if before is not None and now is not None:
            found[vertex] = (before, now, (times[1] - times[0]) / 1000.0)
    return found
