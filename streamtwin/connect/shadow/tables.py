"""What a shadow writes: a file a window in each of three folders, a JSON object a line.

A file is whole or not there, and a window told again gets the same file again: so nothing is lost or doubled however
the shadow ends.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

from scenarios.files import documents
from streamtwin.connect.shadow.window import TIMES, Window, of_rows
from twin.atomic import write_text
from twin.checksums import stamped, unstamped
from twin.errors import BadInput

Row = TypeVar("Row")
STATISTICS, FORECASTS, ALERTS = "statistics", "forecasts", "alerts"
SUFFIX = ".jsonl"


def write(out: Path, table: str, start_s: float, rows: Sequence[Any]) -> None:
    """The rows of a window, result types or mappings. Raises BadInput if they cannot be written."""
    path = out / table / _name(start_s)
    try:
        write_text(path, "".join(stamped(documents.document(row)) + "\n" for row in rows))
    except OSError as error:
        raise BadInput(f"{path} cannot be written: {error.strerror}; free space, then give the same command") from None


def read(out: Path, table: str, kind: type[Row]) -> list[Row]:
    """All rows in the order of the windows."""
    paths = sorted((out / table).glob(f"*{SUFFIX}"))
    return [row for path in paths for row in _read(path, lambda body: documents.read(kind, json.dumps(body)))]


def before(out: Path, start_s: float, count: int) -> list[Window]:
    """The last so many windows that began before, oldest first."""
    names = sorted(path for path in (out / STATISTICS).glob(f"*{SUFFIX}") if path.name < _name(start_s))
    return [of_rows(_read(path, _readings)) for path in names[-count:]] if count else []


def _read(path: Path, row: Callable[[dict[str, Any]], Row]) -> list[Row]:
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
        return [row(unstamped(line)) for line in lines or ("",)]
    except (OSError, ValueError, TypeError) as error:
        raise BadInput(f"{path} is damaged ({error}); remove it") from None


def _readings(body: dict[str, Any]) -> dict[str, Any]:
    if not set(TIMES) <= body.keys():
        raise ValueError("it is no window")
    return body


def _name(start_s: float) -> str:
    """Names in the order of time, to the millisecond."""
    return f"{round(start_s * 1000):016d}{SUFFIX}"
