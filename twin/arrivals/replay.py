"""Replay of recorded arrivals: the times of single records, or a rate over time."""

from __future__ import annotations

import stat
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self

import numpy as np
from pydantic import Field, model_validator

from twin.arrivals.laws import MAX_RATE_PER_S, MIN_RATE_PER_S, Phase, Varying, extent_s, staircase
from twin.errors import BadInput, suggest
from twin.quantities import moment_s

if TYPE_CHECKING:
    import pyarrow as pa

AT_S, RATES = "time_s", "rate_per_s"
DATED = ("timestamp", "time", "date", "datetime")
"""Names of columns, in capitals or not, whose times are dates, or numbers of any unit since 1970."""
FARTHEST_S = 1e12
"""Largest time in seconds, 30,000 years: Unix times in milliseconds or smaller units are refused."""
SHORTEST_S = 1e-3
"""Length of the shortest recording, in seconds: repeating a shorter one is a rate, not a recording."""


@dataclass(frozen=True, slots=True, eq=False)
class Recording:
    """Recorded arrivals. times_s: ascending [N]. rates_per_s: from each time on, >= 0 [N]; None if a record came at
    each."""

    times_s: np.ndarray
    rates_per_s: np.ndarray | None


_offered: ContextVar[frozenset[str] | None] = ContextVar("offered", default=None)


@contextmanager
def only_recordings(paths: Iterable[str]) -> Iterator[None]:
    """Context in which no recordings but these are read: others are refused before anything of them is looked at."""
    token = _offered.set(frozenset(paths))
    try:
        yield
    finally:
        _offered.reset(token)


def read(path: str, counts: str | None = None) -> Recording:
    """Reads the recording in a file with the column `time_s`, or one in DATED (a record a row); and with `rate_per_s`
    from each time on; or with `counts`, a column of the records from each time to the next.

    Raises BadInput, in one line, if it is missing, no regular file, of another form, empty, or if its numbers make no
    sense; or if it is none of `only_recordings`.
    """
    offered = _offered.get()
    if offered is not None and path not in offered:
        raise BadInput(
            f"{path}: what comes from a page may not name a file; put the scenario into a folder and run "
            "twin serve FOLDER"
        )
    try:
        status = Path(path).stat()
    except OSError as error:
        raise BadInput(f"{path} cannot be read: {error.strerror}; check the path") from None
    except ValueError as error:  # the path holds characters that no name can
        raise BadInput(f"{path!r} cannot be read: {error}; check the path") from None
    if not stat.S_ISREG(status.st_mode):  # a pipe would be waited for, a device may never end
        raise BadInput(f"{path} is no regular file; name a CSV or Parquet file")
    return _read(path, status.st_mtime_ns, status.st_size, counts)


@lru_cache(maxsize=16)
def _read(path: str, _modified_ns: int, _bytes: int, counts: str | None) -> Recording:
    table = _table(path)
    time, values = _columns(path, table.column_names, counts)
    if not table.num_rows:
        raise BadInput(f"{path} has no rows; record at least one")
    times = _times(table[time], path, time)
    if values is None:
        _ordered(times, table[time], f"{path}: {time}", twice=True)
        return Recording(times, None)
    _ordered(times, table[time], f"{path}: {time}", twice=False)
    found = _numbers(table[values], f"{path}: {values}")
    if counts is not None:
        if len(times) < 2:
            raise BadInput(
                f"{path} has one row; counts of records need two or more, as each is of the time to the next"
            )
        gaps = np.diff(times)
        found = found / np.append(gaps, gaps.mean())
    for wrong, bound in ((found < 0.0, ">= 0"), (found > MAX_RATE_PER_S, f"<= {MAX_RATE_PER_S:g}")):
        if wrong.any():
            row = int(np.argmax(wrong))
            told = f"{table[values][row].as_py():g}"
            rate = "" if counts is None else f", {found[row]:g} records a second"
            raise BadInput(f"{path}: {values} in row {row + 1} is {told}{rate}; rates are {bound}")
    found.flags.writeable = False
    return Recording(times, found)


def _columns(path: str, names: Sequence[str], counts: str | None) -> tuple[str, str | None]:
    """Names of the columns of times and of values, which are rates or counts; None for a record a row."""
    dated = [name for name in names if name.lower() in DATED]
    time = AT_S if AT_S in names else dated[0] if len(dated) == 1 else None
    if counts is not None and counts not in names:
        raise BadInput(f"{path} has the columns {', '.join(names)}; counts names {counts!r}; {suggest(counts, names)}")
    known = time is not None and (counts is not None or set(names) <= {time, RATES})
    if time is None or not known:
        needs = (
            f"it needs {AT_S} (or {', '.join(DATED[:-1])}), or a time and {RATES}, and their names in its first line"
        )
        others = [name for name in names if name not in (time, RATES)] if time is not None else []
        hints = [
            f"; if {name} is the number of records from a row to the next, write counts: {name}" for name in others
        ]
        raise BadInput(f"{path} has the columns {', '.join(names)}; {needs}{''.join(hints[-1:])}")
    return time, counts or (RATES if RATES in names else None)


def _times(column: pa.ChunkedArray, path: str, name: str) -> np.ndarray:
    """Times in seconds."""
    if name == AT_S:
        times = _numbers(column, f"{path}: {name}")
        if (far := np.abs(times) > FARTHEST_S).any():
            row = int(np.argmax(far))
            raise BadInput(f"{path}: {name} in row {row + 1} is {times[row]:g}; it must be in seconds")
        return times
    found = np.empty(len(column))
    for row, value in enumerate(column.to_pylist()):
        try:
            found[row] = moment_s(value)
        except ValueError:
            said = f"{path}: {name} in row {row + 1} is {value!r}"
            raise BadInput(f"{said}; write dates as 2026-11-30 14:05:00, or seconds since 1970") from None
    found.flags.writeable = False
    return found


def _ordered(times: np.ndarray, column: pa.ChunkedArray, where: str, *, twice: bool) -> None:
    """Raises BadInput if times fall, or are twice the same where a time may be there once."""
    steps = np.diff(times)
    wrong = np.flatnonzero(steps < 0.0 if twice else steps <= 0.0)
    if len(wrong):
        row = int(wrong[0]) + 1
        now, before = (_shown(column[at].as_py()) for at in (row, row - 1))
        if now == before:
            raise BadInput(f"{where} in row {row + 1} is {now}, as in the row before; leave one out, or add them up")
        raise BadInput(f"{where} in row {row + 1} is {now}, after {before}; sort the rows")


def _shown(value: Any) -> str:
    return f"{value:g}" if isinstance(value, int | float) else str(value)


def _table(path: str) -> pa.Table:
    import pyarrow as pa  # takes a seventh of a second, which only recordings need
    from pyarrow import csv, parquet

    try:
        table = parquet.read_table(path) if Path(path).suffix in (".parquet", ".pq") else csv.read_csv(path)
        return table.rename_columns([str(name) for name in table.column_names])
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:  # the last: a column's name
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


class Replay(Varying):
    """Law that plays a file (see `Recording`) from its first row, or from `start_s` of its own clock.

    A recording lasts until its last row and a mean gap between rows beyond; then it begins anew, or nothing arrives.
    """

    law: Literal["replay"] = "replay"
    path: Annotated[str, Field(min_length=1, description="CSV or Parquet: times, or times and rate_per_s")]
    counts: Annotated[
        str | None, Field(description="column with the number of records from each time to the next", min_length=1)
    ] = None
    start_s: Annotated[float | None, Field(description="the file's time at time 0; its first row's if absent")] = None
    speed: Annotated[float, Field(gt=0, le=10**6, description="2: in half the time, at twice the rate")] = 1.0
    rate_factor: Annotated[float, Field(gt=0, le=10**6, description="2: each record twice, at the same time")] = 1.0
    loop: Annotated[bool, Field(description="begin anew at the end")] = True

    @model_validator(mode="after")
    def _check(self) -> Self:
        recording = read(self.path, self.counts)
        rows, last_s = len(recording.times_s), float(recording.times_s[-1])
        if self._begin_s > last_s:
            raise ValueError(
                f"start_s = {self._begin_s:g} is after the last row of {self.path}, {last_s:g}; begin earlier"
            )
        singles = recording.rates_per_s is None
        if singles and self._rows_played < 2:
            raise ValueError(f"{self.path} holds {self._rows_played} time to play; a recording needs two or more")
        if (singles or rows > 1) and self.cycle_s < SHORTEST_S:
            raise ValueError(f"{self.path} at speed {self.speed:g} is over in {self.cycle_s:g} s; play more, or slower")
        if self.peak_rate_per_s > MAX_RATE_PER_S:
            raise ValueError(
                f"{self.path} has up to {self.peak_rate_per_s:g} records a second at this speed and factor; "
                f"{MAX_RATE_PER_S:g} is the most"
            )
        if self.mean_rate_per_s < MIN_RATE_PER_S:
            raise ValueError(
                f"the rate in {self.path} is 0 throughout, so that nothing ever arrives; record a rate > 0"
            )
        return self

    @property
    def recording(self) -> Recording:
        """Content of the file. Raises BadInput if the file has gone, or can no longer be read as a recording."""
        return read(self.path, self.counts)

    @property
    def _begin_s(self) -> float:
        return float(self.recording.times_s[0]) if self.start_s is None else self.start_s

    @property
    def _rows_played(self) -> int:
        times = self.recording.times_s
        return len(times) - int(np.searchsorted(times, self._begin_s))

    @property
    def cycle_s(self) -> float:
        """Seconds after which a loop begins anew; 0 for a file of one row, whose rate lasts."""
        times = self.recording.times_s
        return (extent_s(float(times[0]), float(times[-1]), len(times)) - self._begin_s) / self.speed

    @property
    def times_s(self) -> np.ndarray:
        """Times of arrivals in the first cycle, by the simulation's clock, ascending [N]; only of a file of times."""
        times = self.recording.times_s
        return (times[len(times) - self._rows_played :] - self._begin_s) / self.speed

    @property
    def _staircase(self) -> tuple[list[float], list[float]]:
        """Times by the simulation's clock, and the rate from each on; only of a file of rates."""
        recording = self.recording
        assert recording.rates_per_s is not None
        times = (recording.times_s - self._begin_s) / self.speed
        first = max(0, int(np.searchsorted(times, 0.0, side="right")) - 1)  # the rate in force at the start
        rates = recording.rates_per_s[first:] * (self.speed * self.rate_factor)
        return np.maximum(times[first:], 0.0).tolist(), rates.tolist()

    @property
    def mean_rate_per_s(self) -> float:
        """Mean rate over one cycle."""
        if self.recording.rates_per_s is None:
            return self._rows_played * self.rate_factor / self.cycle_s
        times, rates = self._staircase
        if not self.cycle_s:
            return rates[0]
        return float(np.dot(np.diff([*times, self.cycle_s]), rates)) / self.cycle_s

    @property
    def peak_rate_per_s(self) -> float:
        """Highest rate of any row, or most records in any second; not below the mean, as a loop may be shorter."""
        if self.recording.rates_per_s is not None:
            return max(self._staircase[1])
        times = self.times_s
        most = float(np.max(np.searchsorted(times, times + 1.0) - np.arange(len(times)))) * self.rate_factor
        return max(most, self.mean_rate_per_s)

    @property
    def gap_scv(self) -> float:
        """Squared coefficient of variation of gaps: of recorded times, their local variation by Shinomoto, Shima and
        Tanji (Neural Computation 15, 2003).

        It compares neighbouring gaps only, so slow changes of the rate do not count: 1 for a Poisson process of varying
        rate, 0 for evenly spaced records.
        """
        if self.recording.rates_per_s is not None:
            return super().gap_scv
        gaps = np.diff(self.times_s)
        sums = gaps[1:] + gaps[:-1]
        contrast = np.divide(np.diff(gaps), sums, out=np.zeros_like(sums), where=sums > 0.0)
        return float(3.0 * np.mean(contrast**2)) if len(contrast) else 0.0

    def phases(self, rng: np.random.Generator) -> Iterator[Phase]:
        """Phases, one for each row of a file of rates; one at the mean rate for a file of times that is not
        replayed."""
        if self.recording.rates_per_s is None:
            return staircase([0.0], [self.mean_rate_per_s], self.cycle_s if self.loop else None)
        times, rates = self._staircase
        if not self.cycle_s:
            return staircase(times, rates, None)
        if self.loop:
            return staircase(times, rates, self.cycle_s)
        return staircase([*times, self.cycle_s], [*rates, 0.0], None)

    def scaled(self, factor: float) -> Self:
        """Law with `rate_factor` multiplied by a factor > 0."""
        return self.model_copy(update={"rate_factor": self.rate_factor * factor})
