"""Lookup joins: each tuple is joined with rows of a table outside, through a cache."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, ClassVar, Literal

from pydantic import Field

from twin.calls import Calls
from twin.columns import Columns
from twin.kinds.calling import Calling, Latency, LatencyScv, PerSecond, Places
from twin.kinds.mechanism import Asking
from twin.kinds.operator import Fraction, KeyedOperator
from twin.kinds.selective import Selective


class LookupJoin(Calling, Selective, KeyedOperator):
    """A call for a tuple whose row is not in the cache; one that is there is answered after `hit_latency_s`."""

    does: ClassVar[str] = "looks tuples up in a table outside, through a cache"

    kind: Literal["lookup-join"] = "lookup-join"
    latency_s: Latency
    latency_scv: LatencyScv = 1.0
    hit_ratio: Annotated[Fraction, Field(description="of the tuples, that the cache answers")] = 0.0
    hit_latency_s: Latency = 0.0
    capacity: Places = 100
    ordered: bool = False
    rate_per_s: Annotated[PerSecond | None, Field(description="misses that the table bears, of all replicas")] = None
    selectivity: Annotated[float, Field(ge=0, le=10**6, description="rows that a tuple matches")] = 1.0
    columns: Annotated[Columns | None, Field(description="of the output; absent: as the input")] = None

    @property
    def keyed(self) -> bool:
        """If a key's rows are cached in one place."""
        return self.key_groups is not None

    def columns_out(self, inputs: Sequence[Columns]) -> Columns:
        """As given, or as its input."""
        return super().columns_out(inputs) if self.columns is None else self.columns

    @property
    def calls(self) -> Calls:
        """Hits among them; misses are spread evenly over all tuples."""
        misses = 1.0 - self.hit_ratio
        return Calls(
            latency_s=self.latency_s,
            latency_scv=self.latency_scv,
            capacity=self.capacity,
            ordered=self.ordered,
            rate_per_s=None if self.rate_per_s is None or not misses else self.rate_per_s / misses,
            hit_ratio=self.hit_ratio,
            hit_s=self.hit_latency_s,
        )

    @property
    def mechanism(self) -> Asking:  # type: ignore[override]
        """See OperatorBase."""
        return Asking(self.calls, self.selectivity)
