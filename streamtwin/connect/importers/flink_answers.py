"""Answers of Flink's REST API about one job, the form that they must have, and the files in which they are saved."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, TypeVar

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    TypeAdapter,
    ValidationError,
    model_validator,
)

from twin.errors import BadInput, suggest
from twin.files import parse_json

# their form ----------------------------------------------------------------------------------------------------------
# Form of the answers of Flink's REST API that are read; other answers are refused before they are used.


RUNNING = "RUNNING"
MOST_SUBTASKS = 2**15
"""Largest parallelism: Flink's own limit of key groups."""
T = TypeVar("T")


def finite(value: Any) -> float | None:
    """Reading as a number; None if it is not finite or no number."""
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        return None
    return number if math.isfinite(number) else None


def printable(text: str) -> str:
    """Text on one line, without control characters."""
    return "".join(char if char.isprintable() else "\ufffd" for char in text)


def _nothing(value: Any) -> Any:
    return {} if value is None else value


Text = Annotated[str, AfterValidator(printable)]
Metrics = Annotated[dict[str, Any], BeforeValidator(_nothing)]
Subtasks = Annotated[int, Field(ge=1, le=MOST_SUBTASKS)]


class RestAnswer(BaseModel):
    """Base of answers, which keeps keys that are not read, so that answers are saved as they came."""

    model_config = ConfigDict(extra="allow")


class VertexAnswer(RestAnswer):
    id: Text
    name: Text
    parallelism: Subtasks
    maxParallelism: Subtasks = 128  # noqa: N815  Flink's own name
    status: Text = RUNNING
    duration: Any = None
    metrics: Metrics = {}


class JobAnswer(RestAnswer):
    """Answer to GET /jobs/:id."""

    name: Text = "flink-job"
    state: Text = "unknown"
    now: Any = None
    vertices: list[VertexAnswer]


class Listed(RestAnswer):
    jid: Text
    name: Text
    state: Text


class JobsAnswer(RestAnswer):
    """Answer to GET /jobs/overview."""

    jobs: list[Listed]


class PlanInput(RestAnswer):
    id: Text
    ship_strategy: Text = ""


class PlanNode(RestAnswer):
    id: Text
    description: str | None = None
    inputs: list[PlanInput] = []


class PlanNodes(RestAnswer):
    nodes: list[PlanNode]


class PlanAnswer(RestAnswer):
    """Answer to GET /jobs/:id/plan, saved with the key `plan` around it or without."""

    plan: PlanNodes

    @model_validator(mode="before")
    @classmethod
    def _around(cls, value: Any) -> Any:
        return {"plan": value} if isinstance(value, Mapping) and "plan" not in value else value


class Manager(RestAnswer):
    id: Text
    path: Text = ""
    hardware: Metrics = {}


class ManagersAnswer(RestAnswer):
    """Answer to GET /taskmanagers."""

    taskmanagers: list[Manager]


class Setting(RestAnswer):
    key: Text
    value: Any = None


class Subtask(RestAnswer):
    manager: Annotated[Text, Field(alias="taskmanager-id")] = ""
    metrics: Metrics = {}
    lasted: Annotated[Metrics, Field(alias="status-duration")] = {}


class DetailAnswer(RestAnswer):
    """Answer to GET /jobs/:id/vertices/:id."""

    subtasks: list[Subtask] = []


class ReadingAnswer(RestAnswer):
    id: Text
    value: Any = None


class AverageAnswer(RestAnswer):
    id: Text
    avg: Any = None


class ThreadInfo(RestAnswer):
    name: Annotated[Text, Field(alias="threadName")]
    text: Annotated[str, Field(alias="stringifiedThreadInfo")] = ""


class DumpAnswer(RestAnswer):
    """Answer to GET /taskmanagers/:id/thread-dump."""

    threads: Annotated[list[ThreadInfo], Field(alias="threadInfos")] = []


class ThreadsAnswer(RestAnswer):
    """Numbers of sightings of a vertex's threads: computing (or waiting for a core), and asleep."""

    computing: Annotated[int, Field(ge=0)] = 0
    asleep: Annotated[int, Field(ge=0)] = 0


class TaskState(RestAnswer):
    state_size: Any = None


class CheckpointAnswer(RestAnswer):
    """Answer to GET /jobs/:id/checkpoints/details/:checkpointid. tasks: by vertex."""

    trigger_timestamp: Any = None
    tasks: dict[str, TaskState] = {}


class CheckpointConfig(RestAnswer):
    """Answer to GET /jobs/:id/checkpoints/config. Times are in ms."""

    mode: Text = ""
    interval: Any = None
    timeout: Any = None
    min_pause: Any = None
    max_concurrent: Any = None
    unaligned_checkpoints: Any = None
    aligned_checkpoint_timeout: Any = None
    tolerable_failed_checkpoints: Any = None
    state_backend: Text | None = None


class Completed(RestAnswer):
    id: Any = None
    status: Text = ""
    state_size: Any = None
    checkpointed_size: Any = None
    is_savepoint: Any = None
    end_to_end_duration: Any = None
    trigger_timestamp: Any = None


class Latest(RestAnswer):
    completed: Completed | None = None


class CheckpointsAnswer(RestAnswer):
    """Answer to GET /jobs/:id/checkpoints."""

    latest: Latest | None = None
    history: list[Completed] = []


class VersionAnswer(RestAnswer):
    """Answer to GET /overview."""

    version: Annotated[Text | None, Field(alias="flink-version")] = None


SETTINGS = TypeAdapter(list[Setting])
"""Answer to GET /jobmanager/config."""
READINGS = TypeAdapter(list[ReadingAnswer])
"""Answer to GET /jobs/:id/vertices/:id/metrics, and to GET /taskmanagers/:id/metrics."""

AVERAGES = TypeAdapter(list[AverageAnswer])
"""Answer to GET /jobs/:id/vertices/:id/subtasks/metrics."""


def formed(form: type[T] | TypeAdapter[T], answer: Any, where: str) -> T:
    """Answer in its form. Raises BadInput, naming the first place where the answer differs from the form."""
    try:
        return (form if isinstance(form, TypeAdapter) else TypeAdapter(form)).validate_python(answer)
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(map(str, first["loc"])) or "it"
        raise BadInput(f"{where} is no such answer of Flink: {place}: {first['msg']}; save it again") from None


# answers -------------------------------------------------------------------------------------------------------------


MOST_BYTES = 64 * 2**20
"""Most bytes of one answer. Answers about jobs with hundreds of vertices have a thousandth of this."""
JOB = "_jobs_id.json"
COMPLETE = "-complete"
"""Ending of the key that tells whether a metric covers all subtasks."""
MARKERS = "latency_mean"
"""Ending of the names of metrics on latency markers."""
ASSUMED_BYTES = 16e9
"""Memory of a machine of which nothing is known."""
ACCUMULATED = ("accumulated-busy-time", "accumulated-backpressured-time", "accumulated-idle-time")
"""Keys of a vertex's times in each state, which newer versions of Flink add up."""
SEEN = 3
"""Fewest sightings of busy threads that tell the share of them that is asleep."""
OF_A_SECOND = ("busyTimeMsPerSecond", "backPressuredTimeMsPerSecond")
"""Metrics of subtasks for the first two of these times, means over a time of Flink's own."""
CPU = "Status.JVM.CPU.Time"
"""Metric of the nanoseconds of CPU that a task manager's JVM has used."""

Form = type[T] | TypeAdapter[T]


@dataclass(frozen=True, slots=True)
class Answers:
    """Answers about one job. first: an earlier snapshot of the job; None: all counters are since its start.

    details: by vertex, places of its subtasks; absent if they were not requested. markers: by vertex, ages of latency
    markers, if the job has any. averages: by vertex, shares of time over its subtasks, where Flink does not add up
    times. threads: by vertex, counts of what threads did. managers, config: of the cluster. cpu, cpu_first: metrics of
    each task manager at the last and at the first snapshot. operators, operators_first: by vertex, counters of the
    operators in it, at both. checkpoint, checkpoint_first: the last complete checkpoint, and the oldest that is known.
    notes: on what is assumed.
    """

    where: str
    first: JobAnswer | None
    job: JobAnswer
    plan: PlanAnswer
    details: tuple[DetailAnswer | None, ...]
    managers: ManagersAnswer
    markers: tuple[list[ReadingAnswer], ...] = ()
    averages: tuple[list[AverageAnswer], ...] = ()
    threads: tuple[ThreadsAnswer | None, ...] = ()
    cpu: tuple[list[ReadingAnswer], ...] = ()
    cpu_first: tuple[list[ReadingAnswer], ...] = ()
    config: list[Setting] = field(default_factory=list)
    checkpoints: CheckpointsAnswer | None = None
    checkpoint: CheckpointAnswer | None = None
    checkpoint_first: CheckpointAnswer | None = None
    checkpoint_config: CheckpointConfig | None = None
    operators: tuple[list[ReadingAnswer], ...] = ()
    operators_first: tuple[list[ReadingAnswer], ...] = ()
    version: str = ""
    notes: tuple[str, ...] = ()

    def saved(self) -> dict[str, Any]:
        """Answers by the file in which `from_folder` looks for them."""
        files = {
            "job_jobs_id.json": self.job,
            "job_jobs_id_plan.json": self.plan,
            "taskmanagers.json": self.managers,
            "job_jobs_id_first.json": self.first,
            "job_jobs_id_checkpoints.json": self.checkpoints,
            "job_jobs_id_checkpoints_details.json": self.checkpoint,
            "job_jobs_id_checkpoints_details_first.json": self.checkpoint_first,
            "job_jobs_id_checkpoints_config.json": self.checkpoint_config,
            "jobmanager_config.json": self.config,
            "overview.json": {"flink-version": self.version} if self.version else None,
            **{f"job_v{number}_detail.json": each for number, each in enumerate(self.details)},
            **{f"job_v{number}_latency_markers.json": each for number, each in enumerate(self.markers)},
            **{f"job_v{number}_subtasks_metrics.json": each for number, each in enumerate(self.averages)},
            **{f"job_v{number}_threads.json": each for number, each in enumerate(self.threads)},
            **{f"job_v{number}_operators.json": each for number, each in enumerate(self.operators)},
            **{f"job_v{number}_operators_first.json": each for number, each in enumerate(self.operators_first)},
            **{f"job_taskmanager_{number}_metrics.json": each for number, each in enumerate(self.cpu)},
            **{f"job_taskmanager_{number}_metrics_first.json": each for number, each in enumerate(self.cpu_first)},
        }
        return {name: _plain(each) for name, each in files.items() if each}


def _plain(answer: Any) -> Any:
    if isinstance(answer, list):
        return [_plain(each) for each in answer]
    return answer.model_dump(by_alias=True, exclude_unset=True) if isinstance(answer, BaseModel) else answer


def from_folder(folder: Path, job: str | None = None) -> Answers:
    """Reads saved answers: NAME_jobs_id.json, NAME_jobs_id_plan.json, NAME_v0_detail.json, ..., taskmanagers.json.

    job: the NAME; may be left out if there is one. Raises BadInput if an answer is missing or malformed.
    """
    names = sorted(each.name.removesuffix(JOB) for each in folder.glob(f"*{JOB}"))
    if not names:
        raise BadInput(f"{folder} holds no answer of a job (NAME{JOB}); save GET /jobs/:id under that name")
    if job is None and len(names) > 1:
        raise BadInput(f"{folder} has answers of several jobs ({', '.join(names)}); choose one with --job")
    name = job or names[0]
    if name not in names:
        raise BadInput(f"{folder} has no job {name!r}; {suggest(name, names)}")

    def read(file: str, form: Form[T]) -> T | None:
        path = folder / file
        answer = _parsed(path) if path.is_file() else None
        return None if answer is None else formed(form, answer, str(path))

    def needed(file: str, form: Form[T]) -> T:
        answer = read(file, form)
        if answer is None:
            raise BadInput(f"{folder / file} is missing; save that answer of Flink's REST API under this name")
        return answer

    last = needed(f"{name}{JOB}", JobAnswer)
    numbers = range(len(last.vertices))
    version = read("overview.json", VersionAnswer)
    managers = needed("taskmanagers.json", ManagersAnswer)

    def of_vertices(ending: str) -> tuple[list[ReadingAnswer], ...]:
        return tuple(read(f"{name}_v{number}_{ending}.json", READINGS) or [] for number in numbers)

    def of_managers(when: str) -> tuple[list[ReadingAnswer], ...]:
        files = (f"{name}_taskmanager_{number}_metrics{when}.json" for number in range(len(managers.taskmanagers)))
        return tuple(read(file, READINGS) or [] for file in files)

    return Answers(
        where=f"{folder}, job {name}",
        first=read(f"{name}_jobs_id_first.json", JobAnswer),
        job=last,
        plan=needed(f"{name}_jobs_id_plan.json", PlanAnswer),
        details=tuple(read(f"{name}_v{number}_detail.json", DetailAnswer) for number in numbers),
        markers=of_vertices("latency_markers"),
        averages=tuple(read(f"{name}_v{number}_subtasks_metrics.json", AVERAGES) or [] for number in numbers),
        threads=tuple(read(f"{name}_v{number}_threads.json", ThreadsAnswer) for number in numbers),
        managers=managers,
        cpu=of_managers(""),
        cpu_first=of_managers("_first"),
        config=read("jobmanager_config.json", SETTINGS) or [],
        checkpoints=read(f"{name}_jobs_id_checkpoints.json", CheckpointsAnswer),
        checkpoint=read(f"{name}_jobs_id_checkpoints_details.json", CheckpointAnswer),
        checkpoint_first=read(f"{name}_jobs_id_checkpoints_details_first.json", CheckpointAnswer),
        checkpoint_config=read(f"{name}_jobs_id_checkpoints_config.json", CheckpointConfig),
        operators=of_vertices("operators"),
        operators_first=of_vertices("operators_first"),
        version=(version and version.version) or "",
    )


def _parsed(path: Path) -> Any:
    """Saved answer. Raises BadInput if it is too long, or no JSON."""
    try:
        if path.stat().st_size > MOST_BYTES:
            raise ValueError(f"it has more than {MOST_BYTES >> 20} MiB")
        return parse_json(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise BadInput(f"{path} is no answer of Flink's REST API ({error}); save it again") from None


def from_file(path: Path) -> Answers:
    """Reads the answer to GET /jobs/:id alone, which has the plan in it. Machines are assumed: one, of a core for each
    subtask of the widest vertex. Raises BadInput if it is another answer."""
    answer = _parsed(path)
    if not isinstance(answer, dict) or "vertices" not in answer:
        raise BadInput(f"{path} has no rates; save the answer to GET /jobs/:id of the running job, which has vertices")
    if not answer.get("plan"):
        raise BadInput(f"{path} has no plan; put it into a folder with GET /jobs/:id/plan and GET /taskmanagers")
    job = formed(JobAnswer, answer, str(path))
    cores = max((each.parallelism for each in job.vertices), default=1)
    hardware = {"cpuCores": cores, "physicalMemory": ASSUMED_BYTES}
    note = (
        f"machines are assumed: one of {cores} cores and {ASSUMED_BYTES / 1e9:g} GB; set cluster.hosts.host, "
        "or save GET /taskmanagers and the answers of the vertices, too"
    )
    return Answers(
        where=str(path),
        first=None,
        job=job,
        plan=formed(PlanAnswer, {"plan": answer["plan"]}, str(path)),
        details=(),
        managers=ManagersAnswer(taskmanagers=[Manager(id="host", hardware=hardware)]),
        notes=(note,),
    )
