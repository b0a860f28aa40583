"""Asynchronous I/O: a call for each tuple, many in flight, none of which takes CPU."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, ClassVar, Literal

from pydantic import Field

from twin.calls import Calls
from twin.columns import Columns
from twin.kinds.calling import Calling, Latency, LatencyScv, PerSecond, Places
from twin.kinds.mechanism import Asking
from twin.kinds.operator import KeyedOperator
from twin.kinds.selective import Selective


class AsyncIO(Calling, Selective, KeyedOperator):
    """As Flink's AsyncDataStream: `unordered` answers leave as they come, `ordered` ones as their tuples came."""

    does: ClassVar[str] = "asks a system outside for each tuple and waits without CPU"

    kind: Literal["async"] = "async"
    latency_s: Latency
    latency_scv: LatencyScv = 1.0
    capacity: Places = 100
    ordered: bool = False
    rate_per_s: PerSecond | None = None
    selectivity: Annotated[float, Field(ge=0, le=10**6, description="tuples that leave for each answer")] = 1.0
    columns: Annotated[Columns | None, Field(description="of the output; absent: as the input")] = None

    @property
    def keyed(self) -> bool:
        """If it keeps state by key."""
        return self.key_groups is not None

    def columns_out(self, inputs: Sequence[Columns]) -> Columns:
        """As given, or as its input."""
        return super().columns_out(inputs) if self.columns is None else self.columns

    @property
    def calls(self) -> Calls:
        """See Calling."""
        return Calls(self.latency_s, self.latency_scv, self.capacity, self.ordered, self.rate_per_s)

    @property
    def mechanism(self) -> Asking:  # type: ignore[override]
        """See OperatorBase."""
        return Asking(self.calls, self.selectivity)
