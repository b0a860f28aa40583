"""How many records arrive at each source until the horizon, changes of rates included."""

from __future__ import annotations

from collections.abc import Sequence

from twin.events import AnyEvent, RateChange
from twin.scenario import Scenario
from twin.workload import ArrivalLaw


def arriving(scenario: Scenario) -> dict[str, float]:
    """By source."""
    horizon_s, laws = scenario.run.horizon_s, scenario.workload.arrivals
    return {name: law.mean_rate_per_s * horizon_s * _factor(name, law, scenario) for name, law in laws.items()}


def _factor(source: str, law: ArrivalLaw, scenario: Scenario) -> float:
    """By how much events raise what a source is offered, averaged over the run."""
    horizon_s = scenario.run.horizon_s
    mean, factor, since_s = 0.0, 1.0, 0.0
    for each in _changes(source, scenario.events):
        until_s = min(each.at_s, horizon_s)
        mean += factor * (until_s - since_s) / horizon_s
        factor = each.factor or (each.rate_per_s or 1.0) / law.mean_rate_per_s
        since_s = until_s
    return mean + factor * (horizon_s - since_s) / horizon_s


def _changes(source: str, events: Sequence[AnyEvent]) -> list[RateChange]:
    found = [each for each in events if isinstance(each, RateChange) and each.source == source]
    return sorted(found, key=lambda event: event.at_s)
