"""Scenarios as variants of each other: the first is what the others are compared with."""

from __future__ import annotations

from collections.abc import Sequence

from scenarios.asking.single_run import alike, key
from scenarios.asking.variants import Variant, with_scenarios
from scenarios.files import scenario_file
from scenarios.files.overrides import set_values
from twin.errors import BadInput


def variants(names: Sequence[str], assignments: Sequence[str]) -> list[Variant]:
    """One a scenario, under its name on the command line; assignments hold for all.

    Raises BadInput for fewer than two, for two that are the same, or for one that cannot be read.
    """
    if len(names) < 2:
        raise BadInput(f"one scenario, {names[0]}, and nothing to compare it with; name two or more")
    found = [Variant(name, set_values(scenario_file.load(name), assignments)) for name in names]
    seen: dict[str, str] = {}
    for each in found:
        twin = seen.setdefault(key(each.scenario), each.label)
        if twin is not each.label or sum(other.label == each.label for other in found) > 1:
            raise BadInput(f"{each.label} is the same as {twin}; nothing to compare")
    return with_scenarios(found, alike([each.scenario for each in found]))
