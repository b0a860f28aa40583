"""What of a job is how full, and so what binds and how much room all else has."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from scenarios.questions.kept import RunOutcome
from scenarios.questions.measures import of
from twin.deployment import Deployment
from twin.scenario import Scenario

FULL = 0.9
"""Something that is busier is said to bind; queues before it grow without limit soon after."""
NO_SPARE = 0.99
"""Share of the time."""


class Resource(NamedTuple):
    """kind: operator, CPU, memory, network card or link. used: share in use, the mean over runs; of operators, of the
    time of a replica."""

    kind: str
    name: str
    used: float

    @property
    def head_room(self) -> float | None:
        """How many times as much it could bear; None if it is idle."""
        return 1.0 / self.used if self.used > 0.0 else None


def without_spare(scenario: Scenario, outcomes: Sequence[RunOutcome]) -> list[str]:
    """Operators that were busy, and hosts whose CPU was in use, all of the time, in the mean over the runs.

    A longer run may show that the job does not keep up, once its queues have filled.
    """
    names = [f"operators.{operator.name}.busy" for operator in scenario.query.operators]
    names += [f"hosts.{host.name}.cpu" for host in scenario.cluster.hosts]
    return [name.split(".", 1)[1].rpartition(".")[0] for name in names if _mean(outcomes, name) >= NO_SPARE]


def resources(scenario: Deployment, outcomes: Sequence[RunOutcome]) -> list[Resource]:
    """All that carry anything, the fullest first."""
    found = [
        Resource("operator", each.name, _mean(outcomes, f"operators.{each.name}.busy"))
        for each in scenario.query.operators
    ]
    for host in scenario.cluster.hosts:
        found.append(Resource("CPU", host.name, _mean(outcomes, f"hosts.{host.name}.cpu")))
        found.append(Resource("memory", host.name, _mean(outcomes, f"hosts.{host.name}.memory_mb") / host.ram_mb))
        found.append(Resource("network card", host.name, _mean(outcomes, f"links.{host.name}.utilisation")))
    for link in scenario.cluster.links:
        for ends in (link.between, link.between[::-1]):
            name = "->".join(ends)
            found.append(Resource("link", name, _mean(outcomes, f"links.{name}.utilisation")))
    return sorted((each for each in found if each.used > 0.0), key=lambda each: -each.used)


def binding(found: Sequence[Resource], scenario: Scenario) -> str:
    """What is full, in words; empty if nothing is."""
    full = [each for each in found if each.used >= FULL]
    if not full:
        return ""
    hosts = {each.name for each in full if each.kind == "CPU"}
    operators = [each for each in full if each.kind == "operator"]
    words = [f"operator {each.name} on {_hosts(each.name, scenario)} ({each.used:.0%} busy)" for each in operators]
    words += [f"{each.kind} of {each.name} ({each.used:.0%})" for each in full if each.kind != "operator"]
    alone = bool(operators) and not hosts and len(full) == len(operators)
    return " and ".join(words) + ("; its hosts have cores to spare for more replicas" if alone else "")


def _hosts(operator: str, scenario: Scenario) -> str:
    return ", ".join(dict.fromkeys(place.host for place in scenario.plan.locations(operator)))


def _mean(outcomes: Sequence[RunOutcome], name: str) -> float:
    return float(np.mean([of(each.measures, name) for each in outcomes]))
