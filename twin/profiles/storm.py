"""Profile of Storm: costs of the order that makes Costream's parameter space span both sides of saturation; not
measured.

Its Table II (one subtask an operator, 100 to 25,600 records/s, half a core to eight) does so, as its authors report.
"""

from __future__ import annotations

from twin.profiles.costs import Memory, PerKind, PerType
from twin.profiles.profile import EngineProfile

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
