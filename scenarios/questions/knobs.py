"""Knobs that can be varied in a scenario: a value at a path, an operator's replicas, the load of all sources, hosts.

A knob is a pure function from a scenario and a value to a scenario.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any, Protocol

from optimizers.requirements import at_rate
from optimizers.space import tied
from twin.cluster import Cluster
from twin.errors import BadInput, suggest
from twin.overrides import put, value_at
from twin.plan import dealt
from twin.scenario import Scenario
from twin.spec import parse

REPLICAS = "replicas of "
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
class ReplicasKnob:
    """Number of replicas of an operator. They are dealt in turn to the places that it has in the plan, or to `places`.

    Operators that must have as many, by forward streams or in a chain, get as many: dealt to `places` as well if they
    share its places, else to their own. The plan's owners of key groups are dropped, so that replicas own contiguous
    ranges, as in a plan without owners.
    """

    operator: str
    flag: str
    places: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """Name that users write."""
        return f"{REPLICAS}{self.operator}"

    def as_many(self, scenario: Scenario) -> tuple[str, ...]:
        """Other operators that must have as many replicas, by forward streams or in a chain. Raises BadInput if there
        is no such operator."""
        self.given(scenario)
        return tuple(name for name in self._alike(scenario) if name != self.operator)

    def given(self, scenario: Scenario) -> int:
        """Number of replicas in the plan. Raises BadInput if there is no such operator."""
        check_operator(self.operator, scenario, f"{self.flag} {self.name}")
        return scenario.plan.replicas(self.operator)

    def turned(self, scenario: Scenario, value: Any) -> Scenario:
        """Scenario with `value` replicas. Raises BadInput if there is no such operator, or it cannot have so many."""
        self.given(scenario)
        where = f"{self.flag} {self.name}"
        if not isinstance(value, int) or isinstance(value, bool) or value < 1:
            raise BadInput(f"{where}: {value!r} replicas; give whole numbers from 1")
        placement = scenario.plan.placement
        alike = self._alike(scenario)
        own = set(placement[self.operator])
        placed = {}
        for name in alike:
            there = set(placement[name]) == own  # so it is in a chain
            places = self.places if self.places and there else tuple(dict.fromkeys(placement[name]))
            placed[name] = dealt(places, value, where)
        groups = {name: owners for name, owners in scenario.plan.key_groups.items() if name not in alike}
        plan = {**scenario.plan.model_dump(), "placement": {**placement, **placed}, "key_groups": groups}
        return put(scenario, "plan", plan, f"{where}={value}")

    def _alike(self, scenario: Scenario) -> list[str]:
        operators = [operator.name for operator in scenario.query.topological]
        return next(names for group in tied(scenario) if self.operator in (names := [operators[o] for o in group]))


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
            raise BadInput(f"{self.flag} {self.name}: {value!r} is no factor; give a number above 0, such as 1.5")
        return at_rate(scenario, float(value))


@dataclass(frozen=True, slots=True)
class HostsKnob:
    """Number of hosts. Those with the most CPU stay (of equal ones the first); the usual optimizer plans for them."""

    flag: str
    name: str = HOSTS

    def given(self, scenario: Scenario) -> int:
        """Number of hosts of the cluster."""
        return len(scenario.cluster.hosts)

    def turned(self, scenario: Scenario, value: Any) -> Scenario:
        """Scenario on `value` hosts, with a plan. Raises BadInput if there are not so many, or no plan is valid."""
        if not 1 <= value <= self.given(scenario):
            raise BadInput(f"{self.flag} hosts: the cluster has {self.given(scenario)}; there are no {value}")
        from scenarios.planning.planner import optimize  # here, because other questions need no optimizers

        smaller = _on(scenario, strongest(scenario.cluster, int(value)), f"{self.flag} hosts={value}")
        return smaller.with_plan(optimize(smaller).plan)


def strongest(cluster: Cluster, count: int) -> list[str]:
    """Names of the `count` hosts with the most CPU, in the order of the file."""
    ranked = sorted(range(len(cluster.hosts)), key=lambda index: (-cluster.hosts[index].left_percent, index))
    return [cluster.hosts[index].name for index in sorted(ranked[:count])]


def _on(scenario: Scenario, kept: list[str], where: str) -> Scenario:
    """Scenario on these hosts only, with all operators on one of them, which is valid; pinned ones stay if they can."""
    hosts = [host.model_dump(mode="json") for host in scenario.cluster.hosts if host.name in kept]
    nodes = {*kept, *scenario.cluster.switches}
    links = [link.model_dump(mode="json") for link in scenario.cluster.links if set(link.between) <= nodes]
    data = scenario.cluster.model_dump(mode="json") | {"hosts": hosts, "links": links}
    together = {name: [kept[0]] * scenario.plan.replicas(name) for name in scenario.plan.placement}
    for operator in scenario.query.operators:
        if operator.pinned and {*scenario.plan.hosts(operator.name)} <= set(kept):
            together[operator.name] = list(scenario.plan.placement[operator.name])
    data_of_plan = {"placement": together, "key_groups": {}}
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
    if places and not name.startswith(REPLICAS):
        listed = ", ".join(places)
        raise BadInput(f"{flag} {name}: {listed} are places for replicas; naming them goes with '{REPLICAS}OPERATOR'")
    if name == LOAD:
        return LoadKnob(flag)
    if name == HOSTS:
        return HostsKnob(flag)
    if name.startswith(REPLICAS):
        return ReplicasKnob(name.removeprefix(REPLICAS).strip(), flag, tuple(places))
    if name.lower().startswith("replica"):
        raise BadInput(f"{flag} {name}: write '{REPLICAS}OPERATOR'")
    if get_close_matches(name.lower(), [LOAD], cutoff=0.8):
        raise BadInput(f"{flag} {name}: did you mean {LOAD!r}, a factor on the rates of all sources?")
    return PathKnob(name, flag)


def check_operator(name: str, scenario: Scenario, where: str) -> None:
    """Raises BadInput, beginning with `where`, if the scenario has no such operator."""
    known = [operator.name for operator in scenario.query.operators]
    if name not in known:
        raise BadInput(f"{where}: unknown operator {name!r}; {suggest(name, known)}")
