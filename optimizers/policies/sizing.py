"""From replica counts that a policy wants to a reconfiguration that can be carried out."""

from __future__ import annotations

from collections.abc import Mapping

from optimizers.policies.room import Room
from twin.control import PeriodStatistics, Reconfiguration
from twin.deployment import Deployment
from twin.events import Rescale


def rescaled(deployment: Deployment, statistics: PeriodStatistics, wanted: Mapping[str, int]) -> Reconfiguration | None:
    """Replicas come on the hosts with the most idle CPU, if there is any, and the last ones go; None for no change."""
    room = Room(deployment, statistics)
    rescales = []
    for name, count in wanted.items():
        places = statistics.placement[name]
        new = places + room.give(name, count - len(places)) if count > len(places) else places[:count]
        if len(new) != len(places):
            rescales.append(Rescale(operator=name, placement=new))
    if not rescales:
        return None
    counts = {name: len(places) for name, places in statistics.placement.items()}
    changes = (f"{rescale.operator} {counts[rescale.operator]}->{len(rescale.placement)}" for rescale in rescales)
    return Reconfiguration(rescales=tuple(rescales), reason=", ".join(changes))
