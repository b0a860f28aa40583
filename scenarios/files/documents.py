"""Results as JSON documents: written, read again and described, all by what the type of a result says; rows as CSV.

A result type is a frozen dataclass (or a TypedDict, or a spec). Its fields are the keys of its document; a key that is
a keyword of Python is an alias (`Annotated[str, Field(alias="while")]`). `CLOSED`, on the outermost type, makes reading
strict for all parts: no key more, none less, none of another type. What JSON cannot say (infinity, no number) is null.
"""

from __future__ import annotations

import csv
import io
import json
import math
import os
from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated, Any, TypeVar

from pydantic import ConfigDict, Field, TypeAdapter, with_config

CLOSED = with_config(ConfigDict(extra="forbid", strict=True))
Number = float | None
"""null: there is none, or it is infinite."""
Seconds = Annotated[float, Field(description="seconds")]
Share = Annotated[float, Field(description="of 1")]
PerSecond = Annotated[float, Field(description="a second")]

Kind = TypeVar("Kind")


def document(result: Any) -> dict[str, Any]:
    """A result, or a mapping with results in it, as JSON can hold it."""
    found: dict[str, Any] = plain(result)
    return found


def read(kind: type[Kind], text: str) -> Kind:
    """The result of that type whose document the JSON text is. Raises ValueError if it is none."""
    found: Kind = _adapter(kind).validate_json(text)
    return found


def check(kind: Any, result: Any) -> None:
    """Raises ValueError if the document of a result is not one of that type."""
    _adapter(kind).validate_json(json.dumps(document(result), allow_nan=False))


def schema(kind: Any) -> dict[str, Any]:
    """JSON Schema 2020-12 of the documents of a type."""
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **_adapter(kind).json_schema()}


def plain(value: Any) -> Any:
    """`value` as JSON can hold it: numpy numbers as Python's, paths as text, infinities and NaN as null."""
    if isinstance(value, Mapping):
        return {str(key): plain(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [plain(each) for each in value]
    if hasattr(value, "tolist"):
        return plain(value.tolist())
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, os.PathLike):
        return str(value)
    if hasattr(type(value), "__dataclass_fields__"):
        return plain(_adapter(type(value)).dump_python(value, by_alias=True))
    return value


def as_csv(rows: Iterable[Mapping[str, Any]], columns: Sequence[str] | None = None) -> str:
    """Rows as a table. columns: those that are told, in order; absent: all, which every row has. Lists and mappings
    within a cell are JSON."""
    listed, lines = list(rows), io.StringIO()
    keys = list(columns or listed[0])
    writer = csv.writer(lines, lineterminator="\n")
    writer.writerow(keys)
    writer.writerows([_cell(row.get(key)) for key in keys] for row in listed)
    return lines.getvalue()


def _cell(value: Any) -> Any:
    return json.dumps(value) if isinstance(value, list | Mapping) else value


def _adapter(kind: Any) -> TypeAdapter[Any]:
    if kind not in _ADAPTERS:
        _ADAPTERS[kind] = TypeAdapter(kind)
    return _ADAPTERS[kind]


_ADAPTERS: dict[Any, TypeAdapter[Any]] = {}
"""Making one takes milliseconds."""
