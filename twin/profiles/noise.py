"""Pauses and jitter."""

from __future__ import annotations

from typing import Annotated, Self

from pydantic import Field, model_validator

from twin.spec import Spec


class Noise(Spec):
    """What disturbs a run besides the variability of services; all of it off unless given."""

    gc_interval_s: Annotated[
        float | None, Field(ge=1e-6, description="mean time between stop-the-world pauses of a host; absent: none")
    ] = None
    gc_pause_s: Annotated[float, Field(ge=0, le=3600, description="length of a pause")] = 0.0
    jitter_scv: Annotated[
        float, Field(ge=0, le=10, description="squared coefficient of variation of network latencies")
    ] = 0.0

    @model_validator(mode="after")
    def _check(self) -> Self:
        if (self.gc_interval_s is None) != (self.gc_pause_s == 0.0):
            raise ValueError(
                f"noise needs both gc_interval_s and gc_pause_s > 0, got {self.gc_interval_s} and {self.gc_pause_s}; "
                "leave both out for no pauses"
            )
        return self
