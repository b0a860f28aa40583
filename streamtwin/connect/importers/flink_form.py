"""Form of the answers of Flink's REST API that are read; other answers are refused before they are used."""

from __future__ import annotations

import math
from collections.abc import Mapping
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

from twin.errors import BadInput

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
