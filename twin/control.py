"""Interface of policies: statistics in, a reconfiguration out; and how scenarios name a policy."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pkgutil import resolve_name
from typing import Annotated, Any, Protocol

import numpy as np
from pydantic import BeforeValidator, Field, GetJsonSchemaHandler, SerializeAsAny

from twin.deployment import Deployment
from twin.errors import suggest
from twin.events import Combine, Move, Rescale, Split
from twin.spec import Spec, parse


@dataclass(frozen=True, slots=True)
class KeyGroupStatistics:
    """Statistics of one key group in a period. `subtask`: its owner, an index into the operator's placement.

    cpu_percent: share of the CPU of its owner's host that it took. The sum over all groups on a host, and its other
    subtasks, is the host's `cpuUtilisation`.
    """

    group: int
    subtask: int
    rate_per_s: float
    state_bytes: float
    cpu_percent: float = 0.0


@dataclass(frozen=True, slots=True)
class PeriodStatistics:
    """Statistics that a policy gets: measured rates and times of the period just ended, never the simulator's insides.

    operators, hosts: the rows of the trace (`twin.trace`), by name; a host appears once it carries an operator.
    subtasks: rows of the trace, by operator, of the subtasks that it had in the period, also of those that left.
    placement: present places of each operator's subtasks. key_groups: for operators that have them. traffic: by the
    ends of streams between such operators, [G, K] records a second from each key group of the producer to each of the
    consumer.
    """

    start_s: float
    end_s: float
    operators: Mapping[str, Mapping[str, Any]]
    hosts: Mapping[str, Mapping[str, Any]]
    placement: Mapping[str, tuple[str, ...]]
    key_groups: Mapping[str, tuple[KeyGroupStatistics, ...]] = field(default_factory=dict)
    traffic: Mapping[tuple[str, str], np.ndarray] = field(default_factory=dict, compare=False)
    subtasks: Mapping[str, Sequence[Mapping[str, Any]]] = field(default_factory=dict)

    @property
    def length_s(self) -> float:
        """Length of the period in seconds."""
        return self.end_s - self.start_s


@dataclass(frozen=True, slots=True)
class Reconfiguration:
    """Changes of a running job. Scalings come first, then operations on components over event time; subtask numbers of
    moves count as the policy saw them.

    reason: for people; alone, it says why nothing changes. figures: numbers on which the policy decided, for the
    record. retire: whether subtasks that these moves leave without key groups are removed, as those that moves have
    made always are. warnings: changes that the policy would make and cannot, and why; the run warns of each once.
    """

    moves: tuple[Move, ...] = ()
    rescales: tuple[Rescale, ...] = ()
    operations: tuple[Split | Combine, ...] = ()
    reason: str = ""
    figures: Mapping[str, float] = field(default_factory=dict)
    retire: bool = False
    warnings: tuple[str, ...] = ()


class Policy(Protocol):
    """Controller that decides at the end of each period. In the same history, the same statistics must give one
    decision."""

    @property
    def name(self) -> str:
        """Name that users write."""

    def decide(self, statistics: PeriodStatistics) -> Reconfiguration | None:
        """Returns the changes to make, or None. Not called while an earlier reconfiguration or an outage is under
        way."""


class PolicySpec(Spec):
    """Policy as a scenario names it: a member of this union has its own name as `name`, and options beside it.

    A policy may keep a history; the spec does not, and starts a fresh one for each run.
    """

    name: str

    @property
    def periods_before_acting(self) -> int:
        """Number of periods that the policy must have seen before it can change anything, at the end of the last."""
        return 1

    def start(self, deployment: Deployment) -> Policy:
        """Makes the policy of one run. Raises BadInput if the policy cannot control this job."""
        raise NotImplementedError


class Policies(Mapping[str, type[PolicySpec]]):
    """Policies by name, which scenarios may name from now on; each is imported when it is asked for.

    places: `module:class` by name. Raises KeyError for a name that is none of these.
    """

    def __init__(self, places: Mapping[str, str]) -> None:
        self._places = places
        _OFFERED.update(dict.fromkeys(places, self))

    def __getitem__(self, name: str) -> type[PolicySpec]:
        found: type[PolicySpec] = resolve_name(self._places[name])
        return found

    def __iter__(self) -> Iterator[str]:
        return iter(self._places)

    def __len__(self) -> int:
        return len(self._places)


_OFFERED: dict[str, Policies] = {}
"""Where each policy is found that scenarios may name, also if its module is not imported yet."""


def policy_specs() -> dict[str, type[PolicySpec]]:
    """All policies that are offered, or were imported so far, by name. It imports those that are offered."""
    offered = {name: policies[name] for name, policies in _OFFERED.items()}
    return offered | _imported()


def _imported() -> dict[str, type[PolicySpec]]:
    return {each.model_fields["name"].default: each for each in PolicySpec.__subclasses__()}


def policy_spec(value: object) -> PolicySpec:
    """Policy of a name, or of a mapping with `name` and options. Raises ValueError with a suggestion."""
    if isinstance(value, PolicySpec):
        return value
    data = {"name": value} if isinstance(value, str) else value
    if not isinstance(data, Mapping) or not isinstance(data.get("name"), str):
        raise ValueError("a policy is a name, or a mapping of 'name' and options")
    name = data["name"]
    spec = _imported().get(name) or (_OFFERED[name][name] if name in _OFFERED else None)
    if spec is None:
        raise ValueError(f"unknown policy {name!r}; {suggest(name, sorted({*_OFFERED, *_imported()}))}")
    return parse(spec, data)


class _Schema:
    """JSON Schema of a policy: any of the policies that are known when it is written."""

    def __get_pydantic_json_schema__(self, _schema: Any, _handler: GetJsonSchemaHandler) -> dict[str, Any]:
        known = policy_specs()
        return {"anyOf": [{"enum": sorted(known)}, *(known[name].model_json_schema() for name in sorted(known))]}


AnyPolicy = Annotated[
    SerializeAsAny[PolicySpec],
    BeforeValidator(policy_spec),
    _Schema(),
    Field(description="who reconfigures the running job: a policy's name, or its name and options"),
]
