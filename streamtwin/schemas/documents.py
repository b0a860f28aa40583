"""What documents share: all keys are known, and what JSON cannot say (infinity, no number) is null."""

from __future__ import annotations

from typing import Annotated

from pydantic import ConfigDict, Field, with_config
from typing_extensions import TypedDict

CLOSED = with_config(ConfigDict(extra="forbid", strict=True))
Number = float | None
"""null: there is none, or it is infinite."""
Seconds = Annotated[float, Field(description="seconds")]
Share = Annotated[float, Field(description="of 1")]
PerSecond = Annotated[float, Field(description="a second")]


@CLOSED
class Known(TypedDict):
    """A mean over runs, half its 95 % interval, and the runs' own values."""

    mean: Number
    half_width95: Number
    values: list[Number]
