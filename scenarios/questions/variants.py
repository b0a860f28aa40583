"""Variants of a scenario that are compared: the scenario as given, and all that a question makes of it.

Every option is a dimension: plans, policies, events and knobs. The variants are all their combinations. For plans,
policies and events the first choice is the scenario's own; a knob takes the values that are listed for it.
`--event "kind: slow-down, at_s: 60, host: edge-1, factor: 3"` · `--plan FILE`, which is a scenario file, as `twin
optimize --out` writes, or a plan alone.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from scenarios.files import registry
from scenarios.files.scenario_file import parted, read_text
from scenarios.files.yaml_text import parse_text
from scenarios.questions.kept import key
from scenarios.questions.knobs import OLDER, SUBTASKS, Knob, SubtasksKnob, knob, values
from twin.errors import BadInput, suggest
from twin.scenario import Scenario, put
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


GIVEN = "as given"
NO_POLICY = "none"
MOST = 1000
EVENT = "event"


@dataclass(frozen=True, slots=True)
class Variant:
    """Variant of a scenario. settings: changed values, by dimension. The scenario as given, with which the others are
    compared, has settings only if its own values are among those listed."""

    label: str
    scenario: Scenario
    settings: Mapping[str, Any] = field(default_factory=dict)


class VariantsQuestion(NamedTuple):
    """Texts of the options: knobs as PATH=VALUES, files of plans, names of policies, events in YAML. on: places that
    the subtasks of all knobs of subtasks take in turn."""

    vary: Sequence[str] = ()
    plans: Sequence[str] = ()
    policies: Sequence[str] = ()
    events: Sequence[str] = ()
    on: Sequence[str] = ()


class VariantStep(NamedTuple):
    """Choice of one value of a dimension."""

    dimension: str
    value: Any
    kind: str
    turn: Knob | None = None


def variants(given: Scenario, question: VariantsQuestion) -> list[Variant]:
    """Variants without repetitions: the scenario as given, then all that the question makes of it.

    Raises BadInput if there are none or too many, or if one is no valid scenario.
    """
    dimensions = [*_choices(question), *(_knob(given, text, question.on) for text in question.vary)]
    if question.on and not any(isinstance(each[0].turn, SubtasksKnob) for each in dimensions):
        raise BadInput(
            f"--on {','.join(question.on)}: places for subtasks; say how many: --vary '{SUBTASKS}OPERATOR=1..4'"
        )
    count = 1
    for dimension in dimensions:
        count *= len(dimension)
    if count > MOST:
        raise BadInput(f"the grid has {count:,} variants, more than {MOST:,}; vary less at once")
    by_key = {key(given): Variant(GIVEN, given)}
    for steps in itertools.product(*dimensions):
        scenario = given
        for step in steps:
            scenario = _taken(scenario, step)
        done = {step.dimension: step.value for step in steps if step.value != GIVEN}
        same = by_key.setdefault(key(scenario), Variant(label(done), scenario, done))
        if not same.settings:  # it is the scenario as given, whose values are among those listed
            by_key[key(scenario)] = replace(same, settings=done)
    if len(by_key) < 2:
        raise BadInput("nothing to compare; add --vary PATH=V1,V2, --plan FILE, --policy NAME or --event EVENT")
    return [*by_key.values()]


def as_variants(listed: Sequence[Variant]) -> list[Variant]:
    """Returns the variants. Raises BadInput if there are fewer than two, or if two are the same."""
    if len(listed) < 2:
        named = f"one scenario, {listed[0].label}," if listed else "no scenario"
        raise BadInput(f"{named} and nothing to compare it with; name two or more")
    seen: dict[str, str] = {}
    for variant in listed:
        twin = seen.setdefault(key(variant.scenario), variant.label)
        if twin is not variant.label or sum(other.label == variant.label for other in listed) > 1:
            raise BadInput(f"{variant.label} is the same as {twin}; nothing to compare")
    return list(listed)


def label(settings: Mapping[str, Any]) -> str:
    """Label of a variant: its changes in a few words."""
    return (
        ", ".join(described(value) if name == EVENT else _text(name, value) for name, value in settings.items())
        or GIVEN
    )


def short(name: str) -> str:
    """Short name of a path: its last two parts, which tell most; three if the first of them is a number."""
    parts = name.split(".")
    return ".".join(parts[-3 if parts[-2:-1] and parts[-2].isdigit() else -2 :])


def _choices(question: VariantsQuestion) -> list[list[VariantStep]]:
    """Dimensions of plans, policies and events, if any are given; the first choice of each is the scenario as given."""
    policies = [name.strip() for text in question.policies for name in text.split(",") if name.strip()]
    if policies:
        from optimizers.policies import POLICIES  # here, because other questions need no policies

        for name in policies:
            if name != NO_POLICY and name not in POLICIES:
                raise BadInput(f"--policy {name}: unknown policy; {suggest(name, [NO_POLICY, *POLICIES])}")
    listed = {"plan": question.plans, "policy": policies, EVENT: question.events}
    return [[VariantStep(kind, value, kind) for value in (GIVEN, *values)] for kind, values in listed.items() if values]


def _knob(given: Scenario, text: str, on: Sequence[str]) -> list[VariantStep]:
    path, listed = parted(text, "--vary", "PATH=V1,V2, such as run.horizon_s=60,120")
    turn = knob(path, "--vary", on if path.startswith((SUBTASKS, OLDER)) else ())
    turn.given(given)
    return [VariantStep(turn.name, value, "knob", turn) for value in values(listed, f"--vary {path}")]


def _taken(scenario: Scenario, step: VariantStep) -> Scenario:
    if step.turn is not None:
        return step.turn.turned(scenario, step.value)
    if step.value == GIVEN:
        return scenario
    if step.kind == "plan":
        return with_plan_of(scenario, step.value)
    if step.kind == EVENT:
        return with_events(scenario, step.value)
    return scenario.with_policy(None if step.value == NO_POLICY else step.value)


def _text(name: str, value: Any) -> str:
    plain = isinstance(value, int | float) and not isinstance(value, bool)
    return f"{short(name)} {f'{value:,}' if plain else value if isinstance(value, str) else json.dumps(value)}"
