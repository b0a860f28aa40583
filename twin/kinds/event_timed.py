"""Base classes of operators with state by key over event time: key groups, distinct keys, size of a state, late
records."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Self

import numpy as np
from pydantic import Field, model_validator

from twin.columns import Columns
from twin.kinds.flow import KeySpread, Mixing
from twin.kinds.operator import KeyedOperator, OperatorBase

NEXT_TO_NONE = 1e-9


class LateTo(OperatorBase):
    """Base of operators whose late records may go to a consumer of their own."""

    late_to: Annotated[
        str | None,
        Field(
            exclude_if=lambda late_to: late_to is None,
            description="the consumer that gets late records, as Flink's sideOutputLateData; absent: they are dropped",
        ),
    ] = None

    def share_to(self, consumer: str) -> float:
        """Share of the output that goes to a consumer. The share of late records is unknown beforehand: almost none."""
        return NEXT_TO_NONE if consumer == self.late_to else 1.0

    def why_not_to(self, consumers: Sequence[str]) -> str:
        """Says what is wrong with the consumers where late records have one of their own; empty if nothing is."""
        if self.late_to is None:
            return ""
        if self.late_to not in consumers:
            return f"sends late records to {self.late_to!r}, to which no stream leads; add one, or leave late_to out"
        return "" if len(consumers) > 1 else "sends late records to its only consumer; add a consumer for the results"


class EventTimed(KeyedOperator):
    """Base of operators with state by key over event time. Key groups are the partitions of the key, so that many
    subtasks can share the work; an operator with one key group cannot be split."""

    keys: Annotated[int, Field(ge=1, le=10**9, description="distinct keys in the stream, all alike in a key group")]
    state_bytes_per_key: Annotated[float, Field(ge=0, le=10**9, description="of the state of one key")] = 100.0

    @model_validator(mode="after")
    def _check_groups(self) -> Self:
        if self.key_groups is None:
            raise ValueError(
                f"{self.name!r} has no key_groups, so its state can be in one place only; give their number, "
                "1 for an operator that cannot be split"
            )
        return self

    @property
    def needs_event_time(self) -> bool:
        """Always true."""
        return True

    @property
    def memory_s(self) -> float:
        """Length of the longest window, in seconds; 0 without windows."""
        return max((window.length_s for window in self.event_windows), default=0.0)

    @property
    def keyed(self) -> bool:
        """Always true: state is kept by key."""
        return True

    def columns_out(self, inputs: Sequence[Columns]) -> Columns:
        """Columns of a key and its value."""
        return Columns(ints=1, doubles=1)

    @property
    def spreads(self) -> bool:
        """Always true: keys are counted by how frequent they are."""
        return True

    def spread(self, mixing: Mixing) -> KeySpread:
        """Frequencies of keys, each on one subtask."""
        return KeySpread(np.ones(1), np.array([float(self.keys)])) if mixing.spread is None else mixing.spread
