"""Moves the map to the second host after the first period."""

from __future__ import annotations

from typing import Literal

from twin.control import PeriodStatistics, PolicySpec, Reconfiguration
from twin.deployment import Deployment
from twin.events import Move


class OnceSpec(PolicySpec):
    """Policy of which nothing can be set but the operator."""

    name: Literal["once"] = "once"
    operator: str = "map"

    def start(self, deployment: Deployment) -> Once:
        """Policy for one run."""
        return Once(self)


class Once:
    """Policy that remembers whether it has moved the operator."""

    name = "once"

    def __init__(self, spec: OnceSpec) -> None:
        self.spec = spec
        self.moved = False

    def decide(self, statistics: PeriodStatistics) -> Reconfiguration | None:
        """Moves the operator once."""
        if self.moved:
            return None
        self.moved = True
        return Reconfiguration(moves=(Move(operator=self.spec.operator, subtask=0, to="b"),), reason="once")
