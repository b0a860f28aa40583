"""What a controller sees and may order: statistics of a period in, a reconfiguration out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from twin.events import Move, Rescale


@dataclass(frozen=True, slots=True)
class KeyGroupStatistics:
    """One key group in a period. `replica`: its owner, an index into the operator's placement."""

    group: int
    replica: int
    rate_per_s: float
    state_bytes: float


@dataclass(frozen=True, slots=True)
class PeriodStatistics:
    """All that a policy is told: measured rates and times of the period just ended, never the simulator's insides.

    operators, hosts: the rows of the trace (`twin.trace`), by name; a host appears once it carries an operator.
    placement: where each operator's replicas are now. key_groups: for operators that have them.
    """

    start_s: float
    end_s: float
    operators: Mapping[str, Mapping[str, Any]]
    hosts: Mapping[str, Mapping[str, Any]]
    placement: Mapping[str, tuple[str, ...]]
    key_groups: Mapping[str, tuple[KeyGroupStatistics, ...]] = field(default_factory=dict)

    @property
    def length_s(self) -> float:
        """Seconds from start to end."""
        return self.end_s - self.start_s


@dataclass(frozen=True, slots=True)
class Reconfiguration:
    """What to change. Scalings come first; replica numbers of moves count as the policy saw them."""

    moves: tuple[Move, ...] = ()
    rescales: tuple[Rescale, ...] = ()
    reason: str = ""


class Policy(Protocol):
    """Decides at the end of each period. The same statistics must give the same decision in the same history."""

    @property
    def name(self) -> str:
        """As users write it."""

    def decide(self, statistics: PeriodStatistics) -> Reconfiguration | None:
        """None: change nothing. Not asked while an earlier reconfiguration or an outage is under way."""
