"""Queries of Nexmark as Flink SQL, read from queries.yaml."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Annotated, Self

import yaml
from pydantic import Field, model_validator

from twin.errors import BadInput, suggest
from twin.spec import Spec, parse

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
