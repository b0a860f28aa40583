"""Scenarios as variants of each other: the first is what the others are compared with."""

from __future__ import annotations

from collections.abc import Sequence

from scenarios.files import scenario_file
from scenarios.files.overrides import set_values
from scenarios.questions.single_run import key
from scenarios.questions.variants import Variant
from twin.errors import BadInput


def variants(names: Sequence[str], assignments: Sequence[str]) -> list[Variant]:
    """One a scenario, under its name on the command line; assignments hold for all.

    Raises BadInput as `as_variants`, or if one cannot be read.
    """
    return as_variants([Variant(name, set_values(scenario_file.load(name), assignments)) for name in names])


def as_variants(found: Sequence[Variant]) -> list[Variant]:
    """The same. Raises BadInput for fewer than two, or for two that are the same."""
    if len(found) < 2:
        named = f"one scenario, {found[0].label}," if found else "no scenario"
        raise BadInput(f"{named} and nothing to compare it with; name two or more")
    seen: dict[str, str] = {}
    for each in found:
        twin = seen.setdefault(key(each.scenario), each.label)
        if twin is not each.label or sum(other.label == each.label for other in found) > 1:
            raise BadInput(f"{each.label} is the same as {twin}; nothing to compare")
    return list(found)
