"""Unit costs: the constants of a profile, or of single operators, in which CPU time is linear."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from twin.kinds.async_io import Calling
from twin.profiles import EngineProfile
from twin.query import AnyOperator, Query, Windowed
from twin.scenario import Scenario

SCALARS = ("result_us", "scan_us", "serialise_ns_per_byte", "deserialise_ns_per_byte")
TYPES = ("ints", "strings", "doubles")
OWN = "operator "
FUNCTION = "tuple_us."
US = 1e-6
CALL = "call_s."
"""Prefix of the time of an operator's calls to systems outside, which CPU time does not show. It shows in latencies of
results, and in delivered rates where the calls of all replicas together are too few."""
TIED = (
    ("value_us.ints", "value_us.strings", "value_us.doubles"),
    ("serialise_ns_per_byte", "deserialise_ns_per_byte"),
    ("result_us", "scan_us"),
    ("tuple_us.filter", "tuple_us.sink"),
)
"""Costs that delivered rates cannot tell apart: where no CPU time was measured, each tie keeps the profile's ratios.
Values, bytes, evaluated windows, and operators that just pass tuples on."""


@dataclass(frozen=True, slots=True)
class UnitCost:
    """One constant to be fitted. prior: its value in the profile, in the same unit; 0 if the profile has none."""

    name: str
    unit: str
    prior: float


def of_kinds(engine: EngineProfile) -> list[UnitCost]:
    """Unit costs of a profile, by kind of operator and type of value."""
    kinds = {name: micros for name, micros in engine.tuple_us if micros is not None}
    found = [UnitCost(f"tuple_us.{name}", "us", float(micros)) for name, micros in kinds.items()]
    found += [UnitCost(f"value_us.{name}", "us", float(getattr(engine.value_us, name))) for name in TYPES]
    units = {"us": "us", "byte": "ns/byte"}
    return found + [UnitCost(name, units[name.rpartition("_")[2]], getattr(engine, name)) for name in SCALARS]


def of_functions(engine: EngineProfile, queries: Iterable[Query]) -> list[UnitCost]:
    """Unit costs of a profile, where kinds whose operators have functions get a cost for each function instead."""
    operators = [operator for query in queries for operator in query.operators]
    words = sorted({word for word in map(function_of, operators) if word})
    by_kind = {word: getattr(engine.tuple_us, word.partition(":")[0]) for word in words}
    costs = [
        each
        for each in of_kinds(engine)
        if each.name.removeprefix(FUNCTION) not in {w.partition(":")[0] for w in words}
    ]
    return [*costs, *(UnitCost(f"{FUNCTION}{word}", "us", float(by_kind[word])) for word in words)]


def of_operators(engine: EngineProfile, query: Query) -> list[UnitCost]:
    """Unit costs of a job, one for each operator: all of its work for a tuple, windows included."""
    return [UnitCost(f"{OWN}{each.name}", "us", engine.service_s(query, each) / US) for each in query.operators]


def function_of(operator: AnyOperator) -> str:
    """`kind:function` of an operator whose cost may depend on it; empty for windows, whose costs are not one number."""
    function = getattr(operator, "function", None)
    if function is None or isinstance(operator, Windowed) or operator.service_time_s is not None:
        return ""
    return f"{operator.kind}:{function}"


def occurs(scenario: Scenario, name: str) -> bool:
    """Whether a cost of that name can occur in a scenario."""
    query, group = scenario.query, name.partition(".")[0]
    if group == "tuple_us":
        like = [each.costs_like for each in query.operators]
        words = {*(each.kind for each in query.operators), *like, *map(function_of, query.operators)}
        return name.removeprefix(FUNCTION) in words
    if group in ("result_us", "scan_us"):
        return any(isinstance(each, Windowed) for each in query.operators)
    if group.endswith("_per_byte"):
        return len(scenario.plan.hosts(*scenario.plan.placement)) > 1
    return True


def charged(scenario: Scenario, costs: Mapping[str, float]) -> Scenario:
    """Scenario with these costs in place of its own; costs that are not named stay."""
    engine = scenario.engine
    for group in ("tuple_us", "value_us"):
        named = {name.partition(".")[2]: value for name, value in costs.items() if name.startswith(f"{group}.")}
        plain = {name: value for name, value in named.items() if ":" not in name}
        engine = engine.model_copy(update={group: getattr(engine, group).model_copy(update=plain)})
    engine = engine.model_copy(update={name: costs[name] for name in SCALARS if name in costs})
    operators = [_charged(each, scenario.query, engine, costs) for each in scenario.query.operators]
    query = Query(operators=tuple(operators), streams=scenario.query.streams)
    return scenario.model_copy(update={"engine": engine, "query": query})


def _charged(operator: AnyOperator, query: Query, engine: EngineProfile, costs: Mapping[str, float]) -> AnyOperator:
    own, word = costs.get(f"{OWN}{operator.name}"), function_of(operator)
    if own is not None:
        return _with(operator, service_time_s=own * US)
    by_function = costs.get(f"{FUNCTION}{word}") if word else None
    if by_function is None:
        return operator
    feeds = query.feeds(operator.name)
    values = sum(engine.value_us.total(query.columns_out[each]) for each in feeds) / len(feeds)
    return _with(operator, service_time_s=(by_function + values) * US)


def _with(operator: AnyOperator, **values: Any) -> AnyOperator:
    return operator.model_copy(update=values)


def alone(scenario: Scenario, costs: Sequence[UnitCost], name: str, value: float) -> Scenario:
    """Scenario in which all of these costs are 0 but the named one; all are 0 if none has that name."""
    return charged(scenario, {each.name: value if each.name == name else 0.0 for each in costs})


def of_calls(scenarios: Iterable[Scenario]) -> list[UnitCost]:
    """Costs of calls, one for each operator whose calls take time; its prior is from the first job that has it."""
    prior_s: dict[str, float] = {}
    for scenario in scenarios:
        for operator in scenario.query.operators:
            if isinstance(operator, Calling) and operator.calls.latency_s > 0.0:
                prior_s.setdefault(operator.name, operator.calls.latency_s)
    return [UnitCost(f"{CALL}{name}", "s", each_s) for name, each_s in prior_s.items()]


def with_calls(scenario: Scenario, hidden: Mapping[str, float]) -> Scenario:
    """Scenario whose operators' calls take the times in `hidden` (s); calls that are not named stay."""
    named = {name.removeprefix(CALL): value for name, value in hidden.items() if name.startswith(CALL)}
    if not named:
        return scenario
    operators = tuple(
        _with(each, latency_s=named[each.name]) if each.name in named else each for each in scenario.query.operators
    )
    return scenario.model_copy(update={"query": Query(operators=operators, streams=scenario.query.streams)})


def ties(costs: Sequence[UnitCost]) -> np.ndarray:
    """[costs, factors] matrix with 1 where a cost follows a factor: one for each tie, and for each other cost."""
    heads = [next((tie for tie in TIED if cost.name in tie), (cost.name,)) for cost in costs]
    order = list(dict.fromkeys(heads))
    return np.array([[float(head == each) for each in order] for head in heads]).reshape(len(costs), len(order))
