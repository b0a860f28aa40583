"""Engine profiles by name. A new one is a file beside this one and a line here."""

from __future__ import annotations

from typing import Any

from twin.errors import suggest
from twin.profiles.brisk import BRISK
from twin.profiles.flink import FLINK
from twin.profiles.storm import STORM

PROFILES = {profile.name: profile for profile in (STORM, FLINK, BRISK)}


def profile_by_name(value: Any) -> Any:
    """Replaces a profile's name by the profile; keeps anything else. Raises ValueError for an unknown name."""
    if not isinstance(value, str):
        return value
    if value not in PROFILES:
        raise ValueError(f"unknown engine profile {value!r}; {suggest(value, PROFILES)}")
    return PROFILES[value]
