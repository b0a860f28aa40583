"""A job as arrays: what the loads and ages of all of its plans are made of.

Letters at the end of a name are its axes, as in `twin.rates.layout`: o components, s edges, l sockets, h hosts.
"""

from __future__ import annotations

from functools import cached_property
from itertools import combinations

import numpy as np

from twin.flow import Channels
from twin.job import Job
from twin.keys import group_count
from twin.kinds.selective import Selective
from twin.plan import Location
from twin.query import Windowed
from twin.rates.disorder import disorder_of
from twin.rates.inputs import Inputs
from twin.rates.keys import spreads
from twin.rates.sockets import Sockets

MEGA = 1e6
MANY = 10**9
"""Replicas, more than any plan has."""


class JobArrays:
    """What all plans of a job have in common: its components, edges, sockets and hosts as arrays."""

    def __init__(self, job: Job, horizon_s: float = np.inf) -> None:
        job = job.apart
        hosts, components, edges = job.deployment.cluster.hosts, job.components, job.edges
        self.deployment = job.deployment
        self.operators = tuple(each.operator for each in components)
        self.names = tuple(each.name for each in components)
        self.row = job.number
        self.streams = tuple(each.stream for each in edges)
        self.producer_s = [each.producer for each in edges]
        self.consumer_s = [each.consumer for each in edges]
        self.share_s = np.array([each.share for each in edges])
        self.inputs = [list(each.inputs) for each in components]
        self.outputs = [list(each.outputs) for each in components]
        self.sources = [job.number[each.name] for each in job.sources]
        self.sinks = [job.number[each.name] for each in job.sinks]
        self.broadcast_s = [each.how.copies for each in edges]
        self.forward_s = [each.how.paired for each in edges]
        self.fed_o = np.array([self._most_fed(job, o) for o in range(len(components))])
        """Most replicas that get any tuples: of keys with few values, as many as values."""
        self.whole_s = [each.how.whole for each in edges]
        self.in_turn_s = [each.how.in_turn and not each.how.paired for each in edges]
        self.drops_s = [not each.blocks for each in edges]
        self.gain_o = np.array([each.gain if isinstance(each, Selective) else 1.0 for each in self.operators])
        self.multiplies = bool((self.gain_o > 1.0).any())
        self.shared_o = [job.one_queue(name) for name in self.names]
        self.to_one_s = [
            self.broadcast_s[s] or self.forward_s[s] or self.whole_s[s] or self.shared_o[consumer]
            for s, consumer in enumerate(self.consumer_s)
        ]
        """Whether all that a producer replica sends comes to each place that gets any of it."""
        self.calling = {o: calls for o, each in enumerate(self.operators) if (calls := each.calls) is not None}
        self.passed = [self._passed(o) for o in range(len(self.operators))]
        self.akin_o = [self._akin(streams) for streams in self.inputs]
        """Whether some of its streams stem from the same tuples."""
        self.copied_o = [any(self.broadcast_s[s] for s in streams) for streams in self.inputs]
        """Whether each of its replicas gets some tuples that all get."""
        self.in_order_o = [o in self.calling and self.calling[o].ordered for o in range(len(self.operators))]
        """Whether it keeps answers back for those before them."""
        self.windowed = [o for o, operator in enumerate(self.operators) if isinstance(operator, Windowed)]
        self.slides = {
            o: float(each.window.slide)
            for o, each in enumerate(self.operators)
            if isinstance(each, Windowed) and each.window.policy == "count"
        }
        """Of count windows, by operator."""
        self.spreads = spreads(job.deployment, self.names)
        self.replicas_count = sorted(
            {*self.slides, *(o for s, o in enumerate(self.consumer_s) if self.broadcast_s[s])}
            | {o for o, name in enumerate(self.names) if name in self.spreads and self.spreads[name].places > 1.0}
        )
        """Operators through which more or less flows where replicas are several: count windows of their own, copies."""
        self.piece_o = [
            max((self.operators[self.producer_s[s]].piece_s for s in s_k), default=0.0) for s_k in self.inputs
        ]
        self.disorder_o = [disorder_of(job.deployment, name) for name in self.names]
        self.by_time_o = [isinstance(each, Windowed) and each.window.policy == "time" for each in self.operators]
        self.bytes_o = np.array([each.bytes_out for each in components])
        self.held_bytes = Inputs.of(job, lambda edge: edge.bytes_each, lambda component: component.bytes_in)
        self.service = Inputs.of(job, lambda edge: edge.service_s, lambda component: component.service_s)
        self.scv_o = np.array([each.service_scv for each in components])
        self.scan_o = np.array([each.scan_s for each in components])
        self.result_o = np.array([each.result_s for each in components])
        services_s = {each.name: tuple(edge.service_s for edge in job.inputs(each.name)) for each in components}
        services_s |= {each.name: (each.service_s,) for each in job.sources}
        self.channels = Channels(job.least_room, services_s, horizon_s=horizon_s, spreads=self.spreads)
        self.bytes_s = self.bytes_o[self.producer_s]
        flushes = job.engine.flush_s is not None
        self.batch_s = [job.engine.batch_of(each.bytes_each) if flushes and each.blocks else 1 for each in edges]
        self.turns_o = [
            bool(streams) and all(self.in_turn_s[s] and self.batch_s[s] == 1 for s in streams)
            for streams in self.inputs
        ]
        """Whether its replicas get tuples in turn, one by one."""
        self.buffer_s = np.array([float(job.engine.batch_of(each.bytes_each)) for each in edges])
        self.arrival_scv_o = np.ones(len(components))
        for o in self.sources:
            self.arrival_scv_o[o] = float(job.deployment.workload.arrivals[self.names[o]].law != "constant")
        """Of the gaps between what arrives; all but constant laws count as Poisson's."""
        self.offered_per_s = {name: law.mean_rate_per_s for name, law in job.deployment.workload.arrivals.items()}
        places = [(number, socket) for number, host in enumerate(hosts) for socket in range(host.socket_count)]
        self.column = {Location(hosts[number].name, socket): index for index, (number, socket) in enumerate(places)}
        self.host_l = np.array([number for number, _ in places])
        self.capacity_l = np.array([hosts[number].socket_capacity(socket) for number, socket in places])
        self.capacity_h = np.bincount(self.host_l, self.capacity_l)
        self.bandwidth_h = np.array([host.bandwidth_mbps for host in hosts]) * MEGA / 8  # bytes a second
        self.latency_h = np.array([host.latency_ms for host in hosts]) * 1e-3
        self.ram_h = np.array([host.ram_mb for host in hosts])
        self.has_sockets = any(host.sockets for host in hosts)
        self._job = job

    def _most_fed(self, job: Job, o: int) -> float:
        ways = [job.edges[s].how for s in self.inputs[o]]
        if not ways or not all(way.by_key and way.keeps_keys for way in ways):
            return np.inf
        name, operator = self.names[o], self.operators[o]
        return np.inf if group_count(job.deployment.query, name, MANY) is not None else float(operator.values(MANY))

    def _akin(self, streams: list[int]) -> bool:
        query = self.deployment.query
        names = [self.names[self.producer_s[s]] for s in streams]
        before = [{name, *query.ancestors(name)} for name in names]
        return any(one & other for one, other in combinations(before, 2))

    def _passed(self, o: int) -> np.ndarray | None:
        """By input of an operator, whether its tuples leave in results; None: those of all do. [K]"""
        parts = np.array([self.operators[o].passed_from(self.streams[s].producer) for s in self.inputs[o]])
        return None if (parts == 1.0).all() else parts

    def sent_sn(self, out_on: np.ndarray) -> np.ndarray:
        """What goes on every stream, of what operators pass on: the copies of a broadcast count once. [S, N]"""
        return np.asarray(out_on[self.producer_s] * self.share_s[:, None])

    @cached_property
    def sockets(self) -> Sockets:
        """Distances, bandwidths and clocks of sockets."""
        return Sockets.of(self._job)
