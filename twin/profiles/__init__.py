"""Engine profiles: the CPU time and size of a record, and the capacity of a channel.

Each number can be replaced in a scenario file; docs/profiles.md says where it comes from.
"""

from twin.profiles.brisk import BRISK
from twin.profiles.costs import (
    BufferDebloat,
    Memory,
    NetworkMemory,
    Noise,
    PerKind,
    PerType,
    Recovery,
    Rescaling,
    StateBackend,
)
from twin.profiles.flink import FLINK
from twin.profiles.profile import CACHE_LINE_BYTES, EngineProfile
from twin.profiles.registry import PROFILES, changes_of, profile_by_name
from twin.profiles.storm import STORM

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
