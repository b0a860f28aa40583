"""All policies by name. A new one is a file with a class that takes a deployment, and a line here."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from optimizers.policies.ds2 import Ds2
from optimizers.policies.monitoring import Monitoring
from optimizers.policies.relieve import Relieve
from twin.control import Policy
from twin.deployment import Deployment
from twin.errors import BadInput, suggest

POLICIES: Mapping[str, Callable[[Deployment], Policy]] = {"ds2": Ds2, "monitoring": Monitoring, "relieve": Relieve}


def policy_by_name(name: str, deployment: Deployment) -> Policy:
    """A fresh policy for one run. Raises BadInput, with a suggestion, for an unknown name."""
    if name not in POLICIES:
        raise BadInput(f"unknown policy {name!r}; {suggest(name, POLICIES)}")
    return POLICIES[name](deployment)
