"""Changes that a question makes to a scenario: more events, or a plan from another file for the same query.

`--event "kind: slow-down, at_s: 60, host: edge-1, factor: 3"` · `--plan FILE`, which is a scenario file, as `twin
optimize --out` writes, or a plan alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from scenarios.files import registry
from scenarios.files.scenario_file import read_text
from scenarios.files.yaml_text import parse_text
from twin.errors import BadInput
from twin.overrides import put
from twin.scenario import Scenario
from twin.spec import parse

FLAG = "--event"


def with_events(scenario: Scenario, text: str) -> Scenario:
    """Scenario with one more event, or several ([{...}, {...}]). Raises BadInput if one is invalid or does not fit."""
    added = events(text)
    data = scenario.model_dump(mode="json")
    data["events"] = [*data["events"], *added]
    late = [event["at_s"] for event in added if isinstance(event.get("at_s"), int | float)]
    if late and max(late) >= scenario.run.horizon_s:
        raise BadInput(f"{FLAG}: at_s: {max(late):g} is at or after the end of the run, {scenario.run.horizon_s:g} s")
    return parse(Scenario, data, where=FLAG)


def with_all_events(scenario: Scenario, texts: Iterable[str]) -> Scenario:
    """Scenario with the events of all texts. Raises BadInput as `with_events` does."""
    for text in texts:
        scenario = with_events(scenario, text)
    return scenario


def events(text: str) -> list[Mapping[str, Any]]:
    """Events in a text, as mappings; the braces around a single event may be left out."""
    bare = text.strip()
    data = parse_text(bare if bare[:1] in ("{", "[") else f"{{{bare}}}", FLAG)
    listed: list[Any] = data if isinstance(data, list) else [data]
    if not listed or not all(isinstance(event, Mapping) and "kind" in event for event in listed):
        raise BadInput(f'{FLAG} {text!r}: write an event such as "kind: slow-down, at_s: 60, host: HOST, factor: 3"')
    return listed


def described(text: str) -> str:
    """Events of a text in a few words, such as "slow-down of edge-1 at 60 s"."""
    return " and ".join(_words(event) for event in events(text))


def _words(event: Mapping[str, Any]) -> str:
    of = next((event[name] for name in ("operator", "host", "source", "link") if event.get(name)), None)
    who = " - ".join(map(str, of)) if isinstance(of, list) else of
    factor = f" x{event['factor']:g}" if isinstance(event.get("factor"), int | float) else ""
    return f"{event['kind']}{f' of {who}' if who else ''}{factor} at {event.get('at_s', '?')} s"


def with_plan_of(scenario: Scenario, file: str) -> Scenario:
    """Scenario with the plan in `file`. Raises BadInput if it holds no plan, or the plan of another query."""
    where = f"--plan {file}"
    data = parse_text(read_text(registry.find(file)), file)
    plan = data.get("plan", data) if isinstance(data, Mapping) else None
    placement = plan.get("placement") if isinstance(plan, Mapping) else None
    if not isinstance(plan, Mapping) or not isinstance(placement, Mapping):
        raise BadInput(f"{where}: no plan in it; it must have 'placement', alone or under 'plan'")
    known = {operator.name for operator in scenario.query.operators}
    _check_placed(set(map(str, placement)), known, where, scenario.name)
    return put(scenario, "plan", dict(plan), where)


def _check_placed(placed: set[str], known: set[str], where: str, name: str) -> None:
    strange, missing = sorted(placed - known), sorted(known - placed)
    if strange or missing:
        places = f"{strange[0]!r}, which is no operator of {name}" if strange else f"nothing for {missing[0]!r}"
        raise BadInput(f"{where}: a plan of another query: it places {places}; give a plan for {name}")
