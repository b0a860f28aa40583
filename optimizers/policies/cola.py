"""COLA in every round: a plan from scratch, whatever has to migrate for it. A baseline for collocation."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import Field

from optimizers.balancing.cola import Cola
from optimizers.policies.balance import Round, Rounds
from optimizers.policies.collocate import figures, gained, reason
from optimizers.policies.group_map import GroupMap
from twin.control import PolicySpec, Reconfiguration
from twin.deployment import Deployment

NO_LIMIT = 10**9


class ColaSpec(PolicySpec):
    """What of it can be set; it has no budget."""

    name: Literal["cola"] = "cola"
    max_distance: Annotated[
        float, Field(gt=0, le=100, description="load distance that is even enough (percentage points)")
    ] = 10.0
    every_periods: Annotated[int, Field(ge=1, description="periods of a round; loads are means over them")] = 1

    def start(self, deployment: Deployment) -> FromScratch:
        """For one run."""
        spec = Round(max_migrations=NO_LIMIT, every_periods=self.every_periods)
        return FromScratch(deployment, spec, Cola(self.max_distance), self.name)


@dataclass
class FromScratch(Rounds):
    """Rounds without a budget. What its plan says of groups that cannot move is left undone."""

    def _round(self, here: GroupMap) -> Reconfiguration | None:
        balance = here.balance(self.spec.budget, with_traffic=True)
        plan = self.solver.solve(balance)
        if not gained(balance, plan):
            return None
        return Reconfiguration(here.moves(plan.node_g), reason=reason(balance, plan), figures=figures(balance, plan))
