"""The heap of an engine: what it holds, and how work slows down when it is nearly full."""

from __future__ import annotations

from typing import Annotated, Self

from pydantic import Field, model_validator

from twin.spec import Spec


class Memory(Spec):
    """A JVM's heap: linear slow-down by garbage collection above `onset`, a crash above `crash` (shares of RAM)."""

    base_mb: Annotated[
        float, Field(ge=0, le=10**9, description="taken by the engine itself, a host that runs anything")
    ]
    object_overhead: Annotated[float, Field(ge=1, le=10**6, description="heap bytes per byte of tuple data")]
    onset: Annotated[float, Field(gt=0, le=1)]
    crash: Annotated[float, Field(gt=0, le=1)]
    slowdown_at_crash: Annotated[
        float, Field(ge=1, le=10**6, description="factor on all CPU work just below the crash")
    ]

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.onset > self.crash:
            raise ValueError(f"memory.onset must be <= crash ({self.crash:g}), got {self.onset:g}")
        return self

    def slowdown(self, used_share: float) -> float:
        """Factor on CPU work, >= 1, at that share of RAM in use."""
        if used_share <= self.onset:
            return 1.0
        reach = min(1.0, (used_share - self.onset) / max(self.crash - self.onset, 1e-9))
        return 1.0 + reach * (self.slowdown_at_crash - 1.0)
