"""Recorded arrivals, read from a CSV or Parquet file."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from twin.arrivals.law import MAX_RATE_PER_S
from twin.errors import BadInput

if TYPE_CHECKING:
    import pyarrow as pa

COLUMNS = ("time_s", "rate_per_s")
FARTHEST_S = 1e12
"""From zero: 30,000 years. Today's Unix time in milliseconds or less is farther."""


@dataclass(frozen=True, slots=True, eq=False)
class Recording:
    """times_s: ascending. [N] rates_per_s: the rate from each time on, >= 0 [N]; None if a tuple came at each time."""

    times_s: np.ndarray
    rates_per_s: np.ndarray | None


def read(path: str) -> Recording:
    """The recording in a file with the columns `time_s` (a tuple a row) or `time_s` and `rate_per_s`.

    Raises BadInput, in one line, if it is missing, of another form, empty, or if its numbers make no sense.
    """
    try:
        status = Path(path).stat()
    except OSError as error:
        raise BadInput(f"{path} cannot be read: {error.strerror}; check the path") from None
    except ValueError as error:  # it holds what no name can
        raise BadInput(f"{path!r} cannot be read: {error}; check the path") from None
    return _read(path, status.st_mtime_ns, status.st_size)


@lru_cache(maxsize=16)
def _read(path: str, _modified_ns: int, _bytes: int) -> Recording:
    table = _table(path)
    names = table.column_names
    if "time_s" not in names or not set(names) <= set(COLUMNS):
        raise BadInput(
            f"{path} has the columns {', '.join(names)}; it needs time_s, or time_s and rate_per_s, "
            "and their names in its first line"
        )
    columns = {name: _numbers(table[name], f"{path}: {name}") for name in names}
    times, rates = columns["time_s"], columns.get("rate_per_s")
    if not len(times):
        raise BadInput(f"{path} has no rows; record at least one")
    if (far := np.abs(times) > FARTHEST_S).any():
        row = int(np.argmax(far))
        raise BadInput(f"{path}: time_s in row {row + 1} is {times[row]:g}; it must be in seconds")
    steps = np.diff(times)
    wrong = np.flatnonzero(steps < 0.0 if rates is None else steps <= 0.0)
    if len(wrong):
        row = int(wrong[0]) + 1
        raise BadInput(f"{path}: time_s in row {row + 1} is {times[row]:g}, after {times[row - 1]:g}; sort the rows")
    if rates is not None and (rates < 0.0).any():
        row = int(np.argmax(rates < 0.0))
        raise BadInput(f"{path}: rate_per_s in row {row + 1} is {rates[row]:g}; rates are >= 0")
    if rates is not None and (rates > MAX_RATE_PER_S).any():
        row = int(np.argmax(rates > MAX_RATE_PER_S))
        raise BadInput(f"{path}: rate_per_s in row {row + 1} is {rates[row]:g}; rates are <= {MAX_RATE_PER_S:g}")
    return Recording(times, rates)


def _table(path: str) -> pa.Table:
    import pyarrow as pa  # a seventh of a second, for recordings alone
    from pyarrow import csv, parquet

    try:
        table = parquet.read_table(path) if Path(path).suffix in (".parquet", ".pq") else csv.read_csv(path)
        return table.rename_columns([str(name) for name in table.column_names])
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:  # the last of a name
        what = str(error).splitlines()[0]
        raise BadInput(f"{path} is no CSV or Parquet file with a header: {what}; name another file") from None


def _numbers(column: pa.ChunkedArray, where: str) -> np.ndarray:
    import pyarrow as pa

    try:
        values = np.array(column.cast(pa.float64()).to_pylist(), dtype=float)
    except pa.ArrowException:
        raise BadInput(f"{where} holds {column.type} values; write numbers, times in seconds") from None
    if not np.isfinite(values).all():  # a null is NaN here
        row = int(np.argmin(np.isfinite(values)))
        raise BadInput(f"{where} in row {row + 1} is {values[row]:g}; write a finite number")
    values.flags.writeable = False
    return values
