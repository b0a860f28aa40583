"""A placement by fixed policies and no cost model, in the style of Governor (Chaudhary, Zeuch, Markl, EDBT 2020).

Costream's baseline and the start of its Exp 2. Governor places by policies that an administrator states; Costream does
not say which it used, so these are ours: sources sit at the edge, one a host from the weakest up; the sink sits on
the strongest host; operators that reduce their stream stay with their producer, or move one host up when it is full;
all others (joins, and whatever emits as much as it takes) go to the strongest host. A host has one slot a whole
reference core, at least one; the strongest takes everything. The result obeys Costream's three rules on any DAG.
"""

from __future__ import annotations

import time
from collections import Counter
from dataclasses import dataclass
from typing import ClassVar

from optimizers.interface import Problem, Solution, Traits, plan_on
from optimizers.rules import bin_range, capability
from optimizers.selection import choose, estimate
from twin.cluster import Host
from twin.deployment import Deployment, nominal_rates
from twin.kinds.flow import OperatorRates
from twin.plan import ExecutionPlan


@dataclass(frozen=True, slots=True)
class Governor:
    """Planner that places by Governor's policies. It asks the cost model for one estimate, to report it; the plan does
    not depend on it."""

    traits: ClassVar = Traits(baseline=True)
    name: str = "governor"

    def solve(self, problem: Problem) -> Solution:
        """Governor's plan; never raises. Operators that are pinned stay."""
        started_s = time.perf_counter()
        plan = governor_plan(problem)
        return choose(problem, estimate(problem, [plan]), evaluations=1, started_s=started_s, complete=False)


def governor_plan(problem: Problem) -> ExecutionPlan:
    """Plan with Governor's placement, but for operators that are pinned."""
    job = problem.deployment
    plan = plan_on(job, governor_placement(job))
    stays_o = problem.space.pinned_o(job)
    stay = [each.name for each, stays in zip(job.query.topological, stays_o, strict=True) if stays]
    return plan.with_placement({**plan.placement, **{name: job.plan.placement[name] for name in stay}})


def governor_placement(deployment: Deployment) -> dict[str, str]:
    """Governor's placement: host of each operator."""
    query = deployment.query
    rates = nominal_rates(query, deployment.workload.arrivals)
    hosts = sorted(deployment.cluster.hosts, key=_strength)
    strongest = hosts[-1]
    used: Counter[str] = Counter()
    placement: dict[str, Host] = {}
    for operator in query.topological:
        above = {placement[name].name for name in query.ancestors(operator.name)}
        producers = [placement[stream.producer] for stream in query.inputs(operator.name)]
        if operator.is_source:
            host = min(hosts[:-1], key=lambda each: (used[each.name], _strength(each)), default=strongest)
        elif operator.is_sink or len(producers) > 1 or not _reduces(rates[operator.name]):
            host = strongest
        else:
            host = _stay_or_climb(hosts, producers[0], above, used)
        placement[operator.name] = host
        used[host.name] += 1
    return {operator.name: placement[operator.name].name for operator in query.operators}


def _strength(host: Host) -> tuple[int, int, float, str]:
    bins = bin_range(host)
    return bins.highest, bins.lowest, capability(host), host.name


def _reduces(rates: OperatorRates) -> bool:
    return rates.out_per_s < rates.in_per_s


def _stay_or_climb(hosts: list[Host], producer: Host, above: set[str], used: Counter[str]) -> Host:
    """Host with a free slot: the producer's, or the weakest one that the rules allow; else the strongest host."""
    strongest = hosts[-1]
    if producer is strongest or used[producer.name] < _slots(producer):
        return producer
    floor = max(bin_range(host).lowest for host in hosts if host.name in above)
    for host in hosts[hosts.index(producer) + 1 : -1]:
        if host.name not in above and bin_range(host).highest >= floor and used[host.name] < _slots(host):
            return host
    return strongest


def _slots(host: Host) -> int:
    return max(1, int(host.left_percent // 100))
