"""The form of Flink's REST answers, as far as it is read: what is no such answer is refused by name."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from streamtwin.connect.importers.flink_answers import Answers
from twin.errors import BadInput


class Form(BaseModel):
    model_config = ConfigDict(extra="ignore", strict=False)


class Vertex(Form):
    id: str
    name: str
    parallelism: int = Field(ge=1)
    maxParallelism: int = Field(default=128, ge=1)  # noqa: N815  Flink's own name
    status: str = "RUNNING"
    metrics: dict[str, Any] = {}


class Job(Form):
    vertices: list[Vertex]


class Manager(Form):
    id: str
    path: str = ""
    hardware: dict[str, Any] | None = None


class Managers(Form):
    taskmanagers: list[Manager]


class Setting(Form):
    key: str
    value: Any = None


class Subtask(Form):
    metrics: dict[str, Any] | None = None


class Reading(Form):
    id: str
    value: Any = None


class Detail(Form):
    subtasks: list[Subtask] = []


def check(answers: Answers) -> None:
    """Raises BadInput, naming the answer and the place in it, for the first thing that Flink would not say."""
    forms: list[tuple[str, Any, Any]] = [
        ("GET /jobs/:id", Job, answers.job),
        ("GET /jobs/:id (the first)", Job | None, answers.first),
        ("GET /taskmanagers", Managers, answers.managers),
        ("GET /jobmanager/config", list[Setting], list(answers.config)),
        ("GET /jobs/:id/vertices/:id", list[Detail | None], list(answers.details)),
        ("GET /jobs/:id/vertices/:id/metrics", list[list[Reading]], [list(each) for each in answers.markers]),
        ("GET /jobs/:id/checkpoints", dict[str, Any] | None, answers.checkpoints),
    ]
    for what, form, answer in forms:
        try:
            TypeAdapter(form).validate_python(answer)
        except ValidationError as error:
            first = error.errors()[0]
            place = ".".join(map(str, first["loc"])) or "it"
            raise BadInput(f"{answers.where}: no answer to {what}: {place}: {first['msg']}; save it again") from None
