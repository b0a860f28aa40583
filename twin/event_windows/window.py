"""A window over event time: instances of one length that begin at a fixed frequency (Enorm, Section 4.2)."""

from __future__ import annotations

from typing import Annotated, Self

from pydantic import AfterValidator, Field, model_validator

from twin.spec import Spec

US_PER_S = 1_000_000


def _whole_microseconds(seconds: float) -> float:
    if abs(seconds * US_PER_S - round(seconds * US_PER_S)) > 1e-3:
        raise ValueError(f"must be a whole number of microseconds, got {seconds!r} s; round it")
    return seconds


Seconds = Annotated[float, Field(ge=1e-6, le=10**9), AfterValidator(_whole_microseconds)]
Offset = Annotated[float, Field(ge=-(10**9), le=10**9), AfterValidator(_whole_microseconds)]


def microseconds(seconds: float) -> int:
    """The nearest whole number of microseconds."""
    return round(seconds * US_PER_S)


class EventWindow(Spec):
    """Instances [start + k every, start + k every + length) for all whole k; their ends are exclusive.

    Tumbling if they abut, overlapping if they begin more often. Windows with gaps between instances, which some
    systems call hopping, are refused: tuples in a gap would be in no window.
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
        """Of every instance."""
        return microseconds(self.length_s)

    @property
    def every_us(self) -> int:
        """From the beginning of an instance to that of the next."""
        return self.length_us if self.every_s is None else microseconds(self.every_s)

    @property
    def slide_s(self) -> float:
        """Seconds from one instance to the next."""
        return self.every_us / US_PER_S

    @property
    def start_us(self) -> int:
        """Where one of the instances begins."""
        return microseconds(self.start_s)

    @property
    def tumbling(self) -> bool:
        """Whether instances do not overlap."""
        return self.every_us == self.length_us
