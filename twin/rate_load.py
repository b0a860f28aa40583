"""How loaded every operator, socket, network card and channel is under N plans at once, at given source rates.

All arrays have one entry a plan; letters at the end of a name are its axes (n plans, o operators, l sockets, h hosts).
Demands are in reference cores (CPU seconds a second); a pressure above 1 means that the operator cannot keep up. Work
is spread evenly over an operator's replicas, but for the pressure on the busiest where keys are skewed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from twin.deployment import Deployment
from twin.keys import key_groups_of
from twin.plan import ExecutionPlan
from twin.query import Aggregate, Join, Stream
from twin.rate_keys import crowding
from twin.rate_links import LinkLayout
from twin.rates import Flow, flows

MEGA = 1e6
FULL = 0.995
"""Utilisation from which a socket counts as full."""


class Layout:
    """Where the replicas of each operator sit, as arrays over N plans, H hosts and L sockets (all hosts' in a row)."""

    def __init__(self, deployment: Deployment, plans: Sequence[ExecutionPlan]) -> None:
        hosts = deployment.cluster.hosts
        self.deployment = deployment
        self.size = len(plans)
        sockets = [(number, socket) for number, host in enumerate(hosts) for socket in range(host.socket_count)]
        self.capacity_l = np.array([hosts[number].socket_capacity(socket) for number, socket in sockets])
        self.host_lh = np.array([[float(number == each) for each in range(len(hosts))] for number, _ in sockets])
        self.bandwidth_h = np.array([host.bandwidth_mbps for host in hosts]) * MEGA / 8  # bytes a second
        self.latency_h = np.array([host.latency_ms for host in hosts]) * 1e-3
        column = {(hosts[number].name, socket): index for index, (number, socket) in enumerate(sockets)}
        self.count_nl: dict[str, np.ndarray] = {}
        for operator in deployment.query.operators:
            self.count_nl[operator.name] = _counts(operator.name, plans, column)
        self.replicas = {name: count.sum(axis=1) for name, count in self.count_nl.items()}
        self._leaving_nh: dict[tuple[str, str], np.ndarray] = {}
        self.host_share_nh = {
            name: count @ self.host_lh / self.replicas[name][:, None] for name, count in self.count_nl.items()
        }
        self.links = LinkLayout(self) if deployment.cluster.links else None

        self.crowding = {name: crowding(deployment, name, plans) for name in self.replicas}

    def select(self, rows: np.ndarray) -> Layout:
        """The same for some of the plans (a boolean mask [N])."""
        part = object.__new__(Layout)
        part.__dict__.update(self.__dict__)
        part.size = int(rows.sum())
        part._leaving_nh = {}
        for field in ("count_nl", "replicas", "host_share_nh", "crowding"):
            part.__dict__[field] = {name: array[rows] for name, array in getattr(self, field).items()}
        return part

    def copies(self, stream: Stream) -> np.ndarray:
        """How many consumer replicas get each tuple of a stream: 1, or all of them for a broadcast. [N]"""
        if self.deployment.query.partitioning(stream) == "broadcast":
            return self.replicas[stream.consumer]
        return np.ones(self.size)

    def leaving_nh(self, stream: Stream) -> np.ndarray:
        """Share of a stream's tuples that leave host h over its network card. [N, H]"""
        ends = (stream.producer, stream.consumer)
        if ends not in self._leaving_nh:
            self._leaving_nh[ends] = self.host_share_nh[ends[0]] * (1.0 - self.host_share_nh[ends[1]])
        return self._leaving_nh[ends]

    def latency_s(self, stream: Stream) -> np.ndarray:
        """Mean network latency of a stream's tuples, 0 for those that stay on their host. [N]"""
        if self.links is not None:
            return self.links.latency_s(self, stream)
        return np.asarray((self.leaving_nh(stream) * self.latency_h).sum(axis=1))


def _counts(operator: str, plans: Sequence[ExecutionPlan], column: Mapping[tuple[str, int], int]) -> np.ndarray:
    known: dict[tuple[str, ...], np.ndarray] = {}
    rows = []
    for plan in plans:
        replicas = plan.placement[operator]
        if replicas not in known:
            count = np.zeros(len(column))
            for location in plan.locations(operator):
                count[column[location.host, location.socket]] += 1.0
            known[replicas] = count
        rows.append(known[replicas])
    return np.array(rows).reshape(len(plans), len(column))


@dataclass(frozen=True, slots=True)
class Load:
    """The state of N plans at some source rates; [N] everywhere, by operator (or by stream).

    busy_cores: demand of one replica. speed: cores that a replica can get beside the others on its socket.
    service_s: CPU time of one input tuple, window evaluations apart. pressure: the highest utilisation among what
    the operator depends on. nic: utilisation of the network cards and links a stream crosses.
    By host, [N, H]: cpu_nh, nic_nh: utilisation of its cores and its network card.
    """

    flow: Mapping[str, Flow]
    busy_cores: Mapping[str, np.ndarray]
    speed: Mapping[str, np.ndarray]
    service_s: Mapping[str, np.ndarray]
    pressure: Mapping[str, np.ndarray]
    nic: Mapping[Stream, np.ndarray]
    cpu_nh: np.ndarray
    nic_nh: np.ndarray


def load(layout: Layout, rates: Mapping[str, np.ndarray], slowdown: Mapping[str, np.ndarray]) -> Load:
    """Follows the rates of the sources ([N] each) through the query and adds up what they ask of every resource.

    slowdown: factor on an operator's CPU work by memory pressure, [N].
    """
    query = layout.deployment.query
    flow = flows(query, rates, bursts=True)
    service = {name: _service_s(layout, name, flow[name]) * slowdown[name] for name in flow}
    busy: dict[str, np.ndarray] = {}
    for name, each in flow.items():
        work = each.in_per_s * service[name] + _evaluation_cores(layout, name, each) * slowdown[name]
        busy[name] = work / layout.replicas[name]
    shared, speed = _share_sockets(layout, busy)
    nic, nic_nh = _nics(layout, flow)
    pressure = {}
    for name in flow:
        outs = [np.maximum(nic[stream], _channel(layout, flow, stream)) for stream in query.outputs(name)]
        pressure[name] = np.max([shared[name], *outs], axis=0)
    demand_nl = np.sum([busy[name][:, None] * layout.count_nl[name] for name in flow], axis=0)
    cpu_nh = (demand_nl @ layout.host_lh) / (layout.capacity_l @ layout.host_lh)
    return Load(flow, busy, speed, service, pressure, nic, cpu_nh, nic_nh)


def _service_s(layout: Layout, name: str, flow: Flow) -> np.ndarray:
    """CPU seconds an input tuple, with what (de)serialising remote tuples adds."""
    query, engine = layout.deployment.query, layout.deployment.engine
    per_tuple = np.full(layout.size, engine.service_s(query, query.operator(name)))
    taken = np.maximum(flow.in_per_s, 1e-12)
    for stream, rate in zip(query.inputs(name), flow.inputs_per_s, strict=False):
        remote = layout.leaving_nh(stream).sum(axis=1) * rate / taken
        per_tuple += remote * _bytes(layout, stream) * engine.deserialise_ns_per_byte * 1e-9
    for stream in query.outputs(name):
        remote = layout.leaving_nh(stream).sum(axis=1) * layout.copies(stream) * flow.out_per_s / taken
        per_tuple += remote * _bytes(layout, stream) * engine.serialise_ns_per_byte * 1e-9
    return per_tuple


def _evaluation_cores(layout: Layout, name: str, flow: Flow) -> np.ndarray:
    operator, engine = layout.deployment.query.operator(name), layout.deployment.engine
    if not isinstance(operator, Aggregate | Join):
        return np.zeros(layout.size)
    scanned = flow.fires_per_s * flow.window_tuples * engine.scan_s(operator)
    return scanned + flow.out_per_s * engine.result_s(operator)


def _share_sockets(
    layout: Layout, busy: Mapping[str, np.ndarray]
) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
    """By operator: pressure of the CPU, and the cores a replica can get; both of its worst socket.

    Sockets are shared max-min fairly, at most one core a task: on a full socket only the tasks above the fair level
    feel it, and what they feel is the demand on the whole socket. A task can get that level there; on other sockets,
    what the demands of its neighbours leave (a good approximation of processor sharing for the wait).
    """
    names = list(busy)
    demand_no = np.stack([busy[name] for name in names], axis=1)
    count_nol = np.stack([layout.count_nl[name] for name in names], axis=1)
    total_nl = np.einsum("no,nol->nl", demand_no, count_nol)
    level_nl = _fair_level(demand_no, count_nol, layout.capacity_l)
    pressure, speed = {}, {}
    for index, name in enumerate(names):
        own = demand_no[:, index, None]
        here = count_nol[:, index] > 0
        alone = own * layout.crowding[name][:, None] / np.minimum(1.0, layout.capacity_l)
        full = total_nl / layout.capacity_l
        felt = np.where(own >= level_nl * 0.999, full, np.minimum(full, own / level_nl))
        pressure[name] = np.where(here, np.maximum(alone, felt), 0.0).max(axis=1)
        left = np.where(full > FULL, level_nl, layout.capacity_l - (total_nl - own))
        speed[name] = np.where(here, np.clip(left, 1e-6, 1.0), np.inf).min(axis=1)
    return pressure, speed


def _fair_level(demand_no: np.ndarray, count_nol: np.ndarray, capacity_l: np.ndarray) -> np.ndarray:
    """Cores that a task gets at most, so that a full socket is just used up (water filling). [N, L]

    With demands ascending, it is the maximum over k of what k - 1 smaller ones leave, divided among the others.
    """
    order = np.argsort(demand_no, axis=1)
    demand = np.take_along_axis(demand_no, order, axis=1)[:, :, None]
    count = np.take_along_axis(count_nol, order[:, :, None], axis=1)
    below = np.cumsum(demand * count, axis=1) - demand * count
    others = np.maximum(count.sum(axis=1, keepdims=True) - np.cumsum(count, axis=1) + count, 1e-9)
    left = np.where(count > 0, (capacity_l - below) / others, 0.0)
    return np.maximum(left.max(axis=1), 1e-9)


def _bytes(layout: Layout, stream: Stream) -> float:
    query = layout.deployment.query
    return layout.deployment.engine.output_bytes(query, stream.producer)


def _nics(layout: Layout, flow: Mapping[str, Flow]) -> tuple[dict[Stream, np.ndarray], np.ndarray]:
    """By stream, the highest utilisation among the network cards and links that it crosses [N]; all cards' [N, H]."""
    streams = layout.deployment.query.streams
    leaving = {stream: layout.leaving_nh(stream) for stream in streams}
    total = np.zeros((layout.size, len(layout.bandwidth_h)))
    rates = {}
    for stream in streams:
        rates[stream] = flow[stream.producer].out_per_s * layout.copies(stream) * _bytes(layout, stream)
        total += rates[stream][:, None] * leaving[stream]
    used = total / layout.bandwidth_h
    cards = {stream: np.where(leaving[stream] > 0, used, 0.0).max(axis=1) for stream in streams}
    if layout.links is None:
        return cards, used
    links = layout.links.utilisation(layout, rates)
    return {stream: np.maximum(cards[stream], links[stream]) for stream in streams}, used


def _channel(layout: Layout, flow: Mapping[str, Flow], stream: Stream) -> np.ndarray:
    """Share of a channel's credits that tuples in flight take up: latency times rate over capacity. [N]"""
    rate = flow[stream.producer].out_per_s * layout.copies(stream) / layout.replicas[stream.consumer]
    in_flight = rate * layout.latency_s(stream)
    return in_flight / layout.deployment.engine.channel_tuples


def memory(layout: Layout, flow: Mapping[str, Flow]) -> tuple[dict[str, np.ndarray], np.ndarray, np.ndarray]:
    """By operator, the slow-down by garbage collection [N]; used share of RAM [N, H]; whether a host runs out [N].

    A host holds the engine, the windows' contents and the state of key groups.
    """
    query, engine = layout.deployment.query, layout.deployment.engine
    used_nh = np.zeros((layout.size, len(layout.bandwidth_h)))
    in_use = np.zeros_like(used_nh, dtype=bool)
    for name, each in flow.items():
        share = layout.host_share_nh[name]
        size = engine.input_bytes(query, name) * engine.memory.object_overhead / MEGA
        used_nh += (each.window_tuples * size)[:, None] * share
        operator = query.operator(name)
        state_bytes = (key_groups_of(operator) or 0) * getattr(operator, "state_bytes_per_group", 0.0)
        used_nh += state_bytes * engine.memory.object_overhead / MEGA * share
        in_use |= share > 0
    ram_h = np.array([host.ram_mb for host in layout.deployment.cluster.hosts])
    used_share = (used_nh + engine.memory.base_mb) / ram_h
    factor = np.vectorize(engine.memory.slowdown, otypes=[float])(used_share)
    slowdown = {name: np.where(layout.host_share_nh[name] > 0, factor, 1.0).max(axis=1) for name in flow}
    used_share = np.where(in_use, used_share, 0.0)
    return slowdown, used_share, np.asarray((used_share >= engine.memory.crash).any(axis=1))
