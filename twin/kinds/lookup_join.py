"""Lookup joins: each record is joined with rows of a table outside, through a cache."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, ClassVar, Literal

from pydantic import Field

from twin.calls import Calls
from twin.kinds.async_io import AsyncIO, Latency, PerSecond
from twin.kinds.operator import Fraction


class LookupJoin(AsyncIO):
    """Calls a table outside for a record whose row is not in the cache, which answers the others after
    `hit_latency_s`."""

    does: ClassVar[str] = "looks records up in a table outside, through a cache"

    kind: Literal["lookup-join"] = "lookup-join"  # type: ignore[assignment]
    hit_ratio: Annotated[Fraction, Field(description="of the records, that the cache answers")] = 0.0
    hit_latency_s: Latency = 0.0
    rate_per_s: Annotated[PerSecond | None, Field(description="misses that the table bears, of all subtasks")] = None
    selectivity: Annotated[float, Field(ge=0, le=10**6, description="rows that a record matches")] = 1.0

    @property
    def plain_calls(self) -> Calls:
        """Calls with the hits of the cache among them; misses are spread evenly over all records."""
        misses = 1.0 - self.hit_ratio
        rate_per_s = None if self.rate_per_s is None or not misses else self.rate_per_s / misses
        return replace(super().plain_calls, rate_per_s=rate_per_s, hit_ratio=self.hit_ratio, hit_s=self.hit_latency_s)
