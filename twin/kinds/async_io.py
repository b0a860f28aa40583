"""Asynchronous calls: operators that wait for answers from outside the job, which takes no CPU."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from pydantic import Field

from twin.calls import Calls
from twin.columns import Columns
from twin.kinds.mechanism import Asking
from twin.kinds.operator import KeyedOperator, OperatorBase
from twin.kinds.selective import Selective

Latency = Annotated[float, Field(ge=0, le=10**5, description="mean seconds from a call to its answer")]
LatencyScv = Annotated[float, Field(ge=0, le=100, description="squared coefficient of variation of that; Gamma")]
Places = Annotated[int, Field(ge=1, le=10**6, description="calls of one replica that wait at a time")]
PerSecond = Annotated[float, Field(gt=0, le=10**9, description="calls a second that all replicas together may make")]


class Calling(OperatorBase):
    """Base of operators that make a call for each tuple. Service is the CPU time of making it and taking the answer."""

    runs_alone: ClassVar[bool] = True

    @property
    def calls(self) -> Calls:
        """Calls to the system outside, one for each tuple."""
        raise NotImplementedError


class AsyncIO(Calling, Selective, KeyedOperator):
    """Calls a system outside for each tuple, as Flink's AsyncDataStream does: `unordered` answers leave as they come,
    `ordered` ones in the order of their tuples."""

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
    def calls(self) -> Calls:
        """Calls with the operator's latency, capacity, order and limit."""
        return Calls(self.latency_s, self.latency_scv, self.capacity, self.ordered, self.rate_per_s)

    @property
    def mechanism(self) -> Asking:  # type: ignore[override]
        """Calls, and the number of tuples that leave for each answer."""
        return Asking(self.calls, self.selectivity)
