"""Windows: which tuples are looked at together, and when."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from twin.spec import Spec


class CountWindow(Spec):
    """The last `size_tuples` tuples of all inputs together, evaluated every `slide_tuples` tuples."""

    policy: Literal["count"] = "count"
    size_tuples: Annotated[int, Field(gt=0, le=10**9)]
    slide_tuples: Annotated[int | None, Field(gt=0, description="absent: tumbling, slide = size")] = None

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.slide_tuples is not None and self.slide_tuples > self.size_tuples:
            raise ValueError(f"slide_tuples must be <= size_tuples ({self.size_tuples}), got {self.slide_tuples}")
        return self

    @property
    def size(self) -> float:
        """Length in the window's own unit: tuples."""
        return self.size_tuples

    @property
    def slide(self) -> float:
        """Slide in the window's own unit: tuples."""
        return self.size_tuples if self.slide_tuples is None else self.slide_tuples

    @property
    def tumbling(self) -> bool:
        """Whether windows do not overlap."""
        return self.slide == self.size


class TimeWindow(Spec):
    """The tuples processed within the last `size_s` seconds, evaluated every `slide_s` seconds."""

    policy: Literal["time"] = "time"
    size_s: Annotated[float, Field(ge=1e-6, le=10**9)]
    slide_s: Annotated[float | None, Field(ge=1e-6, description="absent: tumbling, slide = size")] = None

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.slide_s is not None and self.slide_s > self.size_s:
            raise ValueError(f"slide_s must be <= size_s ({self.size_s}), got {self.slide_s}")
        return self

    @property
    def size(self) -> float:
        """Length in the window's own unit: seconds."""
        return self.size_s

    @property
    def slide(self) -> float:
        """Slide in the window's own unit: seconds."""
        return self.size_s if self.slide_s is None else self.slide_s

    @property
    def tumbling(self) -> bool:
        """Whether windows do not overlap."""
        return self.slide == self.size


Window = Annotated[CountWindow | TimeWindow, Field(discriminator="policy")]
