"""Windowed aggregation: one record per distinct group at each evaluation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, ClassVar, Literal, Self

import numpy as np
from pydantic import Field, model_validator

from twin.columns import Columns, DataType
from twin.kinds.ages import HeldRecords, event_ages_s, group_age_s, length_s, older_by_input_s, start_s
from twin.kinds.flow import Flow, Mixing, OperatorRates
from twin.kinds.mechanism import Computing, Grouping
from twin.kinds.operator import StateAccess
from twin.kinds.windowed import Windowed, content_and_fires, mean_to
from twin.windows import US_PER_S, Holds, WindowState, slice_of

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
