"""Aggregation over windows, and over sessions, which end when a key is silent for a while."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, ClassVar, Literal, Self

import numpy as np
from pydantic import Field, model_validator

from twin.kinds.flow import (
    Columns,
    DataType,
    Flow,
    HeldRecords,
    Mixing,
    OperatorRates,
    event_ages_s,
    group_age_s,
    length_s,
    older_by_input_s,
    start_s,
)
from twin.kinds.mechanism import Computing, Grouping, Sessioning
from twin.kinds.operator import REFUSED, KeyedOperator, StateAccess
from twin.kinds.windowed import LateTo, Windowed, content_and_fires, mean_to
from twin.windows import US_PER_S, Holds, TimeOf, WindowState, slice_of

# windowed aggregation ------------------------------------------------------------------------------------------------
# Windowed aggregation: one record per distinct group at each evaluation.


AggregateFunction = Literal["min", "max", "mean", "avg", "sum", "count"]


class Aggregate(Windowed):
    """Emits one record per distinct group in its window at each evaluation."""

    does: ClassVar[str] = "summarises a window of recent records"
    costs_like: ClassVar[str] = ""

    kind: Literal["aggregate"] = "aggregate"
    function: AggregateFunction = "mean"
    value_type: DataType = "double"
    group_by: DataType | None = None
    groups: Annotated[int, Field(ge=1, le=10**9, description="distinct group-by values in the stream")] = 1
    window_state: Annotated[
        WindowState | None,
        Field(
            exclude_if=lambda state: state is None,
            description="what its window holds: records, as a median or a process function needs them; absent: as the "
            "engine's window_state says",
        ),
    ] = None
    accumulator_bytes: Annotated[
        float | None,
        Field(
            ge=0,
            le=10**9,
            exclude_if=lambda size: size is None,
            description="size of the key and value of an accumulator, such as a sketch; absent: by their types",
        ),
    ] = None

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.group_by is None and self.groups != 1:
            raise ValueError(f"groups must be 1 without group_by, got {self.groups}; give group_by a data type")
        if self.group_by is None and self.key_groups is not None and not self.needs_event_time:
            raise ValueError(f"aggregate {self.name!r}: key_groups needs group_by; give group_by a data type")
        return self

    # traits ----------------------------------------------------------------------------------------------------------

    @property
    def keyed(self) -> bool:
        """Whether the aggregate groups its records, or all of them are one group of event time."""
        return self.group_by is not None or self.needs_event_time

    @property
    def counted(self) -> int:
        """Number of distinct groups."""
        return self.groups

    @property
    def accumulated(self) -> Columns:
        """Columns of the key and the value; a mean is a sum and a count."""
        key = Columns() if self.group_by is None else Columns.one(self.group_by)
        return key + Columns(doubles=2 if self.function in ("mean", "avg") else 1)

    def touched(self, producer: str, holds: Holds) -> StateAccess:
        """An accumulator is read and written for a record in each of its windows, or in its slice; and read and dropped
        for a result."""
        if holds in ("records", "copies"):
            return super().touched(producer, holds)
        if holds == "accumulators":
            windows = self.window.size / self.window.slide
            return StateAccess(windows, windows, 1.0, 1.0)
        slice_ = slice_of(self.window)
        return StateAccess(1.0, 1.0, self.window.size / slice_, self.window.slide / slice_)

    # law -------------------------------------------------------------------------------------------------------------

    def columns_out(self, inputs: Sequence[Columns]) -> Columns:
        """Columns of the key and the value."""
        key = Columns() if self.group_by is None else Columns.one(self.group_by)
        return key + Columns(doubles=1)

    def through(self, inputs: tuple[np.ndarray, ...], bursts: Sequence[np.ndarray], mixing: Mixing) -> Flow:
        """Flow through the aggregate: one result per distinct group and evaluation."""
        total, together, burst_s = mixing.arriving(inputs, bursts)
        content, fires = content_and_fires(self.window, total, together, burst_s)
        groups = self._distinct(content, mixing)
        often = np.minimum(fires, together)
        longest_s = np.where(fires > together, burst_s, 0.0)
        return Flow(inputs, total, fires * groups, content, fires, groups, often, longest_s)

    def _distinct(self, content: np.ndarray, mixing: Mixing) -> np.ndarray:
        """Expected distinct groups among `content` records of groups that are uniform over K values, or spread. [N]

        K (1 - (1 - 1/K)^w) for a count window, which holds exactly w records; averaged over a Poisson number of records
        with mean w, as a time window holds, it is K (1 - exp(-w/K)), which is below 1 when windows are often empty. For
        a count window, K is the number of values of its subtask: values are dealt evenly to all subtasks.
        """
        if mixing.spread is not None:
            return mixing.spread.distinct(content, mixing.parallelism, exactly=self.window.policy == "count")
        groups = float(self.groups)
        if self.window.policy == "time":
            return -groups * np.expm1(-content / groups)
        own = np.maximum(groups / mixing.parallelism, 1.0)
        with np.errstate(divide="ignore", invalid="ignore"):  # log 0 of a subtask's only group
            several = -own * np.expm1(content * np.log1p(-1.0 / own))
        return np.where(own == 1.0, np.where(content > 0, 1.0, 0.0), several)

    def entries(
        self, content: np.ndarray, groups: np.ndarray, mixing: Mixing, holds: Holds, since: np.ndarray | None
    ) -> np.ndarray:
        """Expected copies of records, or accumulators. Those changed are those to which records were added. [N]

        A window that is filled up to x of its size has all keys of x / size of its content; an open one for each slide.
        """
        if holds == "copies":
            return super().entries(content, groups, mixing, holds, since)
        window = self.window
        size, slide = float(window.size), float(window.slide)
        scale = groups / np.maximum(self._distinct(content, mixing), 1e-12)  # above 1 where subtasks get copies

        def keys(filled: np.ndarray | float) -> np.ndarray:
            return scale * self._distinct(content * (filled / size), mixing)

        if holds == "slices" and not window.tumbling:
            slice_ = slice_of(window)
            if since is None:
                return np.asarray((size + self.stays_s) / slice_ * keys(slice_))
            held = ((size + self.stays_s - slide / 2.0) / slice_ - 0.5) * keys(slice_) + mean_to(slice_, keys)
            since = np.minimum(since, size + self.stays_s)
            late = np.minimum(since, slice_)  # the slice under way, the one before, and all between these and `since`
            changed = mean_to(slice_, lambda filled: keys(np.minimum(filled, late)))
            changed = changed + late / slice_ * mean_to(late, keys) + (since - late) / slice_ * keys(slice_)
            return np.asarray(np.minimum(held, changed))
        return self.in_open_windows(keys, since)

    def ages_s(self, arriving: np.ndarray, mixed: np.ndarray, held: HeldRecords) -> np.ndarray:
        """Ages of the results: those of the input records, and the age of the oldest record of a group. [3, N]"""
        if self.event_windows:
            per_key = [held.in_per_s * each.length_us / (US_PER_S * self.groups) for each in self.event_windows]
            return np.asarray(arriving.max(axis=1) + event_ages_s(self.event_windows, per_key, held.disorder))
        _, slide_s = length_s(self.window, np.maximum(held.in_per_s, 1e-12))
        group_s = group_age_s(self.window, held)
        ages_s = [group_s + older_by_input_s(self.window, arriving[row], mixed[row], held) for row in (0, 1)]
        return np.asarray(mixed + np.stack(np.broadcast_arrays(*ages_s, start_s(self.window, slide_s))))

    def selectivity_at(self, rates: OperatorRates) -> float:
        """Distinct groups over records in the window (Costream, Definition 8)."""
        return rates.groups_per_fire / rates.window_records if rates.window_records else 0.0

    # mechanism -------------------------------------------------------------------------------------------------------

    @property
    def mechanism(self) -> Grouping | Computing:
        """Grouping by the operator's window and number of groups; computing over event time."""
        if self.window.policy == "time" and self.needs_event_time:
            lateness_s = self.window.allowed_lateness_s
            return Computing(None, self.event_windows, "panes", 0.0, None, self.late_to, lateness_s)
        return Grouping(self.window, self.groups)


# sessions ------------------------------------------------------------------------------------------------------------
# Session windows: the records of a key until it is silent for a while.


class Session(LateTo, KeyedOperator):
    """Emits one record for each session of a key, `gap_s` after the session's last record. Until then, it holds an
    accumulator of the key; of the size of a record, where the engine's `window_state` is `records`. Over event time, a
    session ends when the watermark has passed the gap; a record that comes later is late, or within
    `allowed_lateness_s` makes the session emit once more. Keys are equally frequent; where key groups are skewed
    (`workload.keys`), those of each group."""

    runs_alone: ClassVar[bool] = True
    does: ClassVar[str] = "summarises what comes of a key until it is silent for a while"
    costs_like: ClassVar[str] = "aggregate"

    kind: Literal["session"] = "session"
    gap_s: Annotated[float, Field(ge=1e-6, le=10**7, description="of silence of a key")]
    keys: Annotated[int, Field(ge=1, le=10**9, description="distinct keys in the stream")]
    key_type: DataType = "int"
    time: Annotated[
        TimeOf, Field(exclude_if=lambda time: time == "processing", description="by which a key is silent")
    ] = "processing"
    allowed_lateness_s: Annotated[
        float,
        Field(ge=0, le=10**9, exclude_if=lambda late_s: not late_s, description="for which a late record counts"),
    ] = 0.0

    @model_validator(mode="after")
    def _check_time(self) -> Self:
        for name in ("late_to", "allowed_lateness_s"):
            if self.time == "processing" and getattr(self, name):
                raise ValueError(f"{self.name!r} has {name}, and no record is late in processing time; add time: event")
        return self

    # traits ----------------------------------------------------------------------------------------------------------

    @property
    def keyed(self) -> bool:
        """Always true: sessions are by key."""
        return True

    @property
    def accumulated(self) -> Columns:
        """Columns of the key and the value."""
        return self.columns_out(())

    @property
    def if_updated(self) -> str:
        """Changes count as rows of their own, where Flink refuses them."""
        return REFUSED

    @property
    def hands_over(self) -> str:
        """Kind of output: results of event time, or of processing time."""
        return "results" if self.needs_event_time else "untimed"

    @property
    def awaits(self) -> str:
        """The end of a session: its gap without a record."""
        return "watermark" if self.needs_event_time else "end"

    @property
    def needs_event_time(self) -> bool:
        """Whether sessions are over event time."""
        return self.time == "event"

    @property
    def memory_s(self) -> float:
        """Seconds for which a record keeps its session open."""
        return self.gap_s

    @property
    def if_unlike(self) -> str:
        """Effect of unlike keys that the law misses, in words."""
        return (
            f"that keys of {self.name} are unlike (so fewer sessions end than estimated where fewer than two records "
            "of a key come in gap_s, and more, which are shorter, where more come)"
        )

    def touched(self, producer: str, holds: Holds) -> StateAccess:
        """The accumulator and the bounds of the key's sessions are read and written."""
        return StateAccess(reads=2.0, writes=2.0)

    # law -------------------------------------------------------------------------------------------------------------

    def columns_out(self, inputs: Sequence[Columns]) -> Columns:
        """Columns of the key and the value."""
        return Columns.one(self.key_type) + Columns(doubles=1)

    def through(self, inputs: tuple[np.ndarray, ...], bursts: Sequence[np.ndarray], mixing: Mixing) -> Flow:
        """Flow through the operator: a record is the last of its session if no other of its key comes in the gap, as
        for exp(-rate gap / keys) of them."""
        total, _, burst_s = mixing.arriving(inputs, bursts)
        each = total * self.gap_s / self.keys
        none, never = np.zeros_like(total), np.full_like(total, np.inf)
        return Flow(inputs, total, total * np.exp(-each), self._open(total), none, none, never, burst_s)

    def _open(self, in_per_s: np.ndarray) -> np.ndarray:
        """Expected sessions at any time: keys of which a record came within the gap. [N]"""
        return np.asarray(-self.keys * np.expm1(-in_per_s * self.gap_s / self.keys))

    def ages_s(self, arriving: np.ndarray, mixed: np.ndarray, held: HeldRecords) -> np.ndarray:
        """Ages of the results: sessions are busy periods of M/D/infinity, (exp(rate gap) - 1) / rate of a key. [3,
        N]"""
        lasts_s = self.lasts_s(held.in_per_s)
        rows = np.stack([lasts_s, lasts_s, np.full_like(lasts_s, self.gap_s)])
        return np.asarray(mixed + rows + held.disorder.slack_s)

    def lasts_s(self, in_per_s: np.ndarray) -> np.ndarray:
        """Mean length of a session in seconds, with the gap at its end. [N]"""
        per_key = np.maximum(in_per_s, 1e-12) / self.keys
        return np.asarray(np.expm1(np.minimum(per_key * self.gap_s, 700.0)) / per_key)

    # mechanism -------------------------------------------------------------------------------------------------------

    @property
    def mechanism(self) -> Sessioning:
        """Sessioning by the operator's gap."""
        return Sessioning(self.gap_s, self.keys, self.time == "event", self.allowed_lateness_s, self.late_to)

    # advice ----------------------------------------------------------------------------------------------------------

    def why_silent(self, taken: int, came: int) -> str:
        """Says that no session ended."""
        return (
            f"{self.name!r} took in {taken} records of {self.keys} keys, and none of them was silent for "
            f"{self.gap_s:g} s; shorten its gap_s, give it more keys or run longer"
        )
