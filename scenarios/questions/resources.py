"""Utilisation of each resource of a job: the resources that bind, and the head room of the others."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from itertools import product
from typing import NamedTuple

import numpy as np

from scenarios.measures import busy_on, of
from scenarios.questions.kept import RunOutcome
from twin.chaining import fused, one_a_task
from twin.deployment import Deployment
from twin.job import compile
from twin.key_skew import zipf_shares
from twin.plan import Location
from twin.scenario import Scenario
from twin.scheduling import as_many
from twin.workload import group_count

GIGA = 1e9
FULL = 0.9
"""Utilisation from which on a resource is said to bind; with little more load, queues grow without limit."""
UNEVEN = 1.1
"""Ratio of the busiest subtask's utilisation to the mean beyond which the busiest is named."""


class Resource(NamedTuple):
    """Utilisation of one resource. kind: operator, calls, CPU, memory, memory bandwidth (of a socket, or from one to
    another), network card or link. used: the share in use, mean over runs; for an operator, the busy share of its
    busiest subtask, which is full first; for calls to a system outside, the share of its capacity (`Calls.used`). even:
    the mean over all of an operator's subtasks. full_on: hosts on which it has a full one; empty if none is known."""

    kind: str
    name: str
    used: float
    even: float
    full_on: tuple[str, ...] = ()

    @property
    def uneven(self) -> bool:
        """Whether one subtask is so much busier than the others that more subtasks would help less."""
        return self.used > UNEVEN * self.even

    @property
    def head_room(self) -> float | None:
        """Factor by which the load of the resource may grow; None if it is idle."""
        return 1.0 / self.used if self.used > 0.0 else None


def without_spare(scenario: Scenario, outcomes: Sequence[RunOutcome]) -> list[str]:
    """Names of the operators and hosts that are full (`twin.steadiness.full`) in half of the runs or more."""
    names = [each.name for each in (*scenario.query.operators, *scenario.cluster.hosts)]
    return [name for name in names if _mean(outcomes, f"full.{name}") >= 0.5]


def resources(scenario: Deployment, outcomes: Sequence[RunOutcome]) -> list[Resource]:
    """Resources that are used at all, the fullest first."""
    shares = []
    for host in scenario.cluster.hosts:
        shares.append(("CPU", host.name, _mean(outcomes, f"hosts.{host.name}.cpu")))
        shares.append(("memory", host.name, _mean(outcomes, f"hosts.{host.name}.memory_mb") / host.ram_mb))
        shares.append(("network card", host.name, _mean(outcomes, f"links.{host.name}.utilisation")))
    for link in scenario.cluster.links:
        for ends in (link.between, link.between[::-1]):
            name = "->".join(ends)
            shares.append(("link", name, _mean(outcomes, f"links.{name}.utilisation")))
    shares += [("memory bandwidth", name, used) for name, used in _bandwidths(scenario, outcomes)]
    listed = [Resource(kind, name, used, used) for kind, name, used in shares]
    for operator in scenario.query.operators:
        busy, busiest = (_mean(outcomes, f"operators.{operator.name}.{which}") for which in ("busy", "busiest"))
        busiest_on = {
            host: _mean(outcomes, busy_on(operator.name, host)) for host in scenario.plan.hosts(operator.name)
        }
        full_on = tuple(host for host, used in busiest_on.items() if used >= FULL)
        listed.append(Resource("operator", operator.name, max(busy, busiest), busy, full_on))
        if operator.calls is not None:
            in_per_s = np.asarray(_mean(outcomes, f"operators.{operator.name}.rate_in_per_s"))
            share = float(operator.calls.used(in_per_s, in_per_s / scenario.plan.parallelism(operator.name)))
            listed.append(Resource("calls", operator.name, share, share))
    return sorted((resource for resource in listed if resource.used > 0.0), key=lambda resource: -resource.used)


def _bandwidths(scenario: Deployment, outcomes: Sequence[RunOutcome]) -> Iterator[tuple[str, float]]:
    """Names and used shares of the bandwidths of memory that are limited."""
    hosts = [host for host in scenario.cluster.hosts if host.sockets or host.numa]
    moved = _moved(scenario, outcomes) if hosts else {}
    for host in hosts:
        limits = {(i, i): socket.bandwidth_gbps for i, socket in enumerate(host.sockets or ())}
        between = host.numa.bandwidth_gbps if host.numa is not None else None
        limits |= {(i, j): gbps for i, row in enumerate(between or ()) for j, gbps in enumerate(row) if i != j}
        for (i, j), gbps in limits.items():
            if gbps is not None:
                name = str(Location(host.name, i)) + ("" if i == j else f"->{Location(host.name, j)}")
                yield name, moved.get((host.name, i, j), 0.0) / (gbps * GIGA)


def _moved(scenario: Deployment, outcomes: Sequence[RunOutcome]) -> dict[tuple[str, int, int], float]:
    """Bytes a second that are moved, by host, socket where they are, and socket of the task that takes them; records
    count as dealt evenly."""
    job, moved = compile(scenario).apart, defaultdict[tuple[str, int, int], float](float)
    for component in job.components:
        each_per_s = _mean(outcomes, f"operators.{component.name}.rate_in_per_s") / component.parallelism
        for place in component.places:
            moved[place.host, place.socket, place.socket] += each_per_s * component.memory_bytes
        sent = [(edge, job.rates[edge.ends[0]].out_per_s * edge.share) for edge in job.inputs(component.name)]
        for edge, per_s in sent:
            start = job.components[edge.producer]
            part = per_s / max(sum(each for _, each in sent), 1e-300) / start.parallelism
            for here, there in product(start.places, component.places):
                if here.host == there.host and here.socket != there.socket:
                    moved[here.host, here.socket, there.socket] += part * each_per_s * edge.bytes_each
    return moved


def holding(listed: Sequence[Resource], scenario: Deployment) -> list[Resource]:
    """Resources that may bind, one for each task of chained operators. Operators behind streams that drop hold up
    nothing, nor do their hosts' CPUs."""
    names = scenario.query.holding_up
    hosts = scenario.plan.hosts(*names)
    busy = {each.name: each.used for each in listed if each.kind == "operator" and each.name in names}
    tasks = one_a_task(busy, fused(scenario.query, scenario.plan, scenario.engine))
    by_kind = {"operator": tasks, "calls": names, "CPU": hosts}
    return [each for each in listed if each.kind not in by_kind or each.name in by_kind[each.kind]]


def task_of(operator: str, scenario: Deployment) -> str:
    """Name of the task that runs an operator: of all that are chained, such as `parse + clean`."""
    chains = fused(scenario.query, scenario.plan, scenario.engine)
    return next((" + ".join(chain) for chain in chains if operator in chain), operator)


def binding(listed: Sequence[Resource], scenario: Scenario) -> str:
    """Resources that bind, in words; empty if none does. A full CPU comes first, as operators wait for it."""
    full = [each for each in holding(listed, scenario) if each.used >= FULL]
    operators = [each for each in full if each.kind == "operator"]
    cpus, others = ([each for each in full if each not in operators and (each.kind == "CPU") == cpu] for cpu in (1, 0))
    words = [_shared(each, scenario) for each in cpus]
    words += [
        f"operator {task_of(each.name, scenario)} on {', '.join(each.full_on or scenario.plan.hosts(each.name))} "
        f"({_words(each, scenario)})"
        for each in operators
    ]
    words += [_shared(each, scenario) for each in others]
    if not operators or cpus or others or any(each.uneven for each in operators):
        return " and ".join(words)
    capped = [f"{each.name} has {why}" for each in operators if (why := most_subtasks(each.name, scenario))]
    more = " and ".join(capped) or "its hosts have cores to spare for more subtasks"
    return f"{' and '.join(words)}; {more}"


def _shared(each: Resource, scenario: Scenario) -> str:
    return f"{each.kind} of {each.name} ({each.used:.0%}{others_words(each, scenario)})"


def limits(listed: Sequence[Resource], full: Sequence[str], scenario: Deployment) -> tuple[tuple[str, ...], str]:
    """Resources that bind, in a few words each; and the fullest, if none does. full: names of the operators and hosts
    that are full at the end (`without_spare`), whatever their mean over a run in which the load changes."""
    found = [each for each in holding(listed, scenario) if each.kind != "memory" or each.used >= FULL]
    late = [each for each in found if each.used < FULL and each.name in full and each.kind in ("operator", "CPU")]
    bind = [
        _briefly(each, scenario, ", full at the end" * (each in late))
        for each in sorted(found, key=lambda each: each.kind != "CPU")  # for which operators wait
        if each.used >= FULL or each in late
    ]
    return tuple(bind), "" if bind or not found else _briefly(found[0], scenario)


def _briefly(resource: Resource, scenario: Deployment, when: str = "") -> str:
    if resource.kind == "operator":
        which = "busiest subtask " if resource.uneven else ""
        return f"operator {task_of(resource.name, scenario)} ({which}{resource.used:.0%} busy{when})"
    return f"{resource.kind} of {resource.name} ({resource.used:.0%}{when})"


def most_subtasks(name: str, job: Deployment) -> str:
    """Reason, in words, why an operator gains nothing from more subtasks: it, or an operator that must have as many,
    has one for each partition or key group. Empty if it may gain."""
    most = {}
    for each in job.query.operators:
        count = job.plan.parallelism(each.name)
        for parts, what in ((each.parts, "partitions"), (group_count(job.query, each.name, count), "key groups")):
            if parts is not None and count >= parts:
                most[each.name] = f"as many subtasks as {'it' if each.name == name else each.name} has {what} ({parts})"
    if not most:
        return ""
    return next((most[each] for each in as_many(job, name) if each in most), "")


def others_words(resource: Resource, scenario: Deployment) -> str:
    """Words that say of which cores of a CPU a share is, if other processes use a part; else empty."""
    if resource.kind != "CPU" or not (host := scenario.cluster.host(resource.name)).others_percent:
        return ""
    cores, others = host.cpu_percent / 100, host.others_percent / 100
    return f" of the {cores - others:g} of {cores:g} cores that others leave"


def busy_words(operator: Resource) -> str:
    """Utilisation of an operator in words; if its subtasks differ, of the busiest and the mean."""
    if not operator.uneven:
        return f"{operator.used:.0%} busy"
    return f"its busiest subtask is {operator.used:.0%} busy, the mean is {operator.even:.0%}"


def _words(operator: Resource, scenario: Scenario) -> str:
    """Utilisation of an operator in words, and the key group, if any, that alone has more records than an even share of
    a subtask."""
    words, skew = busy_words(operator), scenario.workload.keys.get(operator.name)
    parallelism = scenario.plan.parallelism(operator.name)
    groups = group_count(scenario.query, operator.name, parallelism)
    if skew is None or groups is None:
        return words
    shares = skew.by_group(groups) if skew.placed else zipf_shares(groups, skew.zipf)
    if shares.max() * parallelism <= UNEVEN:
        return words
    which = f"key group {shares.argmax()}" if skew.placed else "one key group"
    return f"{words}; {which} alone has {shares.max():.0%} of its records, which more subtasks do not divide"


def _mean(outcomes: Sequence[RunOutcome], name: str) -> float:
    return float(np.mean([of(outcome.measures, name) for outcome in outcomes]))
