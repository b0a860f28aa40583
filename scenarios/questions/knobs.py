"""Knobs that can be varied in a scenario, and the lists and ranges of values that people write for them.

A knob is a pure function from a scenario and a value to a scenario: a value at a path, an operator's subtasks, the load
of all sources, hosts. Values are written as
`500,1k,2k` · `5ms,1s` · `1k..50k:10` ten values, evenly spaced · `1k..50k:10:log` evenly spaced in their logarithm ·
`1..8` whole numbers · anything else is YAML: `poisson,constant` · `{law: poisson, rate_per_s: 9},{law: steps, ...}`.
"""

from __future__ import annotations

import math
import re
from collections.abc import Container, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any, Protocol

import numpy as np

from scenarios.files.yaml_text import parse_text
from twin.cluster import Cluster
from twin.errors import BadInput, suggest
from twin.quantities import NUMBER, UNIT, number
from twin.scenario import Scenario, put, value_at
from twin.scheduling import as_many, resized
from twin.spec import parse

SUBTASKS, OLDER = "subtasks of ", "replicas of "
"""Flink's word, and the twin's older one, for the knob of an operator's subtasks."""
SEED = "run.seed"
LOAD = "load"
HOSTS = "hosts"


class Knob(Protocol):
    """Part of a scenario that can be varied. Those here have `flag`: the option that it came from, for errors."""

    @property
    def name(self) -> str:
        """Name that users write."""

    def given(self, scenario: Scenario) -> Any:
        """Value of the knob in the scenario."""

    def turned(self, scenario: Scenario, value: Any) -> Scenario:
        """Scenario with the knob at `value`. Raises BadInput if that is no valid scenario."""


@dataclass(frozen=True, slots=True)
class PathKnob:
    """Knob of one value of the scenario, with the path of `--set` as its name."""

    name: str
    flag: str

    def given(self, scenario: Scenario) -> Any:
        """Value at the path. Raises BadInput if the path does not exist."""
        return value_at(scenario, self.name, self.flag)

    def turned(self, scenario: Scenario, value: Any) -> Scenario:
        """Scenario with `value` at the path. Raises BadInput if the path does not exist or cannot hold the value."""
        return put(scenario, self.name, value, self.flag)


@dataclass(frozen=True, slots=True)
class SubtasksKnob:
    """Number of subtasks of an operator. Those that the plan has stay; further ones go where the engine would put them
    (`twin.scheduling`). With `places`, all take these in turn instead.

    Operators that must have as many, by forward streams or in a chain, get as many. Owners of key groups are dropped
    where the number changes, so that subtasks own contiguous ranges, as in a plan without owners.
    """

    operator: str
    flag: str
    places: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """Name that users write."""
        return f"{SUBTASKS}{self.operator}"

    def as_many(self, scenario: Scenario) -> tuple[str, ...]:
        """Other operators that must have as many subtasks, by forward streams or in a chain. Raises BadInput if there
        is no such operator."""
        self.given(scenario)
        return tuple(name for name in as_many(scenario, self.operator) if name != self.operator)

    def given(self, scenario: Scenario) -> int:
        """Number of subtasks in the plan. Raises BadInput if there is no such operator."""
        check_operator(self.operator, scenario, f"{self.flag} {self.name}")
        return scenario.plan.parallelism(self.operator)

    def turned(self, scenario: Scenario, value: Any) -> Scenario:
        """Scenario with `value` subtasks. Raises BadInput if there is no such operator, or it cannot have so many."""
        self.given(scenario)
        where = f"{self.flag} {self.name}"
        if not isinstance(value, int) or isinstance(value, bool) or value < 1:
            raise BadInput(f"{where}: {value!r} subtasks; give whole numbers from 1")
        placed = resized(scenario, self.operator, value, where, on=self.places)
        plan = scenario.plan.with_placement(scenario.plan.placement | placed)
        return put(scenario, "plan", plan.model_dump(), f"{where}={value}")


@dataclass(frozen=True, slots=True)
class LoadKnob:
    """Factor on the rates of all sources; 1 gives the rates of the scenario."""

    flag: str
    name: str = LOAD

    def given(self, scenario: Scenario) -> float:
        """Factor of the scenario as it is: 1."""
        return 1.0

    def turned(self, scenario: Scenario, value: Any) -> Scenario:
        """Scenario with all rates times `value`. Raises BadInput unless this is a number above 0."""
        if not isinstance(value, int | float) or isinstance(value, bool) or not 0.0 < value < math.inf:
            raise BadInput(
                f"{self.flag} {self.name}: {value!r} is no factor; give a number above 0, or several: 1,1.5 or 1..3:5"
            )
        from optimizers.objectives import at_rate  # here, because other knobs need no rates

        return at_rate(scenario, float(value))


@dataclass(frozen=True, slots=True)
class HostsKnob:
    """Number of hosts. Those of pinned operators and the storage of checkpoints stay, then those with the most CPU (of
    equal ones the first); the usual optimizer plans for them."""

    flag: str
    name: str = HOSTS

    def given(self, scenario: Scenario) -> int:
        """Number of hosts of the cluster."""
        return len(scenario.cluster.hosts)

    def turned(self, scenario: Scenario, value: Any) -> Scenario:
        """Scenario on `value` hosts, with a plan. Raises BadInput if there are not so many, more are needed, or no plan
        is valid."""
        if not 1 <= value <= self.given(scenario):
            raise BadInput(f"{self.flag} hosts: the cluster has {self.given(scenario)}; there are no {value}")
        from scenarios.planning.planner import optimize  # here, because other questions need no optimizers

        needed = _needed(scenario)
        if value < len(needed):
            why = "; ".join(f"{name} {reason}" for name, reason in needed.items())
            raise BadInput(f"{self.flag} hosts={value}: {len(needed)} have to stay ({why})")
        smaller = _on(scenario, strongest(scenario.cluster, int(value), needed), f"{self.flag} hosts={value}")
        return smaller.with_plan(optimize(smaller).plan)


def strongest(cluster: Cluster, count: int, needed: Container[str] = ()) -> list[str]:
    """Names of `count` hosts, in the order of the file: those that are needed, then those with the most CPU."""
    hosts = cluster.hosts
    ranked = sorted(range(len(hosts)), key=lambda i: (hosts[i].name not in needed, -hosts[i].left_percent, i))
    return [hosts[index].name for index in sorted(ranked[:count])]


def _needed(scenario: Scenario) -> dict[str, str]:
    """Hosts without which the job is another one, and why."""
    found = {}
    if scenario.checkpoints is not None and scenario.checkpoints.storage is not None:
        found[scenario.checkpoints.storage] = "stores checkpoints"
    for operator in scenario.query.operators:
        if operator.pinned:
            found |= dict.fromkeys(scenario.plan.hosts(operator.name), f"runs {operator.name}, which is pinned")
    return found


def _on(scenario: Scenario, kept: list[str], where: str) -> Scenario:
    """Scenario on these hosts only, with all operators on one of them but those that are pinned, and their chains."""
    hosts = [host.model_dump(mode="json") for host in scenario.cluster.hosts if host.name in kept]
    nodes = {*kept, *scenario.cluster.switches}
    links = [link.model_dump(mode="json") for link in scenario.cluster.links if set(link.between) <= nodes]
    data = scenario.cluster.model_dump(mode="json") | {"hosts": hosts, "links": links}
    together = {name: [kept[0]] * scenario.plan.parallelism(name) for name in scenario.plan.placement}
    for operator in scenario.query.operators:
        if operator.pinned:
            chain = next((each for each in scenario.plan.fused if operator.name in each), (operator.name,))
            together |= {name: [*scenario.plan.placement[operator.name]] for name in chain}
    data_of_plan = {"placement": together, "key_groups": {}, "fused": scenario.plan.fused}
    whole = scenario.model_dump(mode="json") | {"cluster": data, "plan": data_of_plan}
    return parse(Scenario, whole, where=where)


def whole(turn: Knob, scenario: Scenario) -> bool:
    """Whether a knob takes whole numbers only: its value in the scenario is an integer, such as 4, and no float."""
    given = turn.given(scenario)
    return isinstance(given, int) and not isinstance(given, bool)


def knob(name: str, flag: str, places: Sequence[str] = ()) -> Knob:
    """Knob that users call `name`; only its use shows whether it exists. Raises BadInput for the seed."""
    if name == SEED:
        raise BadInput(f"{flag} {name}: replications have seeds of their own; use --seed and --replications")
    operator = next((name.removeprefix(words).strip() for words in (SUBTASKS, OLDER) if name.startswith(words)), None)
    if operator is not None:
        return SubtasksKnob(operator, flag, tuple(places))
    if places:
        listed = ", ".join(places)
        raise BadInput(f"{flag} {name}: {listed} are places for subtasks; naming them goes with '{SUBTASKS}OPERATOR'")
    if name == LOAD:
        return LoadKnob(flag)
    if name == HOSTS:
        return HostsKnob(flag)
    if name.lower().startswith(("subtask", "subtask", "parallelism")):
        raise BadInput(f"{flag} {name}: write '{SUBTASKS}OPERATOR'")
    if get_close_matches(name.lower(), [LOAD], cutoff=0.8):
        raise BadInput(f"{flag} {name}: did you mean {LOAD!r}, a factor on the rates of all sources?")
    return PathKnob(name, flag)


def check_operator(name: str, scenario: Scenario, where: str) -> None:
    """Raises BadInput, beginning with `where`, if the scenario has no such operator."""
    known = [operator.name for operator in scenario.query.operators]
    if name not in known:
        raise BadInput(f"{where}: unknown operator {name!r}; {suggest(name, known)}")


MOST = 1000
"""Most values of a range."""
FINEST, COARSEST = 1e-4, 0.5
"""Least and largest precision that may be asked for, as shares."""
DIGITS = 4
"""Number of significant digits of values between the ends of a range."""

_NUMBER = rf"[-+]?{NUMBER}{UNIT}?"
_RANGE = re.compile(rf"^({_NUMBER})\.\.({_NUMBER})(?::(\d+))?(?::(log|linear))?$")
_SHORT = re.compile(rf"^{_NUMBER}$")


def values(text: str, where: str) -> list[Any]:
    """Values that a text lists, in order; a value that is given twice counts once.

    Raises BadInput, beginning with `where`, if it lists nothing or a range makes no sense.
    """
    listed = parse_text(f"[{text}]", where)
    values_listed = [value for item in listed for value in _item(item, where)] if isinstance(listed, list) else []
    if not values_listed:
        raise BadInput(f"{where}: no values; write {where.split()[-1]}=V1,V2 or a range such as 1k..50k:10")
    return [value for index, value in enumerate(values_listed) if value not in values_listed[:index]]


def bounds(text: str, where: str) -> tuple[float, float]:
    """Ends of `LOW..HIGH`. Raises BadInput if `text` is no such range, or has no width, or the higher one is first."""
    match = _RANGE.match(text.strip())
    if match is None or match[3] or match[4]:
        raise BadInput(f"{where}: {text!r} is no range; write LOW..HIGH, such as 100..5k")
    low, high = _number(match[1], where), _number(match[2], where)
    if low == high:
        raise BadInput(f"{where}: {text} is a single value; give two different ends")
    if low > high:
        raise BadInput(f"{where}: {text} begins with the higher end; write {match[2]}..{match[1]}")
    return low, high


def as_whole(value: float) -> float | int:
    """Whole numbers as int, as some keys of a scenario take nothing else; other numbers unchanged."""
    return int(value) if float(value).is_integer() and abs(value) < 2**53 else value


def _item(item: Any, where: str) -> list[Any]:
    if not isinstance(item, str):
        return [as_whole(item) if isinstance(item, float) else item]
    match = _RANGE.match(item)
    if match is None:
        return [as_whole(_number(item, where))] if _SHORT.match(item) else [item]
    low, high = _number(match[1], where), _number(match[2], where)
    return _range(item, low, high, match[3], match[4] == "log", where)


def _number(text: str, where: str) -> float:
    """Number in the unit of the last name in `where`, such as `--vary cluster.hosts.edge-1.latency_ms`."""
    try:
        return number(text, where.split()[-1])
    except ValueError as error:
        raise BadInput(f"{where}: {error}") from None


def _range(item: str, low: float, high: float, count: str | None, log: bool, where: str) -> list[float | int]:
    whole = low.is_integer() and high.is_integer()
    if count is None and not whole:
        raise BadInput(f"{where}: {item} does not say how many values; write {item}:10")
    many = int(count) if count else int(abs(high - low)) + 1
    if low == high or not 2 <= many <= MOST:
        raise BadInput(f"{where}: {item} is {many if low != high else 1} values; a range has 2 to {MOST}")
    if log and not (low > 0.0 and high > 0.0):
        raise BadInput(f"{where}: {item} reaches 0, which has no logarithm; begin above it, or leave :log out")
    spread = np.geomspace(low, high, many) if log else np.linspace(low, high, many)
    whole = whole and abs(high - low) >= many - 1
    inner = [float(round(value) if whole else significant(value, DIGITS)) for value in spread[1:-1]]
    return [as_whole(value) for value in dict.fromkeys((low, *inner, high))]


def significant(value: float, digits: int) -> float:
    """Value rounded to a number of significant digits."""
    return float(round(value, digits - 1 - math.floor(math.log10(abs(value))))) if value else 0.0


def share(text: str) -> float:
    """Precision as a share, from `2%` or `0.02`. Raises BadInput for anything else, and outside 0.01 % to 50 %."""
    try:
        value = number(text)
    except ValueError:
        value = math.nan
    if not FINEST <= value <= COARSEST:
        raise BadInput(f"--precision {text}: give an error from 0.01% to 50%, such as 2% or 0.02")
    return value
