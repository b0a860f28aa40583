"""What a shadow writes: a file a window in each of three folders, a JSON object a line.

A file is whole or not there, and a window told again gets the same file again: so nothing is lost or doubled however
the shadow ends.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypeVar

from scenarios.files import documents
from streamtwin.connect.shadow.window import Window, of_rows
from twin.atomic import write_text
from twin.errors import BadInput

Row = TypeVar("Row")
STATISTICS, FORECASTS, ALERTS = "statistics", "forecasts", "alerts"
SUFFIX = ".jsonl"


def write(out: Path, table: str, start_s: float, rows: Sequence[Any]) -> None:
    """The rows of a window, result types or mappings. Raises BadInput if they cannot be written."""
    path = out / table / _name(start_s)
    try:
        write_text(path, "".join(json.dumps(documents.document(row), allow_nan=False) + "\n" for row in rows))
    except OSError as error:
        raise BadInput(f"{path} cannot be written: {error.strerror}; free space, then give the same command") from None


def read(out: Path, table: str, kind: type[Row]) -> list[Row]:
    """All rows in the order of the windows."""
    paths = sorted((out / table).glob(f"*{SUFFIX}"))
    return [documents.read(kind, line) for path in paths for line in path.read_text(encoding="utf-8").splitlines()]


def before(out: Path, start_s: float, count: int) -> list[Window]:
    """The last so many windows that began before, oldest first."""
    names = sorted(path for path in (out / STATISTICS).glob(f"*{SUFFIX}") if path.name < _name(start_s))
    return [of_rows(_rows(path)) for path in names[-count:]] if count else []


def _rows(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def _name(start_s: float) -> str:
    """Names in the order of time, to the millisecond."""
    return f"{round(start_s * 1000):016d}{SUFFIX}"
