"""What is compared: the scenario as it is given, and what a question makes of it.

Every option is a dimension: plans, policies, events and knobs. The variants are all their combinations; the first of a
plan, a policy or events is what the scenario says, and a knob takes the values that are listed for it.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from optimizers.policies import POLICIES
from scenarios.files import scenario_file
from scenarios.files.overrides import set_values
from scenarios.questions.alterations import described, with_events, with_plan_of
from scenarios.questions.knobs import Knob, knob
from scenarios.questions.ranges import values
from scenarios.questions.single_run import key
from twin.errors import BadInput, suggest
from twin.scenario import Scenario

GIVEN = "as given"
NO_POLICY = "none"
MOST = 1000
EVENT = "event"


@dataclass(frozen=True, slots=True)
class Variant:
    """settings: what was done to the scenario, by dimension; of the one that all others are compared with, the values
    that it has already, if they were asked for."""

    label: str
    scenario: Scenario
    settings: Mapping[str, Any] = field(default_factory=dict)


class VariantsQuestion(NamedTuple):
    """As the options say it: knobs as PATH=VALUES, files of plans, names of policies, events in YAML."""

    vary: Sequence[str] = ()
    plans: Sequence[str] = ()
    policies: Sequence[str] = ()
    events: Sequence[str] = ()


class VariantStep(NamedTuple):
    """One value of a dimension."""

    dimension: str
    value: Any
    kind: str
    turn: Knob | None = None


def variants(given: Scenario, question: VariantsQuestion) -> list[Variant]:
    """The scenario as given, then all that the question makes of it, each once.

    Raises BadInput if it makes nothing of it, or too much, or something that is no valid scenario.
    """
    dimensions = [*_choices(question), *(_knob(given, text) for text in question.vary)]
    count = 1
    for dimension in dimensions:
        count *= len(dimension)
    if count > MOST:
        raise BadInput(f"the grid has {count:,} variants, more than {MOST:,}; vary less at once")
    found = {key(given): Variant(GIVEN, given)}
    for steps in itertools.product(*dimensions):
        scenario = given
        for step in steps:
            scenario = _taken(scenario, step)
        done = {step.dimension: step.value for step in steps if step.value != GIVEN}
        same = found.setdefault(key(scenario), Variant(label(done), scenario, done))
        if not same.settings:  # what is given, which has its place among the values
            found[key(scenario)] = replace(same, settings=done)
    if len(found) < 2:
        raise BadInput("nothing to compare; add --vary PATH=V1,V2, --plan FILE, --policy NAME or --event EVENT")
    return [*found.values()]


def scenarios_compared(names: Sequence[str], assignments: Sequence[str]) -> list[Variant]:
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


def label(settings: Mapping[str, Any]) -> str:
    """Short words for what was done."""
    return (
        ", ".join(described(value) if name == EVENT else _text(name, value) for name, value in settings.items())
        or GIVEN
    )


def short(name: str) -> str:
    """The last two parts of a path, which say what it is."""
    return ".".join(name.split(".")[-2:])


def _choices(question: VariantsQuestion) -> list[list[VariantStep]]:
    """Plans, policies and events, if there are any, after what is given."""
    policies = [each.strip() for text in question.policies for each in text.split(",") if each.strip()]
    for name in policies:
        if name != NO_POLICY and name not in POLICIES:
            raise BadInput(f"--policy {name}: unknown policy; {suggest(name, [NO_POLICY, *POLICIES])}")
    listed = {"plan": question.plans, "policy": policies, EVENT: question.events}
    return [[VariantStep(kind, each, kind) for each in (GIVEN, *found)] for kind, found in listed.items() if found]


def _knob(given: Scenario, text: str) -> list[VariantStep]:
    path, equals, listed = text.partition("=")
    path = path.strip()
    if not equals or not path:
        raise BadInput(f"--vary {text}: write PATH=V1,V2, such as run.horizon_s=60,120")
    turn = knob(path, "--vary")
    turn.given(given)
    return [VariantStep(path, value, "knob", turn) for value in values(listed, f"--vary {path}")]


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
