"""Engine profiles by name. A new one is a file beside this one and a line here."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from twin.errors import suggest
from twin.profiles.brisk import BRISK
from twin.profiles.flink import FLINK
from twin.profiles.profile import EngineProfile
from twin.profiles.storm import STORM
from twin.spec import Spec
from twin.words import with_todays_keys

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
