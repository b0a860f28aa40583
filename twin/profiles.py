"""Engine profiles: the CPU time and size of a record, and the capacity of a channel.

Each number can be replaced in a scenario file; docs/profiles.md says where it comes from. A new profile stands here,
and in `PROFILES`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from statistics import fmean
from typing import Annotated, Any, Literal, Self

import numpy as np
from pydantic import Field, model_validator

from twin.errors import suggest
from twin.profile_costs import (
    BufferDebloat,
    Memory,
    Micros,
    NetworkMemory,
    Noise,
    PerKind,
    PerType,
    Recovery,
    Rescaling,
    StateBackend,
)
from twin.query import AnyOperator, Columns, Query, Windowed
from twin.spec import Spec
from twin.windows import Holds, WindowState
from twin.words import with_todays_keys

__all__ = [
    "BRISK",
    "CACHE_LINE_BYTES",
    "FLINK",
    "PROFILES",
    "STORM",
    "BufferDebloat",
    "EngineProfile",
    "Memory",
    "NetworkMemory",
    "Noise",
    "PerKind",
    "PerType",
    "Recovery",
    "Rescaling",
    "StateBackend",
    "changes_of",
    "profile_by_name",
]

# constants of an engine ----------------------------------------------------------------------------------------------
# Constants of a stream engine: the CPU time and size of a record, and the capacity of a channel.


Rates = Mapping[str, float] | None
"""Records a second by producer, as weights; 0 for a producer without one. Equal weights if None, or if all are 0."""

CACHE_LINE_BYTES = 64
FORMERLY = {"channel_buffers": "buffers_per_channel", "gate_buffers": "floating_buffers_per_gate"}
"""Former keys, and the keys of `network_memory` that replace them."""


class EngineProfile(Spec):
    """Constants of one stream engine. Times are for one reference core (cpu_percent = 100)."""

    name: str
    record_us: PerKind
    value_us: PerType
    result_us: Annotated[Micros, Field(description="per record that a window evaluation emits")]
    scan_us: Annotated[Micros, Field(description="per record that a window evaluation looks at")]
    serialise_ns_per_byte: Annotated[
        float, Field(ge=0, le=10**9, description="at the producer, for records that leave the host")
    ]
    deserialise_ns_per_byte: Annotated[
        float, Field(ge=0, le=10**9, description="at the consumer, for records from other hosts")
    ]
    service_scv: Annotated[
        float, Field(ge=0, le=100, description="squared coefficient of variation of a record's cost")
    ]
    value_bytes: PerType
    record_bytes: Annotated[float, Field(ge=0, le=10**9, description="header of a record on the wire and in state")]
    channel_records: Annotated[
        int | None,
        Field(
            ge=1,
            le=10**12,
            exclude_if=lambda records: records is None,
            description="credits: records on the way to, or queued at, one subtask",
        ),
    ] = None
    network_memory: Annotated[
        NetworkMemory | None,
        Field(
            exclude_if=lambda memory: memory is None,
            description="instead of channel_records: network buffers of buffer_bytes, as Flink's",
        ),
    ] = None
    max_spout_pending: Annotated[
        int | None,
        Field(
            ge=1,
            le=10**12,
            exclude_if=lambda most: most is None,
            description="records of a source's subtask that are not handled yet, at most (topology.max.spout.pending); "
            "absent: any number",
        ),
    ] = None
    memory: Memory
    memory_factor: Annotated[
        float,
        Field(
            ge=0, le=10**6, description="bytes of local memory traffic per byte of an input record; counts on sockets"
        ),
    ] = 0.0
    context_switch: Annotated[
        float, Field(ge=0, le=100, description="extra work, as a share, per runnable task and core beyond one")
    ] = 0.0
    batch_records: Annotated[
        int, Field(ge=1, le=10**6, description="records that leave together, as one jumbo tuple; 1: each at once")
    ] = 1
    buffer_bytes: Annotated[
        float | None,
        Field(ge=1, le=10**12, description="instead of batch_records: as many records as fit into a buffer"),
    ] = None
    flush_s: Annotated[
        float | None,
        Field(ge=1e-6, le=10**7, description="period at which incomplete batches leave too; 1e-6: at once, 1e7: never"),
    ] = None
    chaining: Annotated[
        bool,
        Field(
            exclude_if=lambda chaining: not chaining,
            description="operators run as one where records go straight on, to the only consumer, at the same places",
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
    watermark_interval_s: Annotated[
        float | None,
        Field(
            ge=1e-3,
            le=10**6,
            exclude_if=lambda s: s is None,
            description="from a source's watermark to the next; absent: as it passes ends of panes",
        ),
    ] = None
    lateness: Annotated[
        Literal["pane", "window"],
        Field(
            exclude_if=lambda lateness: lateness == "pane",
            description="when a record is late for complete windows over event time: pane: when the watermark has "
            "passed its pane (Enorm); window: when it has passed all of its windows, so that a record counts in those "
            "that are still open (Flink)",
        ),
    ] = "pane"
    window_state: Annotated[
        WindowState,
        Field(
            exclude_if=lambda state: state == "records",
            description="what windows of aggregates hold: records; accumulators: one for each key and open window, as "
            "in Flink's DataStream API; slices: one for each key and slice, which windows share, as in its Table API",
        ),
    ] = "records"
    accumulator_bytes: Annotated[
        float,
        Field(
            ge=0,
            le=10**6,
            exclude_if=lambda size: size == 0.0,
            description="of an accumulator, beside its key and value: the window, and the timer at its end",
        ),
    ] = 0.0
    state_backend: Annotated[
        StateBackend | None,
        Field(
            exclude_if=lambda backend: backend is None,
            description="heap or rocksdb; absent: the heap",
        ),
    ] = None
    noise: Noise = Noise()
    rescaling: Annotated[
        Rescaling,
        Field(
            exclude_if=lambda rescaling: rescaling == Rescaling(),
            description="what a change of the plan does to a running job",
        ),
    ] = Rescaling()
    recovery: Annotated[
        Recovery,
        Field(
            exclude_if=lambda recovery: recovery == Recovery(),
            description="how long a failure goes unnoticed, and how long the job then waits",
        ),
    ] = Recovery()

    @model_validator(mode="before")
    @classmethod
    def _name_keys_of_before(cls, data: Any) -> Any:
        for key in FORMERLY if isinstance(data, Mapping) else ():
            if key in data:
                raise ValueError(
                    f"{key} is network_memory.{FORMERLY[key]} now, as in Flink's options, and replaces "
                    "channel_records; rename it and leave channel_records out"
                )
        return data

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.batch_records > 1 and self.buffer_bytes is not None:
            raise ValueError(f"engine {self.name!r}: give batch_records or buffer_bytes, not both")
        if (self.batch_records > 1 or self.buffer_bytes is not None) and self.flush_s is None:
            raise ValueError(f"engine {self.name!r}: batches need flush_s, or the last records would never leave")
        if (self.channel_records is None) == (self.network_memory is None):
            raise ValueError(
                f"engine {self.name!r}: what channels hold is channel_records or network_memory; give one of them, and "
                "null for the other"
            )
        if self.network_memory is not None and self.buffer_bytes is None:
            raise ValueError(f"engine {self.name!r}: network_memory needs buffer_bytes, the size of a buffer")
        return self

    def batch_of(self, size: float) -> int:
        """Number of records of that many bytes in a full batch, at least 1."""
        if self.buffer_bytes is None:
            return self.batch_records
        return max(1, int(self.buffer_bytes / max(size, 1.0)))

    def spans_of(self, size: float) -> float:
        """Number of network buffers that a record of that many bytes takes up, at least 1."""
        return 1.0 if self.buffer_bytes is None else max(1.0, size / self.buffer_bytes)

    def lines_of(self, size: float) -> float:
        """Number of remote cache lines that fetching a record of that many bytes takes; a batch fills whole lines.

        BriskStream, Section 3.1: ceil(N / S).
        """
        batch = self.batch_of(size)
        return math.ceil(batch * size / CACHE_LINE_BYTES) / batch

    def bytes_of(self, columns: Columns) -> float:
        """Size in bytes of a record with those columns."""
        return self.record_bytes + self.value_bytes.total(columns)

    def window_state_of(self, operator: AnyOperator) -> Holds:
        """What the windows, or sessions, of an operator hold. Where engines have accumulators, each of several windows
        over time that overlap has its own copy of a record."""
        own: WindowState | None = getattr(operator, "window_state", None)
        holds = self.window_state if own is None else own
        if operator.accumulated is not None and holds != "records":
            return holds
        overlap = isinstance(operator, Windowed) and operator.window.policy == "time" and not operator.window.tumbling
        return "copies" if overlap and self.window_state != "records" else "records"

    def accumulator_bytes_of(self, operator: AnyOperator) -> float | None:
        """Size in bytes of an accumulator of an operator; None if it holds records."""
        if operator.accumulated is None or self.window_state_of(operator) in ("records", "copies"):
            return None
        own: float | None = getattr(operator, "accumulator_bytes", None)
        return self.accumulator_bytes + (self.value_bytes.total(operator.accumulated) if own is None else own)

    def output_bytes(self, query: Query, name: str) -> float:
        """Size in bytes of a record that an operator emits: its own `record_bytes`, or by its columns."""
        given = query.operator(name).record_bytes
        return self.bytes_of(query.columns_out[name]) if given is None else given

    def input_bytes(self, query: Query, name: str, rates: Rates = None) -> float:
        """Mean size in bytes of an input record; of a source, of a record that it emits. rates: as in `service_s`."""
        return _mean({stream: self.output_bytes(query, stream) for stream in query.feeds(name)}, rates)

    def memory_bytes(self, query: Query, operator: AnyOperator, rates: Rates = None) -> float:
        """Mean local memory traffic per input record, in bytes. rates: as in `service_s`."""
        return _mean(
            {stream: self.memory_bytes_of(query, operator, stream) for stream in query.feeds(operator.name)}, rates
        )

    def memory_bytes_of(self, query: Query, operator: AnyOperator, producer: str) -> float:
        """Local memory traffic per record of one producer, in bytes: the operator's `memory_bytes`, or by the record's
        size."""
        if operator.memory_bytes is not None:
            return operator.memory_bytes
        return self.memory_factor * self.output_bytes(query, producer)

    def service_s(self, query: Query, operator: AnyOperator, rates: Rates = None) -> float:
        """Mean CPU seconds per input record on one reference core, without window evaluations and (de)serialisation.

        rates: records a second by producer, where the operator has several inputs; absent: equal weights.
        """
        return _mean(
            {stream: self.service_s_of(query, operator, stream) for stream in query.feeds(operator.name)}, rates
        )

    def service_s_of(self, query: Query, operator: AnyOperator, producer: str) -> float:
        """Mean CPU seconds per record of one producer, by its columns, and of accesses to state where it is stored. For
        a source, the producer is itself."""
        if operator.service_time_s is not None:
            own_s = operator.service_time_s
        else:
            own_s = (self.record_us.of(operator) + self.value_us.total(query.columns_out[producer])) * 1e-6
        if not self.stores:
            return own_s
        touched = operator.touched(producer, self.window_state_of(operator))
        size = touched.bytes_each
        if size is None:
            size = self.accumulator_bytes_of(operator) or self.output_bytes(query, producer)
        return own_s + self.access_s(touched.reads, touched.writes, size)

    @property
    def stores(self) -> bool:
        """Whether state is stored, so that accesses to it take time."""
        return self.state_backend is not None and self.state_backend.kind == "rocksdb"

    def access_s(self, reads: float, writes: float, bytes_each: float) -> float:
        """CPU seconds of accesses to state of that size; 0 on the heap, where they are part of an operator's cost."""
        stored = self.state_backend
        if stored is None or not self.stores:
            return 0.0
        out_ns, in_ns = self.serialise_ns_per_byte, self.deserialise_ns_per_byte
        if stored.ns_per_byte is not None:
            out_ns = in_ns = stored.ns_per_byte
        read_s = stored.read_us * 1e-6 + bytes_each * in_ns * 1e-9
        return reads * read_s + writes * (stored.write_us * 1e-6 + bytes_each * out_ns * 1e-9)

    @property
    def state_overhead(self) -> float:
        """Bytes on the heap for each byte of state; 0 if state is stored."""
        return 0.0 if self.stores else self.memory.object_overhead

    def beside_mb(self, state_mb: Any, ram_mb: Any) -> Any:
        """Megabytes of a host's RAM that its state takes beside the heap. Numbers, or arrays by host."""
        stored = self.state_backend
        if stored is None or not self.stores:
            return 0.0 * state_mb
        return np.minimum(state_mb, stored.managed_share * ram_mb)

    def service_scv_of(self, operator: AnyOperator) -> float:
        """Squared coefficient of variation of an operator's service time."""
        return self.service_scv if operator.service_scv is None else operator.service_scv

    def result_s(self, operator: AnyOperator) -> float:
        """CPU seconds per record that a window evaluation emits; 0 if a service time was given, which covers all but
        the accesses to state that is stored."""
        own_s = self.result_us * 1e-6 if _evaluated(operator) else 0.0
        return own_s + self.result_access_s(operator)

    def result_access_s(self, operator: AnyOperator) -> float:
        """CPU seconds of accesses to state per record that a window evaluation emits."""
        size = self.accumulator_bytes_of(operator)
        if size is None or not self.stores:
            return 0.0
        touched = operator.touched("", self.window_state_of(operator))
        return self.access_s(touched.result_reads, touched.result_writes, size)

    def scan_s(self, query: Query, operator: AnyOperator) -> float:
        """CPU seconds per record that a window evaluation looks at; 0 if a service time was given. Records that are
        stored are read one after the other, so only their bytes count. Over event time, accumulators need no look."""
        own_s = self.scan_us * 1e-6 if _evaluated(operator) else 0.0
        holds_records = isinstance(operator, Windowed) and self.accumulator_bytes_of(operator) is None
        if not holds_records and operator.needs_event_time:
            return 0.0
        if not holds_records or not self.stores:
            return own_s
        size = self.input_bytes(query, operator.name)
        return own_s + self.access_s(1.0, 0.0, size) - self.access_s(1.0, 0.0, 0.0)


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


# Storm ---------------------------------------------------------------------------------------------------------------
# Profile of Storm: costs of the order that makes Costream's parameter space span both sides of saturation; not
# measured.
#
# Its Table II (one subtask an operator, 100 to 25,600 records/s, half a core to eight) does so, as its authors report.


STORM = EngineProfile(
    name="storm",
    record_us=PerKind(source=160, filter=130, map=130, aggregate=220, join=270, sink=90),
    value_us=PerType(ints=20, strings=50, doubles=30),
    result_us=80,
    scan_us=0.5,
    serialise_ns_per_byte=60,
    deserialise_ns_per_byte=60,
    service_scv=0.5,
    value_bytes=PerType(ints=8, strings=24, doubles=8),
    record_bytes=40,
    channel_records=1024,
    memory=Memory(base_mb=300, object_overhead=8.0, onset=0.5, crash=1.0, slowdown_at_crash=4.0),
)


# Flink ---------------------------------------------------------------------------------------------------------------
# Profile of Flink, with costs of the order measured on a real Flink 2.3: a few microseconds a record.


# accumulator_bytes: the window, two longs (TimeWindow.Serializer), and the timer at its end: a time, the window again,
# and the key, here an int (TimerSerializer).
FLINK = EngineProfile(
    name="flink",
    record_us=PerKind(source=1.5, filter=1.0, map=1.0, aggregate=2.0, join=2.5, sink=1.0),
    value_us=PerType(ints=0.1, strings=0.4, doubles=0.15),
    result_us=1.0,
    scan_us=0.02,
    serialise_ns_per_byte=4,
    deserialise_ns_per_byte=4,
    service_scv=0.5,
    value_bytes=PerType(ints=4, strings=16, doubles=8),
    record_bytes=16,
    network_memory=NetworkMemory(),
    memory=Memory(base_mb=700, object_overhead=4.0, onset=0.7, crash=1.0, slowdown_at_crash=4.0),
    buffer_bytes=32_768,
    flush_s=0.1,
    slots=True,
    watermark_interval_s=0.2,  # pipeline.auto-watermark-interval
    lateness="window",
    window_state="accumulators",
    accumulator_bytes=44,
    rescaling=Rescaling(how="restart"),
)


# BriskStream ---------------------------------------------------------------------------------------------------------
# Profile of BriskStream (SIGMOD 2019), as published of its word count on its Server A.


BRISK = EngineProfile(
    name="brisk",
    record_us=PerKind(source=0.5, filter=0.4, map=0.6, aggregate=0.6, join=1.2, sink=0.1),
    value_us=PerType(ints=0.0, strings=0.0, doubles=0.0),
    result_us=0.1,
    scan_us=0.01,
    serialise_ns_per_byte=4,
    deserialise_ns_per_byte=4,
    service_scv=0.1,
    value_bytes=PerType(ints=8, strings=24, doubles=8),
    record_bytes=8,
    channel_records=4096,
    memory=Memory(base_mb=500, object_overhead=4.0, onset=0.7, crash=1.0, slowdown_at_crash=4.0),
    memory_factor=1.0,
    batch_records=100,
    flush_s=0.01,
)


# profiles by name ----------------------------------------------------------------------------------------------------
# Engine profiles by name, and what differs from one of them.


PROFILES = {profile.name: profile for profile in (STORM, FLINK, BRISK)}


COSTS = "record_us"
"""Key that each profile with all of its numbers has."""


def profile_by_name(value: Any) -> Any:
    """Replaces a profile's name by the profile, and a mapping with `profile`, a name, by that profile with the changes
    beside it, nested as in a profile; keeps anything else. Raises ValueError for an unknown name."""
    if isinstance(value, str):
        return _named(value)
    if not isinstance(value, Mapping):
        return value
    value = with_todays_keys(value, EngineProfile.model_fields)
    if "profile" in value:
        changes = {key: part for key, part in value.items() if key != "profile"}
        return _merged(_named(value["profile"]).model_dump(mode="json"), changes)
    if value and COSTS not in value:
        given = next((each for each in value.values() if isinstance(each, str) and each in PROFILES), "flink")
        raise ValueError(f"not all numbers of an engine; write profile: {given} for that engine with these changes")
    return value


def changes_of(profile: EngineProfile) -> dict[str, Any] | None:
    """Fields in which a profile differs from the one of its name, nested, by their values; None if none has its
    name."""
    return _differences(profile, PROFILES[profile.name]) if profile.name in PROFILES else None


def _named(name: Any) -> EngineProfile:
    if not isinstance(name, str) or name not in PROFILES:
        raise ValueError(f"unknown engine profile {name!r}; {suggest(str(name).lower(), PROFILES)}")
    return PROFILES[name]


def _merged(base: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    parts = {key: _merged(base[key], part) for key, part in changes.items() if _both(base.get(key), part)}
    return {**base, **changes, **parts}


def _both(one: Any, other: Any) -> bool:
    return isinstance(one, Mapping) and isinstance(other, Mapping)


def _differences(spec: Spec, base: Spec) -> dict[str, Any]:
    found = dict[str, Any]()
    for name in type(spec).model_fields:
        mine, other = getattr(spec, name), getattr(base, name)
        if mine != other:
            found[name] = _differences(mine, other) if isinstance(mine, Spec) and isinstance(other, Spec) else mine
    return found
