"""The form of Flink's REST answers, as far as it is read: what is no such answer is refused by name."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from streamtwin.connect.importers.flink_answers import Answers
from twin.errors import BadInput


class RestAnswer(BaseModel):
    model_config = ConfigDict(extra="ignore", strict=False)


class VertexAnswer(RestAnswer):
    id: str
    name: str
    parallelism: int = Field(ge=1)
    maxParallelism: int = Field(default=128, ge=1)  # noqa: N815  Flink's own name
    status: str = "RUNNING"
    metrics: dict[str, Any] = {}


class JobAnswer(RestAnswer):
    vertices: list[VertexAnswer]


class Manager(RestAnswer):
    id: str
    path: str = ""
    hardware: dict[str, Any] | None = None


class Managers(RestAnswer):
    taskmanagers: list[Manager]


class Setting(RestAnswer):
    key: str
    value: Any = None


class Subtask(RestAnswer):
    metrics: dict[str, Any] | None = None


class ReadingAnswer(RestAnswer):
    id: str
    value: Any = None


class Detail(RestAnswer):
    subtasks: list[Subtask] = []


def check(answers: Answers) -> None:
    """Raises BadInput, naming the answer and the place in it, for the first thing that Flink would not say."""
    forms: list[tuple[str, Any, Any]] = [
        ("GET /jobs/:id", JobAnswer, answers.job),
        ("GET /jobs/:id (the first)", JobAnswer | None, answers.first),
        ("GET /taskmanagers", Managers, answers.managers),
        ("GET /jobmanager/config", list[Setting], list(answers.config)),
        ("GET /jobs/:id/vertices/:id", list[Detail | None], list(answers.details)),
        ("GET /jobs/:id/vertices/:id/metrics", list[list[ReadingAnswer]], [list(each) for each in answers.markers]),
        ("GET /jobs/:id/checkpoints", dict[str, Any] | None, answers.checkpoints),
    ]
    for what, form, answer in forms:
        try:
            TypeAdapter(form).validate_python(answer)
        except ValidationError as error:
            first = error.errors()[0]
            place = ".".join(map(str, first["loc"])) or "it"
            raise BadInput(f"{answers.where}: no answer to {what}: {place}: {first['msg']}; save it again") from None
