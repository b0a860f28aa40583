"""Equality of plans that differ only in which of equal hosts they use: exchanging these changes nothing of a job, so
one plan stands for all of them (redundancy elimination, BriskStream, Section 4).
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Hashable, Mapping, Sequence

from twin.deployment import Deployment
from twin.plan import ExecutionPlan
from twin.scenario import Scenario


def kinds(deployment: Deployment) -> Mapping[str, str]:
    """Kind of each host: equal for hosts that are equal in everything but their names."""
    return {host.name: host.model_copy(update={"name": "host"}).model_dump_json() for host in deployment.cluster.hosts}


def exchangeable(scenario: Scenario) -> Mapping[str, str]:
    """Class of each host: equal for hosts that may be exchanged. It is the kind, or the name where links, events or a
    policy tell equal hosts apart."""
    told_apart = scenario.cluster.links or scenario.events or scenario.policy is not None
    return {name: name if told_apart else kind for name, kind in kinds(scenario).items()}


def copies(scenario: Scenario) -> int:
    """Most plans that exchanging equal hosts makes of one."""
    return math.prod(math.factorial(count) for count in Counter(exchangeable(scenario).values()).values())


def distinct(scenario: Scenario, plans: Sequence[ExecutionPlan]) -> list[int]:
    """Rows of the plans that are different, in order: of plans that exchanging equal hosts turns into each other, the
    first."""
    kind = exchangeable(scenario)
    firsts: dict[Hashable, int] = {}
    for row, plan in enumerate(plans):
        tasks = defaultdict[str, list[tuple[str, int, int]]](list)
        for name in plan.placement:
            for replica, place in enumerate(plan.locations(name)):
                tasks[place.host].append((name, replica, place.socket))
        used = frozenset((kind[host], frozenset(each)) for host, each in tasks.items())
        firsts.setdefault((used, tuple(sorted(plan.key_groups.items())), plan.fused), row)
    return list(firsts.values())
