"""Temporal joins: one input changes a table by key, and the others are joined with it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, ClassVar, Literal

import numpy as np
from pydantic import Field

from twin.columns import Columns
from twin.kinds.flow import Flow, Mixing
from twin.kinds.mechanism import Tabling
from twin.kinds.operator import KeyedOperator, Name


class TemporalJoin(KeyedOperator):
    """Joins tuples with a table by key. Tuples of `side` change its rows and go no further; each other tuple finds
    `selectivity` rows, as they are when it comes (Flink's temporal join; its broadcast state, if the stream of the side
    is `broadcast`). The table is the state of its key groups."""

    runs_alone: ClassVar[bool] = True
    does: ClassVar[str] = "joins tuples with a table that one of its inputs changes"
    costs_like: ClassVar[str] = "map"

    kind: Literal["temporal-join"] = "temporal-join"
    side: Annotated[Name, Field(description="the producer whose tuples change the table")]
    selectivity: Annotated[float, Field(ge=0, le=10**6, description="rows that a tuple of another input finds")] = 1.0
    columns: Annotated[Columns | None, Field(description="of the output; absent: as the widest input")] = None

    def passed_from(self, producer: str) -> float:
        """Share of a producer's tuples that leave in results: 0 of those that change the table."""
        return 0.0 if producer == self.side else 1.0

    def why_not_from(self, producers: Sequence[str]) -> str:
        """Says that the side, or any other input, is missing; empty if neither is."""
        if self.side not in producers:
            return f"has the side {self.side!r}, from which no stream comes; its inputs are {', '.join(producers)}"
        return "" if len(producers) > 1 else f"has no input but its side {self.side!r}; add the stream to be joined"

    def through(self, inputs: tuple[np.ndarray, ...], bursts: Sequence[np.ndarray], mixing: Mixing) -> Flow:
        """Flow through the join. Tuples that change the table are input, too."""
        total, together, burst_s = mixing.arriving(inputs, bursts)
        none = np.zeros_like(total)
        passed = mixing.passed or (1.0,) * len(inputs)  # unknown: the most there can be
        joined = sum([rate * part for rate, part in zip(inputs, passed, strict=True)], start=none)
        out = self.selectivity * joined
        return Flow(inputs, total, out, none, none, none, np.where(together < out, together, np.inf), burst_s)

    @property
    def mechanism(self) -> Tabling:
        """Tabling by the operator's side."""
        return Tabling(self.selectivity, self.side)
