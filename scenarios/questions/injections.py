"""Events that a question adds to a scenario: `--event "kind: slow-down, at_s: 60, host: edge-1, factor: 3"`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from scenarios.files.yaml_text import parse_text
from twin.errors import BadInput
from twin.scenario import Scenario
from twin.spec import parse

FLAG = "--event"


def with_events(scenario: Scenario, text: str) -> Scenario:
    """The scenario with one event more, or several ([{...}, {...}]). Raises BadInput if one is none or does not fit."""
    added = events(text)
    data = scenario.model_dump(mode="json")
    data["events"] = [*data["events"], *added]
    late = [each["at_s"] for each in added if isinstance(each.get("at_s"), int | float)]
    if late and max(late) >= scenario.run.horizon_s:
        raise BadInput(f"{FLAG}: at_s: {max(late):g} is at or after the end of the run, {scenario.run.horizon_s:g} s")
    return parse(Scenario, data, where=FLAG)


def events(text: str) -> list[Mapping[str, Any]]:
    """The mappings that the text holds; braces may be left out."""
    bare = text.strip()
    data = parse_text(bare if bare[:1] in ("{", "[") else f"{{{bare}}}", FLAG)
    found: list[Any] = data if isinstance(data, list) else [data]
    if not found or not all(isinstance(each, Mapping) and "kind" in each for each in found):
        raise BadInput(f'{FLAG} {text!r}: write an event such as "kind: slow-down, at_s: 60, host: HOST, factor: 3"')
    return found


def described(text: str) -> str:
    """In a few words, as in "slow-down of edge-1 at 60 s"."""
    return " and ".join(_words(each) for each in events(text))


def _words(event: Mapping[str, Any]) -> str:
    of = next((event[name] for name in ("operator", "host", "source", "link") if event.get(name)), None)
    who = " - ".join(map(str, of)) if isinstance(of, list) else of
    factor = f" x{event['factor']:g}" if isinstance(event.get("factor"), int | float) else ""
    return f"{event['kind']}{f' of {who}' if who else ''}{factor} at {event.get('at_s', '?')} s"
