"""Interval joins: a record meets those of the other side that come within bounds around it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, ClassVar, Literal, Self

import numpy as np
from pydantic import Field, model_validator

from twin.columns import Columns, DataType
from twin.kinds.ages import HeldTuples
from twin.kinds.flow import Flow, Mixing
from twin.kinds.mechanism import Meeting
from twin.kinds.operator import KeyedOperator, Name

Bound = Annotated[float, Field(ge=-(10**6), le=10**6)]


class IntervalJoin(KeyedOperator):
    """One tuple for each pair of a key with a.time + lower_s <= b.time <= a.time + upper_s, of a tuple a of `left` and
    b of `right`, as soon as both are there (Flink's interval join, over processing time: times are those at which the
    operator takes tuples up). Each side is held for as long as it can still meet the other. Keys are alike."""

    joins: ClassVar[bool] = True
    runs_alone: ClassVar[bool] = True
    does: ClassVar[str] = "matches tuples of two streams that come within bounds of each other"
    costs_like: ClassVar[str] = "join"

    kind: Literal["interval-join"] = "interval-join"
    left: Annotated[Name, Field(description="the producer from whose tuples the bounds count")]
    right: Annotated[Name, Field(description="the producer of the other side")]
    lower_s: Annotated[Bound, Field(description="a tuple of the right comes so much after one of the left at least")]
    upper_s: Annotated[Bound, Field(description="and so much at most")]
    keys: Annotated[int, Field(ge=1, le=10**9, description="distinct keys in both streams")]
    key_type: DataType = "int"

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.lower_s >= self.upper_s:
            bounds = f"lower_s {self.lower_s:g} and upper_s {self.upper_s:g}"
            raise ValueError(f"{self.name!r} has {bounds}; give a lower bound below the upper one")
        if self.key_groups is not None and self.keys < self.key_groups:
            raise ValueError(
                f"{self.name!r} has {self.keys} keys in {self.key_groups} key groups; give it as many keys at least"
            )
        return self

    # traits ----------------------------------------------------------------------------------------------------------

    @property
    def keyed(self) -> bool:
        """Always: matches have the same key."""
        return True

    @property
    def hands_over(self) -> str:
        """See OperatorBase."""
        return "untimed"

    @property
    def if_unlike(self) -> str:
        """See OperatorBase."""
        return f"that frequent keys of {self.name} have more matches"

    @property
    def counted(self) -> int:
        """Its keys."""
        return self.keys

    def why_not_from(self, producers: Sequence[str]) -> str:
        """See OperatorBase."""
        if sorted(producers) == sorted((self.left, self.right)):
            return ""
        return f"joins {self.left!r} with {self.right!r}, and its inputs are {', '.join(producers)}; make them agree"

    # law -------------------------------------------------------------------------------------------------------------

    def columns_out(self, inputs: Sequence[Columns]) -> Columns:
        """Those of both inputs, with one copy of the key."""
        joined = sum(inputs[1:], inputs[0])
        return joined.model_copy(update={f"{self.key_type}s": max(0, joined.count(self.key_type) - 1)})

    @property
    def held_s(self) -> tuple[float, float]:
        """How long tuples of the left, and of the right, can still meet one that comes."""
        return max(self.upper_s, 0.0), max(-self.lower_s, 0.0)

    def _sides(self, inputs: tuple[np.ndarray, ...]) -> tuple[np.ndarray, np.ndarray]:
        """Left and right, of inputs by the names of their producers."""
        first, second = inputs[0], inputs[-1]
        return (first, second) if self.left < self.right else (second, first)

    def through(self, inputs: tuple[np.ndarray, ...], bursts: Sequence[np.ndarray], mixing: Mixing) -> Flow:
        """Pairs of Poisson streams within the bounds: rate_a rate_b (upper - lower) / keys a second; a side that all
        replicas get counts once."""
        total, together, burst_s = mixing.arriving(inputs, bursts)
        whole = mixing.whole or (False,) * len(inputs)
        once = tuple(rate / (mixing.replicas if all_ else 1.0) for rate, all_ in zip(inputs, whole, strict=True))
        left, right = self._sides(once)
        out = left * right * (self.upper_s - self.lower_s) / self.keys
        held = sum(rate * held_s for rate, held_s in zip(self._sides(inputs), self.held_s, strict=True))
        none = np.zeros_like(total)
        return Flow(inputs, total, out, held + none, none, none, np.where(together < out, together, np.inf), burst_s)

    def ages_s(self, arriving: np.ndarray, mixed: np.ndarray, held: HeldTuples) -> np.ndarray:
        """The older of the two: the right one comes D after the left one, anything between the bounds alike, and the
        earlier has aged by |D| meanwhile."""
        left, right = self._sides((arriving[:, 0], arriving[:, -1]))
        later, sooner = (
            _older_s(left, right, max(self.lower_s, 0.0), max(self.upper_s, 0.0)),
            _older_s(right, left, max(-self.upper_s, 0.0), max(-self.lower_s, 0.0)),
        )
        return np.asarray((later + sooner) / (self.upper_s - self.lower_s))

    # mechanism -------------------------------------------------------------------------------------------------------

    @property
    def mechanism(self) -> Meeting:
        """See OperatorBase."""
        return Meeting(self.left, self.lower_s, self.upper_s, self.keys)

    # advice ----------------------------------------------------------------------------------------------------------

    def why_silent(self, taken: int, came: int) -> str:
        """Nothing met."""
        return (
            f"{self.name!r} took in {taken} tuples of {self.keys} keys and none met another within its bounds; "
            "see that both inputs get tuples, widen the bounds or run longer"
        )


def _older_s(early: np.ndarray, late: np.ndarray, least_s: float, most_s: float) -> np.ndarray:
    """The integral over d from least to most of max(early + d, late). [3, N]"""
    from_s = np.clip(late - early, least_s, most_s)
    return np.asarray(late * (from_s - least_s) + early * (most_s - from_s) + (most_s**2 - from_s**2) / 2.0)
