"""Parts of an engine profile: costs of a record by kind and by type of data, heap, pauses, jitter, network buffers, and
rescaling."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal, Self

import numpy as np
from pydantic import Field, create_model, model_validator

from twin.kinds.registry import BY_KIND
from twin.query import AnyOperator, Columns
from twin.spec import Spec

Micros = Annotated[float, Field(ge=0, le=10**7, description="CPU microseconds on one reference core")]


MIN_SEGMENT_BYTES = 256
"""Default of `taskmanager.memory.min-segment-size`."""


class CostsByKind(Spec):
    """CPU microseconds per input record, without those for its values."""

    def of(self, operator: AnyOperator) -> float:
        """CPU microseconds per input record of an operator. A kind that the profile does not name costs as much as the
        kind that it `costs_like`."""
        own: float | None = getattr(self, operator.kind)
        return float(getattr(self, operator.costs_like)) if own is None else own


def _costs_of(kind: type[AnyOperator]) -> Any:
    """Field of a kind. Kinds that cost like another one need not be named, so that older profiles stay valid."""
    if not kind.costs_like:
        return Micros, ...
    like = f"absent: as {kind.costs_like}"
    return Micros | None, Field(default=None, exclude_if=lambda cost: cost is None, description=like)


if TYPE_CHECKING:

    class PerKind(CostsByKind):
        """CPU microseconds by kind: one field for each kind of operators."""

        def __init__(self, **micros: float | None) -> None: ...

else:
    PerKind = create_model(
        "PerKind",
        __base__=CostsByKind,
        __module__=__name__,
        __doc__=CostsByKind.__doc__,
        **{name: _costs_of(kind) for name, kind in BY_KIND.items()},
    )


class PerType(Spec):
    """A number per value of each data type."""

    ints: Annotated[float, Field(ge=0, le=10**9)]
    strings: Annotated[float, Field(ge=0, le=10**9)]
    doubles: Annotated[float, Field(ge=0, le=10**9)]

    def total(self, columns: Columns) -> float:
        """Sum over all values of one record."""
        return self.ints * columns.ints + self.strings * columns.strings + self.doubles * columns.doubles


class Memory(Spec):
    """Heap of a JVM: linear slow-down by garbage collection above `onset`, a crash above `crash` (shares of RAM)."""

    base_mb: Annotated[
        float, Field(ge=0, le=10**9, description="taken by the engine itself, a host that runs anything")
    ]
    object_overhead: Annotated[float, Field(ge=1, le=10**6, description="heap bytes per byte of record data")]
    onset: Annotated[float, Field(gt=0, le=1)]
    crash: Annotated[float, Field(gt=0, le=1)]
    slowdown_at_crash: Annotated[
        float, Field(ge=1, le=10**6, description="factor on all CPU work just below the crash")
    ]

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.onset > self.crash:
            raise ValueError(f"memory.onset must be <= crash ({self.crash:g}), got {self.onset:g}")
        return self

    def slowdown(self, used_share: float) -> float:
        """Factor on CPU work, at least 1, if that share of RAM is in use."""
        if used_share <= self.onset:
            return 1.0
        reach = min(1.0, (used_share - self.onset) / max(self.crash - self.onset, 1e-9))
        return 1.0 + reach * (self.slowdown_at_crash - 1.0)


class Noise(Spec):
    """Disturbances of a run beside the variability of service times; there are none unless given."""

    gc_interval_s: Annotated[
        float | None, Field(ge=1e-6, description="mean time between stop-the-world pauses of a host; absent: none")
    ] = None
    gc_pause_s: Annotated[float, Field(ge=0, le=3600, description="length of a pause")] = 0.0
    jitter_scv: Annotated[
        float, Field(ge=0, le=10, description="squared coefficient of variation of network latencies")
    ] = 0.0

    @model_validator(mode="after")
    def _check(self) -> Self:
        if (self.gc_interval_s is None) != (self.gc_pause_s == 0.0):
            raise ValueError(
                f"noise needs both gc_interval_s and gc_pause_s > 0, got {self.gc_interval_s} and {self.gc_pause_s}; "
                "leave both out for no pauses"
            )
        return self


class Rescaling(Spec):
    """Way in which an engine changes a running job's plan. A single word sets `how`; the other values are the defaults.

    restart and reactive are those of Flink's documentation ("Elastic Scaling"). The times are assumptions: a real Flink
    on one machine was silent for 0.6 s (docs/real-runs.md), and its autoscaler expects 5 minutes (`restart.time`).
    """

    how: Annotated[
        Literal["live", "restart", "reactive"],
        Field(
            description="live: state moves while the job runs; restart: the job stops with a savepoint and starts "
            "again from it; reactive: the job starts again from the last checkpoint"
        ),
    ] = "live"
    redeploy_s: Annotated[
        float, Field(ge=0, le=10**7, description="from the stop of the job until its subtasks are deployed again")
    ] = 10.0
    state_mbps: Annotated[
        float,
        Field(
            gt=0,
            le=10**9,
            description="rate at which each host writes and reads state, unless `checkpoints` names a storage",
        ),
    ] = 800.0
    generated_ids: Annotated[
        bool,
        Field(
            exclude_if=lambda generated: not generated,
            description="whether the engine makes the ids of operators from their chains, as Flink does of SQL, so "
            "that no savepoint fits once a chain has changed",
        ),
    ] = False

    @model_validator(mode="before")
    @classmethod
    def _by_word(cls, data: Any) -> Any:
        return {"how": data} if isinstance(data, str) else data

    @property
    def stops(self) -> bool:
        """Whether the job stops for a change of its plan."""
        return self.how != "live"


class Recovery(Spec):
    """Time from a failure until the job is deployed anew (`rescaling.redeploy_s` comes after it), by Flink's words.

    Flink finds that a task manager is gone when so many heartbeats in a row could not be sent
    (`heartbeat.rpc-failure-threshold`), or after `heartbeat.timeout`, and then waits as its restart strategy says.
    """

    noticed_s: Annotated[
        float, Field(ge=0, le=10**7, description="from the failure until the job manager knows of it")
    ] = 0.0
    delay_s: Annotated[float, Field(ge=0, le=10**7, description="of the restart strategy, before the job restarts")] = (
        0.0
    )


class StateBackend(Spec):
    """Where subtasks keep state. A single word sets `kind`; the other values are those of RocksDB under Flink.

    heap: as objects in the memory of the host, subject to garbage collection. rocksdb: as bytes on the disk of the
    host, of which a part is in memory; each access takes CPU time and (de)serialises. docs/profiles.md says where the
    numbers come from.
    """

    kind: Annotated[
        Literal["heap", "rocksdb"],
        Field(description="heap: objects in memory; rocksdb: bytes on disk, (de)serialised at each access"),
    ] = "heap"
    read_us: Annotated[Micros, Field(description="of rocksdb: to get the state of a key, without its bytes")] = 2.0
    write_us: Annotated[Micros, Field(description="of rocksdb: to put the state of a key, without its bytes")] = 2.1
    ns_per_byte: Annotated[
        float | None,
        Field(ge=0, le=10**9, description="of rocksdb, of each byte; absent: as to and from other hosts"),
    ] = None
    managed_share: Annotated[
        float, Field(ge=0, le=1, description="of a host's RAM that rocksdb takes at most, for its cache and buffers")
    ] = 0.4

    @model_validator(mode="before")
    @classmethod
    def _by_word(cls, data: Any) -> Any:
        return {"kind": data} if isinstance(data, str) else data

    @model_validator(mode="after")
    def _check(self) -> Self:
        given = (
            name for name in type(self).model_fields if getattr(self, name) != type(self).model_fields[name].default
        )
        unused = sorted(given) if self.kind == "heap" else []  # a profile that is written out has defaults
        if unused:
            raise ValueError(f"{unused[0]} is about rocksdb; add kind: rocksdb, or leave {unused[0]} out")
        return self


def _whole(buffers: Any, spans: Any) -> Any:
    """Number of whole records that fit, at least one, if each takes up `spans` > 1 buffers; else the buffers."""
    return np.where(spans > 1.0, np.maximum(np.floor(buffers / spans), 1.0), buffers)


class BufferDebloat(Spec):
    """Buffer debloating of Flink (`taskmanager.network.memory.buffer-debloat`), with its defaults: what is on the way
    to a subtask is no more than it takes in `target_s`."""

    target_s: Annotated[
        float, Field(ge=1e-3, le=10**6, description="in which a subtask takes what is on the way to it")
    ] = 1.0
    period_s: Annotated[float, Field(ge=1e-3, le=10**6, description="from one look at throughput to the next")] = 0.2
    threshold_percentages: Annotated[
        float, Field(ge=0, le=100, description="by which the size of buffers must differ for a change to take effect")
    ] = 25.0
    samples: Annotated[int, Field(ge=1, le=10**6, description="of sizes, in their moving average")] = 20

    def least(self, buffer_bytes: float | None, size: Any) -> Any:
        """Smallest part of a buffer that is used: a segment of the smallest size, or a record. size: records in a
        buffer. A number or an array."""
        return np.minimum(1.0, np.maximum(MIN_SEGMENT_BYTES / (buffer_bytes or 1.0), 1.0 / size))

    def held(self, room: Any, least: Any, per_s: Any) -> Any:
        """Records in channels with that room, if their receiver takes so many a second. Numbers or arrays."""
        return np.clip(per_s * self.target_s, least * room, room)


class NetworkMemory(Spec):
    """Network buffers of Flink (`taskmanager.network.memory`), with its defaults; for their effect see
    `twin.machine.backpressure`."""

    buffers_per_channel: Annotated[
        float, Field(ge=0, le=10**6, description="of a producer's pool and of a gate, for each of their channels")
    ] = 2.0
    floating_buffers_per_gate: Annotated[
        float, Field(ge=0, le=10**6, description="of a producer's pool and of a gate, for all their channels together")
    ] = 8.0
    max_buffers_per_channel: Annotated[
        float, Field(ge=2, le=10**6, description="a producer stops when one of its channels has so many in use")
    ] = 10.0
    buffer_debloat: Annotated[
        BufferDebloat | None,
        Field(
            exclude_if=lambda debloat: debloat is None,
            description="makes buffers as small as their receivers are slow; absent: off",
        ),
    ] = None

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.buffers_per_channel + self.floating_buffers_per_gate < 1.0:
            raise ValueError(
                "channels hold nothing: give buffers_per_channel or floating_buffers_per_gate of at least 1"
            )
        return self

    def times(self, ratio: float) -> NetworkMemory:
        """Copy with all numbers multiplied by `ratio`, but no fewer buffers than channels need."""
        each = self.buffers_per_channel * ratio
        return NetworkMemory(
            buffers_per_channel=each,
            floating_buffers_per_gate=max(self.floating_buffers_per_gate * ratio, 1.0 - each),
            max_buffers_per_channel=max(2.0, self.max_buffers_per_channel * ratio),
            buffer_debloat=self.buffer_debloat,
        )

    # spans: size of a record over that of a buffer, at least 1. Above 1, numbers are of records that fit, rounded down.

    def pool(self, channels: Any, spans: Any = 1.0) -> Any:
        """Buffers in a producer subtask's pool for a stream with that number of channels. A number or an array."""
        least = channels + 1.0
        return _whole(np.maximum(channels * self.buffers_per_channel + self.floating_buffers_per_gate, least), spans)

    def most(self, spans: Any = 1.0) -> Any:
        """Most buffers of a producer's pool that one channel may use."""
        return _whole(self.max_buffers_per_channel, spans)

    def exclusive(self, spans: Any = 1.0) -> Any:
        """Exclusive buffers of each channel at a gate."""
        return np.where(spans > 1.0, np.floor(self.buffers_per_channel / spans), self.buffers_per_channel)

    def floating(self, spans: Any = 1.0) -> Any:
        """Floating buffers of a gate, for all its channels together; with its own, a channel can hold a record."""
        alone = _whole(self.buffers_per_channel + self.floating_buffers_per_gate, spans)
        return np.where(spans > 1.0, alone - self.exclusive(spans), self.floating_buffers_per_gate)

    def gate(self, channels: Any, spans: Any = 1.0) -> Any:
        """Buffers at a consumer subtask's gate for that number of channels from other hosts."""
        return np.where(channels > 0.0, channels * self.exclusive(spans) + self.floating(spans), 0.0)

    def held(
        self, producers: Any, channels: Any, remote: Any, size: Any, spans: Any = 1.0, far_producers: Any = None
    ) -> Any:
        """Most records on the way to one consumer subtask, when all channels are full. Numbers or arrays.

        producers: subtasks that send to it. channels: number of channels of each of them. remote: share of its channels
        that come from other hosts. size: records in a buffer. far_producers: of a subtask that any come to from other
        hosts, how many; None: their share of all. A producer's channels share its pool, each up to its most.
        Their buffers are full of records but for the last one of each, which is being filled: the producer stops when
        it takes one, with the first record in it; the others are half full in the mean. Buffers at the gate are full
        too. The subtask reads one buffer after the other, which is half read in the mean. Where a producer sends to its
        own host and to others, all channels get as much until it stops: those to its own host have no gate, and the
        others use the pool beyond their part of the gate, with at least the buffer that is being filled.
        """
        far, pool = channels * remote, self.pool(channels, spans)
        senders = np.maximum(producers * remote if far_producers is None else far_producers, 1.0)
        gate = np.where(far > 0.0, self.gate(senders, spans) / senders, 0.0)
        each = np.minimum(self.most(spans), pool / channels) + remote * gate
        both = np.minimum(far, channels - far) >= 1.0
        near_full = np.minimum(self.most(spans), (pool - far) / np.maximum(channels - far, 1.0))
        each = np.where(both, np.minimum(near_full, (pool + far * gate) / channels), each)
        each = size * each - (size - 1.0) * (1.0 + (channels - 1.0) / 2.0) / channels
        return np.maximum(producers * each - (size - 1.0) / 2.0, 1.0)
