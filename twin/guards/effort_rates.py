"""What a run is asked to carry, and what holds it up: offered rates against processors and network cards.

Cruder than `twin.rates.model`, and cheap enough to be done before every run: replicas get equal shares, and who is held
up is slowed by the worst that its tuples meet.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from twin.job import Edge, Job
from twin.kinds.flow import MIXED, Flow
from twin.plan import Location
from twin.query import AnyOperator, Windowed

SHARPNESS = 20.0
"""Steepness of the chance that a channel is full in the log of the utilisation behind it: 11 % at 0.9, 87 % at 1.1."""
MOST = 1e250
"""Tuples a second: products of rates must stay finite."""


@dataclass(frozen=True, slots=True)
class Outlook:
    """By operator. asked_per_s: tuples offered. busy: share of a core's time that a replica would work for them.

    felt: utilisation of the worst that its tuples meet, from its processor on. flows: if each operator took in what is
    offered or, where that is more than it has cores for, as much as it can; whatever holds up its results. By stream,
    leaving: the share of its tuples that leave their host. used: utilisation of the processors, by socket.
    """

    asked_per_s: Mapping[str, float]
    busy: Mapping[str, float]
    felt: Mapping[str, float]
    flows: Mapping[str, Flow]
    leaving: Mapping[Edge, float]
    used: Mapping[Location, float]

    def accepted_per_s(self, operator: str) -> float:
        """Tuples a second that it takes in at most."""
        felt = self.felt[operator]
        return self.asked_per_s[operator] / felt if felt > 0.0 else math.inf

    def busy_share(self, operator: str) -> float:
        """Share of its time that a replica works, held up as it is."""
        return self.busy[operator] / max(1.0, self.felt[operator])

    def full(self, each: Edge) -> float:
        """Chance that a stream's channels hold their producers up."""
        felt = self.felt[each.stream.consumer]
        return 1.0 / (1.0 + felt**-SHARPNESS) if each.blocks and felt > 0.1 else 0.0


def outlook(job: Job, offered_per_s: Mapping[str, float], horizon_s: float) -> Outlook:
    """From the mean rates of the sources."""
    return _outlook(job, tuple(offered_per_s.items()), horizon_s)


@lru_cache(maxsize=1)  # a run is looked at three times before it begins: as fast, as exact, and as what it will be
def _outlook(job: Job, offered: tuple[tuple[str, float], ...], horizon_s: float) -> Outlook:
    offered_per_s = dict(offered)
    sockets = _sockets(job, {place for each in job.components for place in each.at})
    flows: dict[str, Flow] = {}
    asked: dict[str, float] = {}
    carried: dict[Edge, float] = {}  # tuples a second
    for component in job.components:
        name, inputs = component.name, job.inputs(component.name)
        coming = [float(flows[each.stream.producer].out_per_s[0]) * each.share for each in inputs] or [
            offered_per_s[name]
        ]
        if inputs:
            several = [each.how.count_of_copies(component.replicas) for each in inputs]
            coming = [rate * count for rate, count in zip(coming, several, strict=True)]
        cores = sum(replicas * sockets[place][1] for place, replicas in component.at.items())
        fits = min(1.0, cores / max(sum(coming) * component.service_s, 1e-300))
        flows[name] = flow_through(component.operator, [rate * fits for rate in coming], horizon_s)
        for each, rate in zip(inputs, coming, strict=False):
            carried[each] = rate if each.blocks else rate * fits
        asked[name] = sum(carried[each] for each in inputs) if inputs else coming[0]
    busy, used = _utilisations(job, asked, flows, sockets)
    own = {each.name: max(busy[each.name], *(used[place] for place in each.at)) for each in job.components}
    cards, leaving = _cards(job, carried)
    felt: dict[str, float] = {}
    for component in reversed(job.components):
        name, outputs = component.name, job.outputs(component.name)
        ahead = max((max(cards[each], felt[each.stream.consumer]) for each in outputs if each.blocks), default=0)
        felt[name] = min(max(own[name], ahead * max(1.0, busy[name])), MOST)  # what lies ahead is asked for what fits
    return Outlook(asked, busy, felt, flows, leaving, used)


def flow_through(operator: AnyOperator, inputs: Sequence[float], horizon_s: float) -> Flow:
    """The flow through an operator; a window holds no more than comes until the horizon."""
    if isinstance(operator, Windowed):
        window = operator.window
        if window.policy == "time":
            most = min(window.size, horizon_s)
            limits: dict[str, float] = {"size_s": most, "slide_s": min(window.slide, most)}
        else:
            tuples = max(1, math.ceil(min(window.size, sum(inputs) * horizon_s)))
            limits = {"size_tuples": tuples, "slide_tuples": min(int(window.slide), tuples)}
        operator = operator.model_copy(update={"window": window.model_copy(update=limits)})
    spread = np.full(1, np.inf)
    flow = operator.through(tuple(np.array([rate]) for rate in inputs), [spread] * len(inputs), MIXED)
    return flow._replace(out_per_s=np.minimum(flow.out_per_s, MOST))


def _sockets(job: Job, places: Iterable[Location]) -> dict[Location, tuple[float, float]]:
    """(reference cores of a socket, what a task can use of them)."""
    hosts, found = {host.name: host for host in job.deployment.cluster.hosts}, {}
    for place in places:
        capacity = hosts[place.host].socket_capacity(place.socket)
        found[place] = capacity, min(capacity, hosts[place.host].core_speed(place.socket))
    return found


def _utilisations(
    job: Job,
    asked_per_s: Mapping[str, float],
    flows: Mapping[str, Flow],
    sockets: Mapping[Location, tuple[float, float]],
) -> tuple[dict[str, float], dict[Location, float]]:
    """(of a core by a replica, on the slowest, by operator; of each socket)."""
    busy: dict[str, float] = {}
    used: defaultdict[Location, float] = defaultdict(float)
    for component in job.components:
        name, flow = component.name, flows[component.name]
        work = asked_per_s[name] * component.service_s
        work += float(flow.fires_per_s[0]) * float(flow.window_tuples[0]) * component.scan_s
        work += float(flow.out_per_s[0]) * component.result_s
        each = min(work, MOST) / component.replicas
        busy[name] = each / min(sockets[place][1] for place in component.at)
        for place, replicas in component.at.items():
            used[place] += min(each, sockets[place][1]) * replicas
    return busy, {place: used[place] / capacity for place, (capacity, _) in sockets.items()}


def _cards(job: Job, carried: Mapping[Edge, float]) -> tuple[dict[Edge, float], dict[Edge, float]]:
    """(highest utilisation among the network cards that its tuples leave by, share of these that leave), by stream."""
    used: defaultdict[str, float] = defaultdict(float)
    leaves: dict[Edge, dict[str, float]] = {}
    for each in job.edges:
        begin, end = job.components[each.producer], job.components[each.consumer]
        sent = carried[each] / begin.replicas
        leaves[each] = {host: count * (1.0 - end.on[host] / end.replicas) for host, count in begin.on.items()}
        for host, leaving in leaves[each].items():
            used[host] += leaving * min(sent * each.bytes_each, MOST)
    room = {host.name: host.bandwidth_mbps * 1e6 / 8.0 for host in job.deployment.cluster.hosts}
    worst = {
        each: max((used[host] / room[host] for host, leaving in by.items() if leaving > 0.0), default=0.0)
        for each, by in leaves.items()
    }
    return worst, {each: sum(by.values()) / job.components[each.producer].replicas for each, by in leaves.items()}
