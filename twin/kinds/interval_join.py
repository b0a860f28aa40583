"""Interval joins: a record is joined with those of the other side that come within bounds around it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, ClassVar, Literal, Self

import numpy as np
from pydantic import Field, model_validator

from twin.columns import Columns, DataType, joined_columns
from twin.kinds.ages import HeldRecords
from twin.kinds.flow import Flow, Mixing
from twin.kinds.mechanism import Meeting
from twin.kinds.operator import REFUSED, KeyedOperator, Name, StateAccess
from twin.kinds.windowed import LateTo
from twin.windows import Holds, TimeOf

Bound = Annotated[float, Field(ge=-(10**6), le=10**6)]

POINTS = 16
"""Number of delays between records out of order that stand for their distribution, on each side of 0."""


class IntervalJoin(LateTo, KeyedOperator):
    """Emits a record for each pair of records a of `left` and b of `right` that have the same key and a.time + lower_s
    <= b.time <= a.time + upper_s, as soon as both are there: Flink's interval join. Over processing time, the time of a
    record is the beginning of its service. Over event time, a result has the later of the two times, and a record that
    the watermark has passed is late. Records are stored while a partner can still come. All keys are equally
    frequent."""

    joins: ClassVar[bool] = True
    runs_alone: ClassVar[bool] = True
    does: ClassVar[str] = "matches records of two streams that come within bounds of each other"
    costs_like: ClassVar[str] = "join"

    kind: Literal["interval-join"] = "interval-join"
    left: Annotated[Name, Field(description="the input, or its producer, from whose records the bounds are counted")]
    right: Annotated[Name, Field(description="the other input, or its producer")]
    lower_s: Annotated[Bound, Field(description="the shortest time from a record of the left to one of the right")]
    upper_s: Annotated[Bound, Field(description="the longest time from a record of the left to one of the right")]
    keys: Annotated[int, Field(ge=1, le=10**9, description="distinct keys in both streams")]
    key_type: DataType = "int"
    time: Annotated[
        TimeOf,
        Field(exclude_if=lambda time: time == "processing", description="by which time records meet"),
    ] = "processing"

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.lower_s >= self.upper_s:
            bounds = f"lower_s {self.lower_s:g} and upper_s {self.upper_s:g}"
            raise ValueError(f"{self.name!r} has {bounds}; give a lower bound below the upper one")
        if self.time == "processing" and self.late_to is not None:
            raise ValueError(f"{self.name!r} has late_to, and no record is late in processing time; add time: event")
        return self

    # traits ----------------------------------------------------------------------------------------------------------

    @property
    def grows_faster(self) -> bool:
        """Always true: a record finds more records within its bounds where more come."""
        return True

    @property
    def keyed(self) -> bool:
        """Always true: matches have the same key."""
        return True

    @property
    def needs_event_time(self) -> bool:
        """Whether records meet by event time."""
        return self.time == "event"

    @property
    def if_updated(self) -> str:
        """Changes count as rows of their own, where Flink refuses them."""
        return REFUSED

    @property
    def hands_over(self) -> str:
        """Kind of output: results of event time, or of processing time."""
        return "results" if self.time == "event" else "untimed"

    @property
    def memory_s(self) -> float:
        """Longest time for which a record is stored, in seconds."""
        return max(self.upper_s, -self.lower_s)

    @property
    def if_unlike(self) -> str:
        """Effect of unlike keys that the law misses, in words."""
        return f"that frequent keys of {self.name} have more matches"

    def why_not_from(self, sides: Sequence[str]) -> str:
        """Says that the inputs are not `left` and `right`; empty if they are."""
        if sorted(sides) == sorted((self.left, self.right)):
            return ""
        return f"joins {self.left!r} with {self.right!r}, but its inputs are {', '.join(sides)}; make them agree"

    # law -------------------------------------------------------------------------------------------------------------

    def columns_out(self, inputs: Sequence[Columns]) -> Columns:
        """Columns of both inputs, with one copy of the key."""
        return joined_columns(inputs, self.key_type)

    @property
    def held_s(self) -> tuple[float, float]:
        """Seconds for which records of the left and of the right are stored."""
        return max(self.upper_s, 0.0), max(-self.lower_s, 0.0)

    def _sides(self, inputs: tuple[np.ndarray, ...]) -> tuple[np.ndarray, np.ndarray]:
        """Left and right input, from inputs that are in the order of their names."""
        first, second = inputs[0], inputs[-1]
        return (first, second) if self.left < self.right else (second, first)

    def through(self, inputs: tuple[np.ndarray, ...], bursts: Sequence[np.ndarray], mixing: Mixing) -> Flow:
        """Flow through the join: rate_a rate_b (upper - lower) / keys pairs a second, of Poisson streams. A side that
        all subtasks get counts once."""
        total, together, burst_s = mixing.arriving(inputs, bursts)
        whole = mixing.whole or (False,) * len(inputs)
        once = tuple(rate / (mixing.parallelism if all_ else 1.0) for rate, all_ in zip(inputs, whole, strict=True))
        left, right = self._sides(once)
        out = left * right * (self.upper_s - self.lower_s) / self.keys
        held = sum(rate * held_s for rate, held_s in zip(self._sides(inputs), self.held_s, strict=True))
        none = np.zeros_like(total)
        return Flow(inputs, total, out, held + none, none, none, np.where(together < out, together, np.inf), burst_s)

    def ages_s(self, arriving: np.ndarray, mixed: np.ndarray, held: HeldRecords) -> np.ndarray:
        """Age of the older of the two records of a result. [3, N]

        The right record comes D after the left one, with D uniform between the bounds, and the earlier record has aged
        by |D| meanwhile. Over event time, the earlier record's event time is |D| before the other's, whichever comes
        last; arrivals of records out of order are apart by D and the difference of two uniform delays.
        """
        left, right = self._sides((arriving[:, 0], arriving[:, -1]))
        if self.time == "processing":
            return self._oldest_s(left, right, 0.0)
        later_s = held.disorder.disorder_s * (1.0 - np.sqrt(1.0 - (np.arange(POINTS) + 0.5) / POINTS))  # triangular
        return np.asarray(np.mean([self._oldest_s(right, left, sign * s) for s in later_s for sign in (-1, 1)], axis=0))

    def _oldest_s(self, left: np.ndarray, right: np.ndarray, later_s: float) -> np.ndarray:
        """Mean age of the older record, if the right one comes D + later_s after the left one. [3, N]"""
        lower_s, upper_s = self.lower_s + later_s, self.upper_s + later_s
        later, sooner = (
            _older_s(left, right, max(lower_s, 0.0), max(upper_s, 0.0)),
            _older_s(right, left, max(-upper_s, 0.0), max(-lower_s, 0.0)),
        )
        return np.asarray((later + sooner) / (self.upper_s - self.lower_s))

    def touched(self, producer: str, holds: Holds) -> StateAccess:
        """The records of a key and time on its side are read and written, and those on the other side read."""
        return StateAccess(reads=2.0, writes=1.0)

    # mechanism -------------------------------------------------------------------------------------------------------

    @property
    def mechanism(self) -> Meeting:
        """Meeting by the operator's bounds and keys."""
        return Meeting(self.left, self.lower_s, self.upper_s, self.keys, self.time == "event", self.late_to)

    # advice ----------------------------------------------------------------------------------------------------------

    def why_silent(self, taken: int, came: int) -> str:
        """Says that no two records matched."""
        return (
            f"{self.name!r} took in {taken} records of {self.keys} keys, but no two of them matched within its bounds; "
            "see that both inputs get records, widen the bounds or run longer"
        )


def _older_s(early: np.ndarray, late: np.ndarray, least_s: float, most_s: float) -> np.ndarray:
    """Integral of max(early + d, late) over d from least_s to most_s. [3, N]"""
    from_s = np.clip(late - early, least_s, most_s)
    return np.asarray(late * (from_s - least_s) + early * (most_s - from_s) + (most_s**2 - from_s**2) / 2.0)
