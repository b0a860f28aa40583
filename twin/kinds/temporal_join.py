"""Temporal joins: one input changes a table by key, and the others are joined with it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, ClassVar, Literal

import numpy as np
from pydantic import Field

from twin.columns import Columns
from twin.kinds.ages import HeldRecords
from twin.kinds.flow import Flow, Mixing
from twin.kinds.mechanism import Tabling
from twin.kinds.operator import KeyedOperator, Name, StateAccess
from twin.windows import Holds, TimeOf


class TemporalJoin(KeyedOperator):
    """Joins records with a table by key. Records of `side` change its rows and go no further; each other record finds
    `selectivity` rows, as they are when it comes (Flink's temporal join; its broadcast state, if the stream of the side
    is `broadcast`). The table is the state of its key groups."""

    runs_alone: ClassVar[bool] = True
    does: ClassVar[str] = "joins records with a table that one of its inputs changes"
    costs_like: ClassVar[str] = "map"

    kind: Literal["temporal-join"] = "temporal-join"
    side: Annotated[Name, Field(description="the input (by default, the producer) whose records change the table")]
    selectivity: Annotated[float, Field(ge=0, le=10**6, description="rows that a record of another input finds")] = 1.0
    columns: Annotated[Columns | None, Field(description="of the output; absent: as the widest input")] = None
    time: Annotated[
        TimeOf,
        Field(
            exclude_if=lambda time: time == "processing",
            description="of which the rows are: when a record comes, or its own, once the watermark has passed it",
        ),
    ] = "processing"

    @property
    def needs_event_time(self) -> bool:
        """Whether records find the rows of their own times."""
        return self.time == "event"

    @property
    def hands_over(self) -> str:
        """Kind of output: results of event time, or the records themselves."""
        return "results" if self.needs_event_time else "records"

    @property
    def keyed(self) -> bool:
        """Whether all records of a key belong on one subtask."""
        return self.key_groups is not None or self.needs_event_time

    def passed_from(self, side: str) -> float:
        """Share of an input's records that leave in results: 0 of those that change the table."""
        return 0.0 if side == self.side else 1.0

    def why_not_from(self, sides: Sequence[str]) -> str:
        """Says that the side, or any other input, is missing; empty if neither is."""
        if self.side not in sides:
            return f"has the side {self.side!r}, from which no stream comes; its inputs are {', '.join(sides)}"
        return "" if len(sides) > 1 else f"has no input but its side {self.side!r}; add the stream to be joined"

    def through(self, inputs: tuple[np.ndarray, ...], bursts: Sequence[np.ndarray], mixing: Mixing) -> Flow:
        """Flow through the join. Records that change the table are input, too."""
        total, together, burst_s = mixing.arriving(inputs, bursts)
        none = np.zeros_like(total)
        passed = mixing.passed or (1.0,) * len(inputs)  # unknown: the most there can be
        joined = sum([rate * part for rate, part in zip(inputs, passed, strict=True)], start=none)
        out = self.selectivity * joined
        return Flow(inputs, total, out, none, none, none, np.where(together < out, together, np.inf), burst_s)

    def touched(self, producer: str, holds: Holds) -> StateAccess:
        """A record of the side writes a row; another one reads one."""
        return StateAccess(writes=1.0) if producer == self.side else StateAccess(reads=1.0)

    @property
    def mechanism(self) -> Tabling:
        """Tabling by the operator's side."""
        return Tabling(self.selectivity, self.side, self.time == "event")

    def ages_s(self, arriving: np.ndarray, mixed: np.ndarray, held: HeldRecords) -> np.ndarray:
        """Ages of the results; over event time, older by the wait for the watermark. [3, N]"""
        return np.asarray(mixed + held.disorder.slack_s)
