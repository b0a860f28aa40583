"""OVER aggregation: a result for each record, of the rows of its key before it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, ClassVar, Literal, Self

import numpy as np
from pydantic import Field, model_validator

from twin.columns import Columns
from twin.kinds.ages import HeldRecords
from twin.kinds.by_key import ByTime, KeepsRecords, lasting_s, most_of
from twin.kinds.flow import Flow, Mixing
from twin.kinds.mechanism import Preceding
from twin.kinds.windowed import LateTo

WATERMARKS_S = 0.2
"""Seconds of event time of which watermarks are multiples, where no windows need others (docs/event-time.md)."""


class OverAggregate(LateTo, KeepsRecords):
    """Sends each record on with a result of the rows of its key before it: the last `rows`, or those of the last
    `range_s` seconds. Flink's OverAggregate (OVER (PARTITION BY ... ORDER BY ... ROWS or RANGE ... PRECEDING))."""

    does: ClassVar[str] = "adds to each record a result of the rows of its key before it"
    costs_like: ClassVar[str] = "aggregate"

    kind: Literal["over-aggregate"] = "over-aggregate"
    rows: Annotated[
        int | None, Field(ge=1, le=10**6, description="rows before a record that count (ROWS ... PRECEDING)")
    ] = None
    range_s: Annotated[
        float | None,
        Field(gt=0, le=10**8, description="seconds before a record of which rows count (RANGE ... PRECEDING)"),
    ] = None

    time: ByTime = "processing"

    @model_validator(mode="after")
    def _check_range(self) -> Self:
        if (self.rows is None) == (self.range_s is None):
            given = "neither rows nor range_s" if self.rows is None else "both rows and range_s"
            raise ValueError(f"{self.name!r} has {given}; give one of them")
        if self.time == "processing" and self.late_to is not None:
            raise ValueError(f"{self.name!r} has late_to, and no record is late in processing time; add time: event")
        return self

    # traits ----------------------------------------------------------------------------------------------------------

    @property
    def needs_event_time(self) -> bool:
        """Whether event times say which rows are before a record."""
        return self.time == "event"

    @property
    def one_to_one(self) -> bool:
        """Whether each record leaves at once: if it does not wait for a watermark."""
        return not self.needs_event_time

    @property
    def hands_over(self) -> str:
        """Kind of output: the records themselves, or results of event time."""
        return "results" if self.needs_event_time else "records"

    @property
    def memory_s(self) -> float:
        """Seconds for which a row counts; 0 for a number of rows."""
        return self.range_s or 0.0

    def kept(self, attributes: frozenset[str]) -> frozenset[str]:
        """All attributes of the input."""
        return attributes

    # law -------------------------------------------------------------------------------------------------------------

    def columns_out(self, inputs: Sequence[Columns]) -> Columns:
        """Columns of the input, and the result."""
        return super().columns_out(inputs) + Columns(doubles=1)

    def through(self, inputs: tuple[np.ndarray, ...], bursts: Sequence[np.ndarray], mixing: Mixing) -> Flow:
        """Flow through the operator, and the rows at the end of the run: of random (Poisson) records, with the last one
        of each key."""
        total, run_s = np.asarray(np.sum(inputs, axis=0), dtype=float), lasting_s(mixing)
        if self.rows is None:
            rows = total * min(self.range_s or 0.0, run_s)
        else:
            rows = self.keys * most_of(self.rows + 1, total * run_s / self.keys)
        flow = self.passed_on(inputs, bursts, mixing, total, rows)
        return flow._replace(bursts_per_s=mixing.arriving(inputs, bursts)[1])

    def ages_s(self, arriving: np.ndarray, mixed: np.ndarray, held: HeldRecords) -> np.ndarray:
        """Ages of the results: over event time, a record waits until the watermark has passed its time. Watermarks that
        are not sent in time are multiples of a time. [3, N]"""
        if not self.needs_event_time:
            return mixed
        rounded_s = 0.0 if held.disorder.every_s else WATERMARKS_S / 2.0
        return np.asarray(mixed + np.maximum(held.disorder.slack_s + rounded_s - held.disorder.disorder_s / 2.0, 0.0))

    # mechanism -------------------------------------------------------------------------------------------------------

    @property
    def mechanism(self) -> Preceding:
        """Preceding by the operator's rows or range."""
        return Preceding(self.rows, self.range_s, self.needs_event_time, self.late_to, self.row_bytes)
