"""Variants of a scenario that are compared: the scenario as given, and all that a question makes of it.

Every option is a dimension: plans, policies, events and knobs. The variants are all their combinations. For plans,
policies and events the first choice is the scenario's own; a knob takes the values that are listed for it.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from optimizers.policies import POLICIES
from scenarios.files.overrides import parted
from scenarios.questions.alterations import described, with_events, with_plan_of
from scenarios.questions.knobs import REPLICAS, SUBTASKS, Knob, ReplicasKnob, knob
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
    if question.on and not any(isinstance(each[0].turn, ReplicasKnob) for each in dimensions):
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
    for name in policies:
        if name != NO_POLICY and name not in POLICIES:
            raise BadInput(f"--policy {name}: unknown policy; {suggest(name, [NO_POLICY, *POLICIES])}")
    listed = {"plan": question.plans, "policy": policies, EVENT: question.events}
    return [[VariantStep(kind, value, kind) for value in (GIVEN, *values)] for kind, values in listed.items() if values]


def _knob(given: Scenario, text: str, on: Sequence[str]) -> list[VariantStep]:
    path, listed = parted(text, "--vary", "PATH=V1,V2, such as run.horizon_s=60,120")
    turn = knob(path, "--vary", on if path.startswith((SUBTASKS, REPLICAS)) else ())
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
