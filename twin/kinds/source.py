"""Sources, which read records from a message broker."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from pydantic import Field

from twin.columns import Columns
from twin.kinds.mechanism import Reading
from twin.kinds.operator import OperatorBase

Seconds0 = Annotated[float, Field(ge=0, le=10**6)]


class Source(OperatorBase):
    """Polls a broker and emits its records. Where windows are over event time, it also sends watermarks: the newest
    event time less `slack_s` (Enorm, Section 6.2; Flink's `forBoundedOutOfOrderness`)."""

    is_source: ClassVar[bool] = True
    does: ClassVar[str] = "reads from the message broker"
    costs_like: ClassVar[str] = ""

    kind: Literal["source"] = "source"
    columns: Columns = Columns(ints=1, strings=1, doubles=1)
    disorder_s: Annotated[
        Seconds0, Field(exclude_if=lambda s: not s, description="event times lie up to so long before arrival, evenly")
    ] = 0.0
    slack_s: Annotated[
        Seconds0, Field(exclude_if=lambda s: not s, description="how late events may be; later ones are dropped")
    ] = 0.0
    watermark_interval_s: Annotated[
        float | None,
        Field(
            ge=1e-3,
            le=10**6,
            exclude_if=lambda s: s is None,
            description="of processing time, from a watermark to the next; absent: by the engine",
        ),
    ] = None
    idle_s: Annotated[
        float | None,
        Field(
            ge=1e-3,
            le=10**7,
            exclude_if=lambda s: s is None,
            description="without a record, after which nobody waits for a subtask's watermark; absent: never",
        ),
    ] = None

    @property
    def mechanism(self) -> Reading:
        """Reading from the broker."""
        return Reading(self.disorder_s, self.slack_s, self.watermark_interval_s, self.idle_s)
