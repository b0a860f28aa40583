"""Constants of a stream engine: the CPU time and size of a tuple, and the capacity of a channel."""

from __future__ import annotations

import math
from collections.abc import Mapping
from statistics import fmean
from typing import Annotated, Any, Literal, Self

from pydantic import Field, model_validator

from twin.profiles.costs import Memory, Micros, NetworkMemory, Noise, PerKind, PerType, Rescaling
from twin.query import AnyOperator, Columns, Query, Windowed
from twin.spec import Spec

Rates = Mapping[str, float] | None
"""Tuples a second by producer, as weights; 0 for a producer without one. Equal weights if None, or if all are 0."""

CACHE_LINE_BYTES = 64
FORMERLY = {"channel_buffers": "buffers_per_channel", "gate_buffers": "floating_buffers_per_gate"}
"""Former keys, and the keys of `network_memory` that replace them."""


class EngineProfile(Spec):
    """Constants of one stream engine. Times are for one reference core (cpu_percent = 100)."""

    name: str
    tuple_us: PerKind
    value_us: PerType
    result_us: Annotated[Micros, Field(description="per tuple that a window evaluation emits")]
    scan_us: Annotated[Micros, Field(description="per tuple that a window evaluation looks at")]
    serialise_ns_per_byte: Annotated[
        float, Field(ge=0, le=10**9, description="at the producer, for tuples that leave the host")
    ]
    deserialise_ns_per_byte: Annotated[
        float, Field(ge=0, le=10**9, description="at the consumer, for tuples from other hosts")
    ]
    service_scv: Annotated[float, Field(ge=0, le=100, description="squared coefficient of variation of a tuple's cost")]
    value_bytes: PerType
    tuple_bytes: Annotated[float, Field(ge=0, le=10**9, description="header of a tuple on the wire and in state")]
    channel_tuples: Annotated[
        int | None,
        Field(
            ge=1,
            le=10**12,
            exclude_if=lambda tuples: tuples is None,
            description="credits: tuples on the way to, or queued at, one replica",
        ),
    ] = None
    network_memory: Annotated[
        NetworkMemory | None,
        Field(
            exclude_if=lambda memory: memory is None,
            description="instead of channel_tuples: network buffers of buffer_bytes, as Flink's",
        ),
    ] = None
    memory: Memory
    memory_factor: Annotated[
        float,
        Field(
            ge=0, le=10**6, description="bytes of local memory traffic per byte of an input tuple; counts on sockets"
        ),
    ] = 0.0
    context_switch: Annotated[
        float, Field(ge=0, le=100, description="extra work, as a share, per runnable task and core beyond one")
    ] = 0.0
    batch_tuples: Annotated[
        int, Field(ge=1, le=10**6, description="tuples that leave together, as one jumbo tuple; 1: each at once")
    ] = 1
    buffer_bytes: Annotated[
        float | None, Field(ge=1, le=10**12, description="instead of batch_tuples: as many tuples as fit into a buffer")
    ] = None
    flush_s: Annotated[
        float | None, Field(ge=1e-6, le=10**7, description="period at which incomplete batches leave too")
    ] = None
    chaining: Annotated[
        bool,
        Field(
            exclude_if=lambda chaining: not chaining,
            description="operators run as one where tuples go straight on, to the only consumer, at the same places",
        ),
    ] = False
    slots: Annotated[
        bool,
        Field(
            exclude_if=lambda slots: not slots,
            description="subtasks are placed in slots that take one subtask of every operator, as in Flink; optimizers "
            "that change numbers of subtasks propose only plans that can be deployed so",
        ),
    ] = False
    lateness: Annotated[
        Literal["pane", "window"],
        Field(
            exclude_if=lambda lateness: lateness == "pane",
            description="when a tuple is late for complete windows over event time: pane: when the watermark has "
            "passed its pane (Enorm); window: when it has passed all of its windows, so that a tuple counts in those "
            "that are still open (Flink)",
        ),
    ] = "pane"
    noise: Noise = Noise()
    rescaling: Annotated[
        Rescaling,
        Field(
            exclude_if=lambda rescaling: rescaling == Rescaling(),
            description="what a change of the plan does to a running job",
        ),
    ] = Rescaling()

    @model_validator(mode="before")
    @classmethod
    def _name_keys_of_before(cls, data: Any) -> Any:
        for key in FORMERLY if isinstance(data, Mapping) else ():
            if key in data:
                raise ValueError(
                    f"{key} is network_memory.{FORMERLY[key]} now, as in Flink's options, and replaces "
                    "channel_tuples; rename it and leave channel_tuples out"
                )
        return data

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.batch_tuples > 1 and self.buffer_bytes is not None:
            raise ValueError(f"engine {self.name!r}: give batch_tuples or buffer_bytes, not both")
        if (self.batch_tuples > 1 or self.buffer_bytes is not None) and self.flush_s is None:
            raise ValueError(f"engine {self.name!r}: batches need flush_s, or the last tuples would never leave")
        if (self.channel_tuples is None) == (self.network_memory is None):
            raise ValueError(
                f"engine {self.name!r}: what channels hold is channel_tuples or network_memory; give one of them, and "
                "null for the other"
            )
        if self.network_memory is not None and self.buffer_bytes is None:
            raise ValueError(f"engine {self.name!r}: network_memory needs buffer_bytes, the size of a buffer")
        return self

    def batch_of(self, size: float) -> int:
        """Number of tuples of that many bytes in a full batch, at least 1."""
        if self.buffer_bytes is None:
            return self.batch_tuples
        return max(1, int(self.buffer_bytes / max(size, 1.0)))

    def spans_of(self, size: float) -> float:
        """Number of network buffers that a tuple of that many bytes takes up, at least 1."""
        return 1.0 if self.buffer_bytes is None else max(1.0, size / self.buffer_bytes)

    def lines_of(self, size: float) -> float:
        """Number of remote cache lines that fetching a tuple of that many bytes takes; a batch fills whole lines.

        BriskStream, Section 3.1: ceil(N / S).
        """
        batch = self.batch_of(size)
        return math.ceil(batch * size / CACHE_LINE_BYTES) / batch

    def bytes_of(self, columns: Columns) -> float:
        """Size in bytes of a tuple with those columns."""
        return self.tuple_bytes + self.value_bytes.total(columns)

    def output_bytes(self, query: Query, name: str) -> float:
        """Size in bytes of a tuple that an operator emits: its own `tuple_bytes`, or by its columns."""
        given = query.operator(name).tuple_bytes
        return self.bytes_of(query.columns_out[name]) if given is None else given

    def input_bytes(self, query: Query, name: str, rates: Rates = None) -> float:
        """Mean size in bytes of an input tuple; of a source, of a tuple that it emits. rates: as in `service_s`."""
        return _mean({stream: self.output_bytes(query, stream) for stream in query.feeds(name)}, rates)

    def memory_bytes(self, query: Query, operator: AnyOperator, rates: Rates = None) -> float:
        """Mean local memory traffic per input tuple, in bytes. rates: as in `service_s`."""
        return _mean(
            {stream: self.memory_bytes_of(query, operator, stream) for stream in query.feeds(operator.name)}, rates
        )

    def memory_bytes_of(self, query: Query, operator: AnyOperator, producer: str) -> float:
        """Local memory traffic per tuple of one producer, in bytes: the operator's `memory_bytes`, or by the tuple's
        size."""
        if operator.memory_bytes is not None:
            return operator.memory_bytes
        return self.memory_factor * self.output_bytes(query, producer)

    def service_s(self, query: Query, operator: AnyOperator, rates: Rates = None) -> float:
        """Mean CPU seconds per input tuple on one reference core, without window evaluations and (de)serialisation.

        rates: tuples a second by producer, where the operator has several inputs; absent: equal weights.
        """
        return _mean(
            {stream: self.service_s_of(query, operator, stream) for stream in query.feeds(operator.name)}, rates
        )

    def service_s_of(self, query: Query, operator: AnyOperator, producer: str) -> float:
        """Mean CPU seconds per tuple of one producer, by its columns. For a source, the producer is itself."""
        if operator.service_time_s is not None:
            return operator.service_time_s
        return (self.tuple_us.of(operator) + self.value_us.total(query.columns_out[producer])) * 1e-6

    def service_scv_of(self, operator: AnyOperator) -> float:
        """Squared coefficient of variation of an operator's service time."""
        return self.service_scv if operator.service_scv is None else operator.service_scv

    def result_s(self, operator: AnyOperator) -> float:
        """CPU seconds per tuple that a window evaluation emits; 0 if a service time was given, which covers all."""
        return self.result_us * 1e-6 if _evaluated(operator) else 0.0

    def scan_s(self, operator: AnyOperator) -> float:
        """CPU seconds per tuple that a window evaluation looks at; 0 if a service time was given."""
        return self.scan_us * 1e-6 if _evaluated(operator) else 0.0


def _evaluated(operator: AnyOperator) -> bool:
    """Whether the evaluation of a window costs more than a service time covers."""
    return isinstance(operator, Windowed) and operator.service_time_s is None


def _mean(values: Mapping[str, float], rates: Rates) -> float:
    """Mean of values by producer, weighted by rates. Equal values stay the same to the last bit."""
    if len(set(values.values())) == 1:
        return next(iter(values.values()))
    weights = [rates.get(value, 0.0) if rates else 0.0 for value in values]
    if sum(weights) <= 0.0:
        return fmean(values.values())
    return sum(value * weight for value, weight in zip(values.values(), weights, strict=True)) / sum(weights)
