"""Objectives of plans, and the requirements that a plan must fulfil beside its objective."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal, TypeVar

import numpy as np

from twin.arrivals.laws import ArrivalLaw
from twin.chaining import fused, links_of
from twin.cluster import Cluster
from twin.deployment import Deployment
from twin.errors import BadInput, suggest
from twin.metrics import FURTHER, REGRESSION_METRICS, TABLE, CostModel, estimates
from twin.partitionings import Ends
from twin.plan import ExecutionPlan
from twin.quantities import unit_of_time
from twin.rates.coefficients import PlacementCoefficients
from twin.workload import read_shares

# requirements --------------------------------------------------------------------------------------------------------
# Requirements on a plan beside keeping up: head room and latencies; and the prices of hosts.


MEDIAN = "p50"
MEAN_LATENCIES = tuple(name for name in REGRESSION_METRICS if TABLE[name].better == "min")
"""Latencies that every cost model estimates."""
USUAL_METRIC = "processing_latency_s"
"""Objective if none is asked for, and what decides among plans of equal price or traffic."""
LIMITED = (*MEAN_LATENCIES, *FURTHER)
"""What a requirement may limit, where some cost model estimates it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Requirements:
    """Requirements on a plan beside keeping up; none by default.

    head_room: share of the offered rates that a plan must bear beyond them, >= 0: no resource is used to more than
    1 / (1 + head_room), as far as loads grow with rates. at_most: highest values of LIMITED by name, such as seconds
    of a latency or of its quantile (`e2e_latency_s.p99`), some of which only some cost models estimate. measured:
    highest values of other measures of a run, by name, which only a search by runs knows. prices: by host; 1 for hosts
    that are not named.

    Raises BadInput for an unknown name, a limit of one of LIMITED or a price that is not above 0, another limit below
    0, or a negative head room.
    """

    head_room: float | None = None
    at_most: Mapping[str, float] = field(default_factory=dict)
    measured: Mapping[str, float] = field(default_factory=dict)
    prices: Mapping[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.head_room is not None and not 0.0 <= self.head_room < 1e6:
            raise BadInput(f"head room must be >= 0, such as 0.2 for 20 %, got {self.head_room}")
        for name, most in self.at_most.items():
            if name not in LIMITED:
                raise BadInput(f"a limit of {name!r}, which no prediction knows; {suggest(name, LIMITED)}")
            if not 0.0 < most < math.inf:
                raise BadInput(f"{name} at most {most:g}: give a finite number above 0")
        for name, most in self.measured.items():
            if not 0.0 <= most < math.inf:
                raise BadInput(f"{name} at most {most:g}: no plan has less than 0; give a finite number from 0")
        for name, price in self.prices.items():
            if not 0.0 < price < math.inf:
                raise BadInput(f"price of host {name!r} must be > 0, got {price}")

    @property
    def factor(self) -> float:
        """Factor on the offered rates at which a plan must not be backpressured."""
        return 1.0 + (self.head_room or 0.0)

    def as_known_to(self, model: CostModel) -> Requirements:
        """Requirements as a cost model can judge them: the limit of a high quantile that it does not estimate becomes
        one of the mean; other limits that it does not know are left out."""
        limits = {name: most for name, most in self.at_most.items() if estimates(model, name)}
        for name in self.at_most.keys() - limits:
            mean, _, quantile = name.partition(".")
            if quantile not in ("", MEDIAN) and estimates(model, mean):
                limits[mean] = min(self.at_most[name], limits.get(mean, math.inf))
        return replace(self, at_most=limits)

    @property
    def words(self) -> str:
        """The requirements in a few words; empty if nothing is required."""
        room = f"bears {self.factor:g} times the offered rates" if self.head_room else ""
        limits = [
            f"keeps {name} to at most {most:g}{' s' * (unit_of_time(name.partition('.')[0]) == 's')}"
            for name, most in (*self.at_most.items(), *self.measured.items())
        ]
        return ", ".join(filter(None, [room, *limits]))


NOTHING_MORE = Requirements()


USUAL = 1.0
"""Price of a host without a given price, so that hosts are counted."""


def priced(deployment: Deployment, prices: Mapping[str, float]) -> bool:
    """Whether any host has a price. prices: by name, instead of"""
    return bool(prices) or any(host.price_per_hour is not None for host in deployment.cluster.hosts)


def prices_h(deployment: Deployment, prices: Mapping[str, float]) -> np.ndarray:
    """Prices of all hosts [H]. Raises BadInput for the price of an unknown host."""
    hosts = deployment.cluster.hosts
    names = [host.name for host in hosts]
    for name in prices:
        if name not in names:
            raise BadInput(f"unknown host {name!r} has a price; {suggest(name, names)}")
    own = [USUAL if host.price_per_hour is None else host.price_per_hour for host in hosts]
    return np.array([prices.get(name, price) for name, price in zip(names, own, strict=True)], float)


def price_of(deployment: Deployment, plan: ExecutionPlan, prices: Mapping[str, float]) -> float:
    """Price of the hosts that a plan uses. Raises BadInput for the price of an unknown host."""
    used = {*plan.hosts(*plan.placement)}
    priced_hosts = zip(deployment.cluster.hosts, prices_h(deployment, prices), strict=True)
    return float(sum(price for host, price in priced_hosts if host.name in used))


Job = TypeVar("Job", bound=Deployment)


def at_rate(deployment: Job, factor: float) -> Job:
    """The deployment with every source offered `factor` times as much, > 0."""
    return at_rates(deployment, lambda law: law.scaled(factor))


def at_rates(deployment: Job, changed: Callable[[ArrivalLaw], ArrivalLaw]) -> Job:
    """The deployment with every source's arrival law changed."""
    arrivals = {name: changed(law) for name, law in deployment.workload.arrivals.items()}
    workload = deployment.workload.model_copy(update={"arrivals": arrivals})
    return deployment.model_copy(update={"workload": workload})


# objectives ----------------------------------------------------------------------------------------------------------
# Objectives of plans: metrics that a cost model predicts; prices, traffic and changes, which follow from the plan.
#
# Traffic is counted at the offered rates: bytes a second over each link that a stream crosses; without links in the
# cluster, bytes a second from one host to another. Subtasks emit in proportion to their input, and chained operators
# have no stream between them.


@dataclass(frozen=True, slots=True, kw_only=True)
class Objective:
    """Objective of plans. better: whether low or high values are. of: computes values of plans [N]; None: predicted."""

    better: Literal["min", "max"]
    of: Callable[[Deployment, Sequence[ExecutionPlan], Requirements], np.ndarray] | None = None


def prices(deployment: Deployment, plans: Sequence[ExecutionPlan], required: Requirements) -> np.ndarray:
    """[N] sum of the prices of the hosts that each plan uses."""
    return np.array([price_of(deployment, plan, required.prices) for plan in plans])


def traffic(deployment: Deployment, plans: Sequence[ExecutionPlan], required: Requirements | None = None) -> np.ndarray:
    """[N] bytes a second over links, or between hosts if the cluster has no links, for each plan."""
    del required
    job, query = PlacementCoefficients.of(deployment), deployment.query
    number = {host.name: h for h, host in enumerate(deployment.cluster.hosts)}
    crossed_hh = links_crossed(deployment.cluster)
    bytes_s = job.streams.rate_per_s * job.streams.record_bytes
    row = {stream: s for s, stream in enumerate(query.streams_by_name)}
    found, alike = np.zeros(len(plans)), defaultdict[tuple[int, ...], list[tuple[int, ExecutionPlan]]](list)
    for n, plan in enumerate(plans):
        alike[tuple(plan.parallelism(operator.name) for operator in query.operators)].append((n, plan))
    for some in alike.values():
        rows, sent = [n for n, _ in some], _sent_between(job, some[0][1])
        hosts = {
            name: np.array([[number[place.host] for place in plan.locations(name)] for _, plan in some])
            for name in some[0][1].placement
        }
        within = [links_of(query, fused(query, plan, deployment.engine)) for _, plan in some]
        for stream, s in row.items():
            apart_n = np.array([(stream.producer, stream.consumer) not in inner for inner in within])
            crossed_nrr = crossed_hh[hosts[stream.producer][:, :, None], hosts[stream.consumer][:, None, :]]
            found[rows] += bytes_s[s] * apart_n * (sent[s] * crossed_nrr).sum(axis=(1, 2))
    return found


def changed(deployment: Deployment, plans: Sequence[ExecutionPlan], required: Requirements | None = None) -> np.ndarray:
    """[N] subtasks that are moved to another host or socket, stopped or started on the way from the deployment's own
    plan to each."""
    del required
    names = [operator.name for operator in deployment.query.operators]
    now = {name: Counter(map(str, deployment.plan.locations(name))) for name in names}

    def count(plan: ExecutionPlan) -> int:
        then = {name: Counter(map(str, plan.locations(name))) for name in names}
        return sum(max((now[name] - then[name]).total(), (then[name] - now[name]).total()) for name in names)

    return np.array([float(count(plan)) for plan in plans])


def _sent_between(job: PlacementCoefficients, plan: ExecutionPlan) -> list[np.ndarray]:
    """[K, R] for each stream: share of its records that each subtask sends to each, with the subtasks of this plan."""
    query, parts = job.deployment.query, dict[str, np.ndarray]()
    row = {stream: s for s, stream in enumerate(query.streams_by_name)}
    sent = [np.zeros(0)] * len(row)
    for operator in query.topological:
        parallelism = plan.parallelism(operator.name)
        taken_r = read_shares(operator, parallelism) * operator.is_source
        for stream in query.inputs(operator.name):
            shares, values = query.partitioning(stream).shares, operator.values(parallelism)
            start_r = parts[stream.producer]
            share_rr = np.array([shares(Ends(k, parallelism, values, (), len(start_r))) for k in range(len(start_r))])
            sent[row[stream]] = start_r[:, None] * share_rr
            taken_r += job.streams.rate_per_s[row[stream]] * sent[row[stream]].sum(axis=0)
        parts[operator.name] = taken_r / max(taken_r.sum(), 1e-300)
    return sent


def links_crossed(cluster: Cluster) -> np.ndarray:
    """[H, H] number of links from each host to each other; 1 in a cluster without links, 0 from a host to itself."""
    names = [host.name for host in cluster.hosts]
    if not cluster.links:
        return 1 - np.eye(len(names), dtype=int)
    routes = cluster.routes
    return np.array([[len(routes.between(a, b)) if routes.connected(a, b) else 0 for b in names] for a in names])


PRICE = "price"
OBJECTIVES: Mapping[str, Objective] = {
    **{name: Objective(better=TABLE[name].better) for name in REGRESSION_METRICS},
    **dict.fromkeys(FURTHER, Objective(better="min")),
    PRICE: Objective(better="min", of=prices),
    "traffic_bytes_per_s": Objective(better="min", of=traffic),
    "subtasks_changed": Objective(better="min", of=changed),
}
"""Objectives by name. Of plans that are equal in one that follows from the plan, predictions say which has the lower
processing latency, which is then better; a search by runs may know more (`scenarios.planning.searching.Goal`)."""
