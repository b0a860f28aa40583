"""Reads samples of a time-series database from a table: a line each, with `time`, `metric`, `value` and labels.

Exporters name and fill columns in their own ways: `timestamp` and `__name__`, capitals, semicolons or tabs, epochs in
milliseconds, and nothing or NaN where nothing was measured.
"""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from twin.errors import BadInput

FIXED: Mapping[str, tuple[str, ...]] = {
    "time": ("time", "timestamp"),
    "metric": ("metric", "__name__"),
    "value": ("value",),
}
"""Columns that a sample must have, and their names at exporters, in capitals or not."""
EPOCHS = ((1e17, 1e-9), (1e14, 1e-6), (1e11, 1e-3))
"""Times from which on they are in nano-, micro- and milliseconds (in seconds they would be after the year 5000), and
their factors to seconds."""
DELIMITERS = (",", ";", "\t")


def samples_of(file: str, content: bytes) -> list[dict[str, Any]]:
    """Reads the samples that have a value from the content of a file, CSV or Parquet by its name.

    Raises BadInput, naming file and line, for what is no table of samples.
    """
    return [each for each in all_samples(file, content) if not math.isnan(each["value"])]


def all_samples(file: str, content: bytes) -> list[dict[str, Any]]:
    """Reads all samples from the content of a file, CSV or Parquet by its name; a missing value is nan. Raises BadInput
    as `samples_of`."""
    rows = _rows(file, content)
    if not rows:
        raise BadInput(f"{file} holds no samples; its columns are time, metric, value and labels such as run, operator")
    names = _names(rows, file)
    return [_checked(row, names, f"{file}, line {number}") for number, row in enumerate(rows, start=2)]


def _names(rows: Sequence[Mapping[str, Any]], file: str) -> dict[str, str]:
    """Name in the table of each column in FIXED."""
    columns = list(dict.fromkeys(str(column) for row in rows for column in row))
    found = {}
    for name, others in FIXED.items():
        known = [column for column in columns if column.lower() in others]
        if len(known) != 1:
            what = f"has no {name}" if not known else f"has {' and '.join(known)}, which are both a sample's {name}"
            raise BadInput(
                f"{file} {what}; its columns are {', '.join(columns)}, and a sample has time, metric, value and labels"
            )
        found[name] = known[0]
    return found


def _checked(row: Mapping[str, Any], names: Mapping[str, str], place: str) -> dict[str, Any]:
    for name in ("time", "metric"):
        if row.get(names[name]) in (None, ""):
            raise BadInput(f"{place} has no {name}; the columns are time, metric, value and labels")
    metric = str(row[names["metric"]])
    labels = {str(key): each for key, each in row.items() if key not in names.values() and each not in (None, "")}
    value = _value(row.get(names["value"]), metric, place)
    return {**labels, "time": _seconds(row[names["time"]], place), "metric": metric, "value": value}


def _value(value: Any, metric: str, place: str) -> float:
    if value in (None, ""):
        return math.nan
    try:
        found = float(value)
    except (TypeError, ValueError):
        raise BadInput(f"{place}: value must be a number such as 0.5, got {value!r}") from None
    if math.isinf(found):
        raise BadInput(f"{place}: {metric} is {found}; leave out samples that were not measured")
    return found


def _seconds(value: Any, place: str) -> float:
    if isinstance(value, datetime):
        return value.timestamp()
    try:
        found = float(value)
    except (TypeError, ValueError):
        try:
            return datetime.fromisoformat(str(value)).timestamp()
        except ValueError:
            raise BadInput(f"{place}: time must be seconds or ISO 8601, got {value!r}") from None
    if not math.isfinite(found):
        raise BadInput(f"{place}: time is {value}")
    return found * next((unit_s for least, unit_s in EPOCHS if abs(found) >= least), 1.0)


def _rows(file: str, content: bytes) -> list[Mapping[str, Any]]:
    if file.endswith((".parquet", ".pq")):
        from scenarios.files.parquet_rows import rows_of

        return rows_of(file, content)
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise BadInput(f"{file} is not text in UTF-8; samples are CSV or Parquet") from None
    first = text.partition("\n")[0]
    reader = csv.DictReader(io.StringIO(text), skipinitialspace=True, delimiter=max(DELIMITERS, key=first.count))
    rows: list[Mapping[str, Any]] = []
    for number, row in enumerate(reader, start=2):
        if None in row:
            raise BadInput(
                f"{file}, line {number} has more cells than the first line has columns; quote what has commas"
            )
        rows.append(row)
    return rows
