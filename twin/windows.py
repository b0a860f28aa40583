"""Windows: sets of records that an operator evaluates together. In processing time, by count, or over event time."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import AfterValidator, Field, model_validator

from twin.spec import Spec


class CountWindow(Spec):
    """Window of the last `size_tuples` tuples of all inputs together, evaluated every `slide_tuples` tuples."""

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
        """Size in the window's own unit: tuples."""
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
    """Window of the tuples processed within the last `size_s` seconds, evaluated every `slide_s` seconds."""

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
        """Size in the window's own unit: seconds."""
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


US_PER_S = 1_000_000


def _whole_microseconds(seconds: float) -> float:
    if abs(seconds * US_PER_S - round(seconds * US_PER_S)) > 1e-3:
        raise ValueError(f"must be a whole number of microseconds, got {seconds!r} s; round it")
    return seconds


Seconds = Annotated[float, Field(ge=1e-6, le=10**9), AfterValidator(_whole_microseconds)]
Offset = Annotated[float, Field(ge=-(10**9), le=10**9), AfterValidator(_whole_microseconds)]


def microseconds(seconds: float) -> int:
    """Nearest whole number of microseconds."""
    return round(seconds * US_PER_S)


class EventWindow(Spec):
    """Window over event time, with instances [start + k every, start + k every + length) for all whole k; ends are
    exclusive.

    It is tumbling if instances abut, and overlapping if they begin more often. Windows with gaps between instances,
    which some systems call hopping, are refused: tuples in a gap would be in no window.
    """

    length_s: Seconds
    every_s: Annotated[Seconds | None, Field(description="absent: tumbling, every = length")] = None
    start_s: Offset = 0.0

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.every_s is not None and self.every_s > self.length_s:
            raise ValueError(
                f"every_s must be <= length_s ({self.length_s:g}), got {self.every_s:g}; "
                "events between two instances would be in none"
            )
        return self

    @property
    def length_us(self) -> int:
        """Length of every instance in microseconds."""
        return microseconds(self.length_s)

    @property
    def every_us(self) -> int:
        """Microseconds from the beginning of an instance to that of the next."""
        return self.length_us if self.every_s is None else microseconds(self.every_s)

    @property
    def slide_s(self) -> float:
        """Seconds from the beginning of an instance to that of the next."""
        return self.every_us / US_PER_S

    @property
    def start_us(self) -> int:
        """Beginning of one of the instances, in microseconds."""
        return microseconds(self.start_s)

    @property
    def tumbling(self) -> bool:
        """Whether instances do not overlap."""
        return self.every_us == self.length_us
