"""How large a run may be, in one table; and what both estimates of that have in common."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from twin.events import AnyEvent, RateChange
from twin.scenario import Scenario
from twin.workload import ArrivalLaw

LONG_S = 20.0
"""CPU seconds beyond which a person who waits should be told."""
MOST_S = 5000.0
"""CPU seconds beyond which a run is refused."""
MOST_BYTES = 4e9
"""Memory beyond which a run is refused."""


@dataclass(frozen=True, slots=True)
class CostPart:
    """A part of the cost of a run: its size in bytes or CPU seconds, what it is, and what makes it smaller."""

    size: float
    what: str
    remedy: str


def arriving(scenario: Scenario) -> dict[str, float]:
    """The number of records that arrive until the horizon, by source, with changes of rates."""
    horizon_s, laws = scenario.run.horizon_s, scenario.workload.arrivals
    return {
        name: law.mean_rate_per_s * horizon_s * _factor(name, law, scenario.events, horizon_s)
        for name, law in laws.items()
    }


def _factor(source: str, law: ArrivalLaw, events: Sequence[AnyEvent], horizon_s: float) -> float:
    """The mean factor over the run by which events raise a source's rate."""
    changes = [event for event in events if isinstance(event, RateChange) and event.source == source]
    mean, factor, since_s = 0.0, 1.0, 0.0
    for change in sorted(changes, key=lambda event: event.at_s):
        until_s = min(change.at_s, horizon_s)
        mean += factor * (until_s - since_s) / horizon_s
        factor = change.factor or (change.rate_per_s or 1.0) / law.mean_rate_per_s
        since_s = until_s
    return mean + factor * (horizon_s - since_s) / horizon_s
