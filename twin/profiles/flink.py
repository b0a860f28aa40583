"""Profile of Flink, with costs of the order measured on a real Flink 2.3: a few microseconds a record."""

from __future__ import annotations

from twin.profiles.costs import Memory, NetworkMemory, PerKind, PerType, Rescaling
from twin.profiles.profile import EngineProfile

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
