"""How many network buffers there are, by Flink's own options, and how many tuples they hold under backpressure."""

from __future__ import annotations

from typing import Annotated, Any, Self

import numpy as np
from pydantic import Field, model_validator

from twin.spec import Spec


class NetworkMemory(Spec):
    """Flink's `taskmanager.network.memory`, and its defaults. `twin.engine.streams.buffers` says what they do."""

    buffers_per_channel: Annotated[
        float, Field(ge=0, le=10**6, description="of a producer's pool and of a gate, for each of their channels")
    ] = 2.0
    floating_buffers_per_gate: Annotated[
        float, Field(ge=0, le=10**6, description="of a producer's pool and of a gate, for all their channels together")
    ] = 8.0
    max_buffers_per_channel: Annotated[
        float, Field(ge=2, le=10**6, description="a producer stops when one of its channels has so many in use")
    ] = 10.0

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.buffers_per_channel + self.floating_buffers_per_gate < 1.0:
            raise ValueError(
                "channels hold nothing: give buffers_per_channel or floating_buffers_per_gate of at least 1"
            )
        return self

    def times(self, ratio: float) -> NetworkMemory:
        """All numbers times `ratio`, but no fewer buffers than channels need."""
        each = self.buffers_per_channel * ratio
        return NetworkMemory(
            buffers_per_channel=each,
            floating_buffers_per_gate=max(self.floating_buffers_per_gate * ratio, 1.0 - each),
            max_buffers_per_channel=max(2.0, self.max_buffers_per_channel * ratio),
        )

    def pool(self, channels: Any) -> Any:
        """Buffers of a producer replica for a stream with so many channels. A number or an array."""
        return np.maximum(channels * self.buffers_per_channel + self.floating_buffers_per_gate, channels + 1.0)

    def gate(self, channels: Any) -> Any:
        """Buffers for what so many channels bring to a consumer replica from other hosts."""
        return np.where(channels > 0.0, channels * self.buffers_per_channel + self.floating_buffers_per_gate, 0.0)

    def held(self, producers: Any, channels: Any, remote: Any, size: Any) -> Any:
        """Tuples on the way to one consumer replica if all channels are full. Numbers or arrays.

        producers: replicas that send to it. channels: of each. remote: share of its channels that come from other
        hosts. size: tuples in a buffer. A producer's channels share its pool, each up to its most. Their buffers are
        full of tuples but for the last one of each, which is being filled: the producer stops when it takes one, with
        the first tuple in it; the others are half full in the mean. Buffers at the gate are full too. The replica reads
        one buffer after the other, which is half read in the mean.
        """
        buffers = np.minimum(channels * self.max_buffers_per_channel, self.pool(channels))
        each = (size * buffers - (size - 1.0) * (1.0 + (channels - 1.0) / 2.0)) / channels
        held = producers * each + size * self.gate(producers * remote) - (size - 1.0) / 2.0
        return np.maximum(held, 1.0)
