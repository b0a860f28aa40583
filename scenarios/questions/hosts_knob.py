"""How many hosts a job gets: the strongest of the cluster, planned anew for each number of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from twin.cluster import Cluster
from twin.errors import BadInput
from twin.scenario import Scenario
from twin.spec import parse

HOSTS = "hosts"


@dataclass(frozen=True, slots=True)
class HostsKnob:
    """The hosts with the most CPU (of equals, those that stand first) stay, planned for by the usual optimizer."""

    flag: str
    name: str = HOSTS

    def whole(self, scenario: Scenario) -> bool:
        """Always."""
        return True

    def given(self, scenario: Scenario) -> int:
        """All hosts of the cluster."""
        return len(scenario.cluster.hosts)

    def turned(self, scenario: Scenario, value: Any) -> Scenario:
        """Raises BadInput if there are not so many hosts, or no plan is valid on them."""
        if not 1 <= value <= self.given(scenario):
            raise BadInput(f"{self.flag} hosts: the cluster has {self.given(scenario)}; there are no {value}")
        from scenarios.planning.planner import optimize  # other questions start sooner without

        smaller = _moved(scenario, strongest(scenario.cluster, int(value)), f"{self.flag} hosts={value}")
        return smaller.with_plan(optimize(smaller).plan)


def strongest(cluster: Cluster, count: int) -> list[str]:
    """Names, in the order of the file."""
    ranked = sorted(range(len(cluster.hosts)), key=lambda index: (-cluster.hosts[index].left_percent, index))
    return [cluster.hosts[index].name for index in sorted(ranked[:count])]


def _moved(scenario: Scenario, kept: list[str], where: str) -> Scenario:
    """On these hosts only, all operators on one of them, so that it is valid; pinned ones stay where they can."""
    hosts = [host.model_dump(mode="json") for host in scenario.cluster.hosts if host.name in kept]
    nodes = {*kept, *scenario.cluster.switches}
    links = [link.model_dump(mode="json") for link in scenario.cluster.links if set(link.between) <= nodes]
    data = scenario.cluster.model_dump(mode="json") | {"hosts": hosts, "links": links}
    together = {name: [kept[0]] * scenario.plan.replicas(name) for name in scenario.plan.placement}
    for operator in scenario.query.operators:
        if operator.pinned and {place.host for place in scenario.plan.locations(operator.name)} <= set(kept):
            together[operator.name] = list(scenario.plan.placement[operator.name])
    data_of_plan = {"placement": together, "key_groups": {}}
    whole = scenario.model_dump(mode="json") | {"cluster": data, "plan": data_of_plan}
    return parse(Scenario, whole, where=where)
