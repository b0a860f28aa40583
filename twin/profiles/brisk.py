"""Profile of BriskStream (SIGMOD 2019), as published of its word count on its Server A."""

from __future__ import annotations

from twin.profiles.costs import Memory, PerKind, PerType
from twin.profiles.profile import EngineProfile

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
