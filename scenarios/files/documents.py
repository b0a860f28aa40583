"""Results as JSON documents, and rows as CSV. The type of a result determines how it is written, read and described.

A result type is a frozen dataclass (or a TypedDict, or a spec). Its fields are the keys of its document; a key that is
a keyword of Python is an alias (`Annotated[str, Field(alias="while")]`). `CLOSED`, on the outermost type, makes reading
strict for all parts: exactly these keys, each of its type. Numbers that JSON lacks (infinity, not a number) are null.
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
"""Number; null if there is none, or if it is infinite."""
Seconds = Annotated[float, Field(description="seconds")]
Share = Annotated[float, Field(description="of 1")]

Kind = TypeVar("Kind")


def read(kind: type[Kind], text: str) -> Kind:
    """Reads a result of type `kind` from its JSON text. Raises ValueError if the text is no document of that type."""
    result: Kind = _adapter(kind).validate_json(text)
    return result


def schema(kind: Any) -> dict[str, Any]:
    """JSON Schema 2020-12 of the documents of a type."""
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **_adapter(kind).json_schema()}


def document(value: Any) -> Any:
    """Result, or a structure with results in it, in JSON types: numpy numbers become Python's, paths become text,
    infinities and NaN null."""
    if isinstance(value, Mapping):
        return {str(key): document(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [document(item) for item in value]
    if hasattr(value, "tolist"):
        return document(value.tolist())
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, os.PathLike):
        return str(value)
    if hasattr(type(value), "__dataclass_fields__"):
        return document(_adapter(type(value)).dump_python(value, by_alias=True))
    return value


def as_csv(rows: Iterable[Mapping[str, Any]], columns: Sequence[str] | None = None) -> str:
    """CSV of rows. columns: of the table, in order; None: all keys, which are then the same in every row, so that
    without rows the text is empty. Lists and mappings within a cell are written as JSON."""
    listed, lines = list(rows), io.StringIO()
    if not (listed or columns):
        return ""
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
"""Adapters by type, kept because making one takes milliseconds."""
