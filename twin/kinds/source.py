"""Sources, which read records from a message broker; of Kafka, no two subtasks read the same partition."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal, Self

import numpy as np
from pydantic import Field, model_validator

from twin.columns import Columns
from twin.key_skew import first_reader
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


Share = Annotated[float, Field(ge=0, le=10**12)]


class KafkaSource(Source):
    """Source whose subtasks read whole partitions: more subtasks than partitions are idle, and where partitions cannot
    be shared evenly some subtasks read more than others."""

    does: ClassVar[str] = "reads the partitions of a topic"
    costs_like: ClassVar[str] = "source"

    kind: Literal["kafka-source"] = "kafka-source"  # type: ignore[assignment]
    partitions: Annotated[int, Field(ge=1, le=10**5, description="of the topic")]
    partition_shares: Annotated[
        tuple[Share, ...] | None,
        Field(
            exclude_if=lambda shares: shares is None,
            description="of the records, by partition, in any unit; 0: it is silent; absent: all have the same rate",
        ),
    ] = None
    topic: Annotated[
        str | None,
        Field(
            min_length=1,
            exclude_if=lambda name: name is None,
            description="its name, whose hash is the subtask that reads partition 0 in Flink; absent: the first one",
        ),
    ] = None

    @model_validator(mode="after")
    def _check_shares(self) -> Self:
        given = self.partition_shares
        if given is not None and len(given) != self.partitions:
            raise ValueError(
                f"{self.name!r} has {len(given)} partition_shares for {self.partitions} partitions; give one for each"
            )
        if given is not None and not sum(given) > 0.0:
            raise ValueError(f"{self.name!r}: all partition_shares are 0; give one that is above, or leave them out")
        return self

    @property
    def parts(self) -> int:
        """Number of partitions of the topic."""
        return self.partitions

    @property
    def part_shares(self) -> np.ndarray | None:
        """Share of the records in each partition; None: all have the same. [partitions]"""
        given = self.partition_shares
        return None if given is None or len({*given}) == 1 else np.array(given) / sum(given)

    def first_reader(self, parallelism: int) -> int:
        """Number of the subtask that reads partition 0: by the name of the topic, as in Flink, if it is given."""
        return 0 if self.topic is None else first_reader(self.topic, parallelism)
