"""How full processors are, by what flows through a job if all its sources keep up."""

from __future__ import annotations

from collections import defaultdict

from twin.job import Component, Job
from twin.plan import Location


def full_places(job: Job, share: float) -> set[Location]:
    """Where tasks share cores and need at least that share of them; what it costs to send over a network apart."""
    hosts = {host.name: host for host in job.deployment.cluster.hosts}
    work, tasks = defaultdict[Location, float](float), defaultdict[Location, int](int)
    for component in job.components:
        each_s = work_per_s(job, component) / component.replicas
        for place, replicas in component.at.items():
            work[place] += each_s * replicas
            tasks[place] += replicas
    cores = {place: hosts[place.host].socket_capacity(place.socket) for place in tasks}
    shared = (place for place, count in tasks.items() if count > 1 and count > cores[place])
    return {place for place in shared if work[place] >= share * cores[place]}


def work_per_s(job: Job, component: Component) -> float:
    """Reference cores that all replicas of a component need together."""
    inputs = job.inputs(component.name)
    tuples_s = job.service_s(component) * job.rates[component.name].in_per_s
    if len(inputs) > 1 and len(component.stages) == 1:  # each stream at its own cost
        tuples_s = sum(each.service_s * each.share * job.rates[each.ends[0]].out_per_s for each in inputs)
    for stage in component.stages:
        rates = job.rates[stage.operator.name]
        tuples_s += stage.scan_s * rates.window_tuples * rates.fires_per_s
        if rates.fires_per_s:
            tuples_s += stage.result_s * rates.out_per_s
    return tuples_s
