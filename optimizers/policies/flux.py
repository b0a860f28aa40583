"""Flux (Shah et al., ICDE 2003) as a policy: the biggest group that fits, from the fullest host to the emptiest."""

from __future__ import annotations

from typing import Literal

from optimizers.balancing.flux import Flux
from optimizers.policies.balance import Round, Rounds
from twin.control import PolicySpec
from twin.deployment import Deployment


class FluxSpec(Round, PolicySpec):
    """What of it can be set."""

    name: Literal["flux"] = "flux"

    def start(self, deployment: Deployment) -> Rounds:
        """For one run."""
        return Rounds(deployment, self, Flux(), self.name)
