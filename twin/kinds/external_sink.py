"""A sink that writes to a system outside, which bears so much and no more."""

from __future__ import annotations

from typing import ClassVar, Literal, Self

from pydantic import model_validator

from twin.calls import Calls
from twin.kinds.async_io import Calling, Latency, LatencyScv, PerSecond, Places
from twin.kinds.mechanism import Writing


class ExternalSink(Calling):
    """Where results arrive once the system outside has acknowledged them: `rate_per_s` of all replicas at most, or
    `capacity` at a time of each. What it does not take holds the job up."""

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
    def calls(self) -> Calls:
        """See Calling."""
        return Calls(self.latency_s, self.latency_scv, self.capacity, False, self.rate_per_s)

    @property
    def mechanism(self) -> Writing:
        """See OperatorBase."""
        return Writing(self.calls)
