"""Plans of other files, for the same query: a scenario file, as `twin optimize --out` writes, or a plan alone."""

from __future__ import annotations

from collections.abc import Mapping

from scenarios.files import registry
from scenarios.files.overrides import put
from scenarios.files.scenario_file import read_text
from scenarios.files.yaml_text import parse_text
from twin.errors import BadInput
from twin.scenario import Scenario

FLAG = "--plan"


def with_plan_of(scenario: Scenario, file: str) -> Scenario:
    """The scenario under the plan in `file`. Raises BadInput if there is none, or it is one of another query."""
    where = f"{FLAG} {file}"
    data = parse_text(read_text(registry.find(file)), file)
    plan = data.get("plan", data) if isinstance(data, Mapping) else None
    placement = plan.get("placement") if isinstance(plan, Mapping) else None
    if not isinstance(plan, Mapping) or not isinstance(placement, Mapping):
        raise BadInput(f"{where}: no plan in it; it must have 'placement', alone or under 'plan'")
    _check_operators(set(map(str, placement)), {each.name for each in scenario.query.operators}, where, scenario.name)
    return put(scenario, "plan", dict(plan), where)


def _check_operators(placed: set[str], known: set[str], where: str, name: str) -> None:
    strange, missing = sorted(placed - known), sorted(known - placed)
    if strange or missing:
        which = f"it places {strange[0]!r}, which" if strange else f"it places nothing for {missing[0]!r}, which"
        has = "has no such operator" if strange else "has"
        raise BadInput(f"{where}: a plan of another query: {which} {name} {has}; give a plan for {name}")
