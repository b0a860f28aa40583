"""Moves the map to the second host after the first period."""

from __future__ import annotations

from typing import Literal

from twin.control import PeriodStatistics, PolicySpec, Reconfiguration
from twin.deployment import Deployment
from twin.events import Move


class OnceSpec(PolicySpec):
    """Nothing of it can be set but the operator."""

    name: Literal["once"] = "once"
    operator: str = "map"

    def start(self, deployment: Deployment) -> Once:
        """For one run."""
        return Once(self)


class Once:
    """Remembers whether it has moved it."""

    name = "once"

    def __init__(self, spec: OnceSpec) -> None:
        self.spec = spec
        self.moved = False

    def decide(self, statistics: PeriodStatistics) -> Reconfiguration | None:
        """One move, once."""
        if self.moved:
            return None
        self.moved = True
        return Reconfiguration(moves=(Move(operator=self.spec.operator, replica=0, to="b"),), reason="once")
