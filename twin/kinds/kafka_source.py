"""Kafka sources: no two replicas read the same partition of a topic."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from pydantic import Field

from twin.kinds.source import Source


class KafkaSource(Source):
    """Source whose replicas read whole partitions: more replicas than partitions are idle, and where partitions cannot
    be shared evenly some replicas read more than others."""

    does: ClassVar[str] = "reads the partitions of a topic"
    costs_like: ClassVar[str] = "source"

    kind: Literal["kafka-source"] = "kafka-source"  # type: ignore[assignment]
    partitions: Annotated[int, Field(ge=1, le=10**5, description="of the topic, all of the same rate")]

    @property
    def parts(self) -> int:
        """Number of partitions of the topic."""
        return self.partitions
