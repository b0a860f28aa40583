"""Kafka sources: no two subtasks read the same partition of a topic."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal, Self

import numpy as np
from pydantic import Field, model_validator

from twin.key_skew import first_reader
from twin.kinds.source import Source

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
