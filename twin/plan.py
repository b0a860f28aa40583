"""Plans: the place of each subtask of each operator, and the chained operators."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Annotated, Any, NamedTuple

from pydantic import BeforeValidator, Field, PlainSerializer, field_validator

from twin.errors import BadInput
from twin.spec import Spec

MOST_SUBTASKS = 400_000
"""Most subtasks of all operators together: more would not fit into the memory that a run may take."""


class Location(NamedTuple):
    """Socket of a host; written `host` or `host/socket`."""

    host: str
    socket: int = 0

    @classmethod
    def parse(cls, text: str) -> Location:
        """Reads a location. Raises ValueError if what follows the slash is not a socket number."""
        host, slash, socket = text.partition("/")
        if slash and not (socket.isascii() and socket.isdigit()):
            raise ValueError(f"location {text!r}: write 'host' or 'host/socket' with a socket number from 0")
        return cls(host, int(socket) if slash else 0)

    def __str__(self) -> str:
        return f"{self.host}/{self.socket}" if self.socket else self.host


def check_count(count: int, where: str) -> None:
    """Raises BadInput, beginning with `where`, if no plan can have so many subtasks."""
    if count > MOST_SUBTASKS:
        raise BadInput(f"{where}: {_too_many(count)}")


def _too_many(count: int) -> str:
    return f"{count:,} subtasks, of {MOST_SUBTASKS:,} at most in a plan; use fewer"


def _subtasks(value: Any) -> Any:
    """Reads one location, a list of them (one a subtask), or counts by location, as a record of locations."""
    if isinstance(value, str):
        return (value,)
    if isinstance(value, Mapping):
        return tuple(location for location, count in value.items() for _ in range(_count(location, count)))
    return value


def _counted(value: Any) -> int:
    if isinstance(value, Mapping):
        return sum(count for count in value.values() if isinstance(count, int))
    return len(value) if isinstance(value, list | tuple) else 1


def _count(location: Any, count: Any) -> int:
    if not isinstance(count, int) or isinstance(count, bool) or not 1 <= count <= 100_000:
        raise ValueError(f"subtasks at {location!r} must be a whole number from 1 to 100000, got {count!r}")
    return count


def _compact(locations: tuple[str, ...]) -> str | list[str] | dict[str, int]:
    if len(locations) == 1:
        return locations[0]
    counts = Counter(locations)
    in_order = tuple(location for location, count in counts.items() for _ in range(count)) == locations
    return dict(counts) if in_order else list(locations)


Group = Annotated[tuple[str, ...], Field(min_length=2)]

Subtasks = Annotated[
    tuple[str, ...],
    BeforeValidator(
        _subtasks,
        json_schema_input_type=str | list[str] | dict[str, int],
    ),
    PlainSerializer(_compact),
    Field(min_length=1, description="'host', 'host/socket', a list of these (one a subtask), or {location: number}"),
]


class ExecutionPlan(Spec):
    """Plan: for each operator, the locations of its subtasks, and the subtask that owns each of its key groups."""

    placement: dict[str, Subtasks]
    key_groups: dict[str, tuple[int, ...]] = Field(
        default_factory=dict,
        description="by operator, the subtask (from 0) of each key group; absent: contiguous ranges",
    )
    fused: Annotated[
        tuple[Group, ...],
        Field(
            exclude_if=lambda fused: not fused,
            description="lists of operators that run as one task, in data-flow order, without channels in between; "
            "each but the first has its one input within its list",
        ),
    ] = ()

    @field_validator("placement", mode="before")
    @classmethod
    def _few_enough(cls, placement: Any) -> Any:
        """Counts subtasks before a list of them is made. Raises ValueError if there are too many."""
        total = sum(map(_counted, placement.values())) if isinstance(placement, Mapping) else 0
        if total > MOST_SUBTASKS:
            raise ValueError(_too_many(total))
        return placement

    def locations(self, operator: str) -> tuple[Location, ...]:
        """Location of each subtask. Raises KeyError if the operator is not placed."""
        return tuple(Location.parse(text) for text in self.placement[operator])

    def hosts(self, *operators: str) -> tuple[str, ...]:
        """Hosts on which subtasks of these operators run, each once. Raises KeyError for an unknown operator."""
        return tuple(dict.fromkeys(place.host for name in operators for place in self.locations(name)))

    def parallelism(self, operator: str) -> int:
        """Number of subtasks of an operator. Raises KeyError if it is not placed."""
        return len(self.placement[operator])

    def with_placement(self, placement: Mapping[str, Subtasks]) -> ExecutionPlan:
        """Plan with other places for its subtasks.

        An operator that keeps its number of subtasks keeps the assignment of its key groups, by the subtasks' numbers;
        others get contiguous ranges. Operators that no longer sit at the same places are no longer chained (`lost_by`,
        `parted_by`).
        """
        kept = {
            name: owners
            for name, owners in self.key_groups.items()
            if name in placement and len(placement[name]) == self.parallelism(name)
        }
        together = tuple(group for group in self.fused if len({placement.get(name) for name in group}) == 1)
        return ExecutionPlan(placement=dict(placement), key_groups=kept, fused=together)

    def lost_by(self, other: ExecutionPlan) -> tuple[str, ...]:
        """Operators whose assignment of key groups is in this plan but not in another one, made of it."""
        return tuple(name for name, owners in self.key_groups.items() if other.key_groups.get(name) != owners)

    def parted_by(self, other: ExecutionPlan) -> tuple[str, ...]:
        """Operators that are chained in this plan but not in another one."""
        whole = [set(group) for group in other.fused]
        return tuple(name for group in self.fused if not any(map(set(group).issubset, whole)) for name in group)
