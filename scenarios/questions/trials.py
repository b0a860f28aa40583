"""The moments at which a change is tried: all the same, or spread evenly over the time between two checkpoints.

A failure costs what came since the last checkpoint, from nothing to a whole interval. At one moment all runs would
agree on a part of it that is chance.
"""

from __future__ import annotations

from typing import NamedTuple

from scenarios.questions.change_options import Planned
from twin.scenario import Scenario


class Trial(NamedTuple):
    """at_s: when the change happens in these scenarios, which differ in what restarts."""

    at_s: float
    scenarios: tuple[Scenario, ...]


def trials(change: Planned, replications: int) -> list[Trial]:
    """One a replication, in the middle of its part of the time over which the change is spread."""
    tried = (change.scenario,) if change.rival is None else (change.scenario, change.rival)
    if not change.spread_s:
        return [Trial(change.at_s, tried)] * replications
    later_s = [change.spread_s * (index + 0.5) / replications for index in range(replications)]
    return [
        Trial(change.at_s + each_s, tuple(_later(scenario, change.own, each_s) for scenario in tried))
        for each_s in later_s
    ]


def _later(scenario: Scenario, own: int, by_s: float) -> Scenario:
    kept, moved = scenario.events[:-own], scenario.events[-own:]
    return scenario.with_events(*kept, *(each.model_copy(update={"at_s": each.at_s + by_s}) for each in moved))
