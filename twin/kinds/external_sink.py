"""External sinks: they write to a system outside, which takes a limited load."""

from __future__ import annotations

from typing import ClassVar, Literal, Self

from pydantic import model_validator

from twin.calls import Calls
from twin.kinds.async_io import Calling, Latency, LatencyScv, PerSecond, Places
from twin.kinds.mechanism import Writing


class ExternalSink(Calling):
    """Sink where results arrive once a system outside has acknowledged them. The system takes at most `rate_per_s` from
    all subtasks, or `capacity` at a time from each; a result that it does not take blocks the job."""

    is_sink: ClassVar[bool] = True
    does: ClassVar[str] = "writes the results to a system outside that bears so much"
    costs_like: ClassVar[str] = "sink"

    kind: Literal["external-sink"] = "external-sink"
    rate_per_s: PerSecond | None = None
    capacity: Places | None = None
    latency_s: Latency = 0.0
    latency_scv: LatencyScv = 1.0

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.rate_per_s is None and self.capacity is None:
            raise ValueError(
                f"external-sink {self.name!r} has no limit; give rate_per_s, or capacity and latency_s, "
                "or make it a sink"
            )
        if self.rate_per_s is None and self.latency_s == 0.0:
            raise ValueError(
                f"external-sink {self.name!r}: a capacity of {self.capacity} limits nothing where latency_s is 0; "
                "give the seconds to an acknowledgement"
            )
        return self

    @property
    def plain_calls(self) -> Calls:
        """Writes to the system outside, with their latency and limits."""
        return Calls(self.latency_s, self.latency_scv, self.capacity, False, self.rate_per_s)

    @property
    def mechanism(self) -> Writing:
        """Writing, by its calls."""
        return Writing(self.calls)
