"""Engine profiles: the CPU time and size of a tuple, and the capacity of a channel.

Each number can be replaced in a scenario file; docs/profiles.md says where it comes from.
"""

from twin.profiles.brisk import BRISK
from twin.profiles.costs import Memory, NetworkMemory, Noise, PerKind, PerType, Rescaling
from twin.profiles.flink import FLINK
from twin.profiles.profile import CACHE_LINE_BYTES, EngineProfile
from twin.profiles.registry import PROFILES, profile_by_name
from twin.profiles.storm import STORM

__all__ = [
    "BRISK",
    "CACHE_LINE_BYTES",
    "FLINK",
    "PROFILES",
    "STORM",
    "EngineProfile",
    "Memory",
    "NetworkMemory",
    "Noise",
    "PerKind",
    "PerType",
    "Rescaling",
    "profile_by_name",
]
