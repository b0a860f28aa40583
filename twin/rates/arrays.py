"""A job as arrays: what the loads and ages of all of its plans are made of.

Letters at the end of a name are its axes, as in `twin.rates.layout`: o components, s edges, l sockets, h hosts; k is a
socket of the host in question, counted from 0.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from itertools import combinations
from typing import NamedTuple, Self

import numpy as np

from twin.deployment import Deployment
from twin.flow import Channels
from twin.job import Component, Edge, Job
from twin.keys import group_count
from twin.kinds.ages import Disorder
from twin.kinds.selective import Selective
from twin.plan import Location
from twin.query import AnyOperator, Windowed
from twin.rates.skew import spreads


class Inputs(NamedTuple):
    """A number of every input tuple: seconds, bytes.

    mean_o: by operator, if each of its streams brings as many. beyond_s: what a tuple of a stream has beyond that of
    its consumer, 0 of an only input. ends: (stream, consumer) where it is not.
    """

    mean_o: np.ndarray
    beyond_s: np.ndarray
    ends: tuple[tuple[int, int], ...]

    @classmethod
    def of(cls, job: Job, each: Callable[[Edge], float], mean: Callable[[Component], float]) -> Self:
        """each: of a tuple of a stream. mean: of one that comes if all streams bring as many."""
        mean_o = np.array([mean(component) for component in job.components])
        beyond_s = np.array([each(edge) - mean_o[edge.consumer] for edge in job.edges])
        ends = ((s, job.edges[s].consumer) for s in np.flatnonzero(beyond_s).tolist())
        return cls(mean_o, beyond_s, tuple(ends))

    def total(self, in_on: np.ndarray, sent_sn: np.ndarray) -> np.ndarray:
        """Of all that comes in a second, at these rates of input and of streams, all copies counted. [O, N]"""
        total_on = np.asarray(in_on * self.mean_o[:, None])
        for s, consumer in self.ends:
            total_on[consumer] += sent_sn[s] * self.beyond_s[s]
        return total_on

    def mean(self, in_on: np.ndarray, sent_sn: np.ndarray) -> np.ndarray:
        """Of what comes, or would; see `total`. [O, N]"""
        mean_on = np.broadcast_to(self.mean_o[:, None], in_on.shape).copy()
        for s, consumer in self.ends:
            mean_on[consumer] += self._share(in_on, sent_sn, s, consumer) * self.beyond_s[s]
        return mean_on

    def spread(self, in_on: np.ndarray, sent_sn: np.ndarray) -> np.ndarray:
        """Variance of what comes, between streams alone. [O, N]"""
        square_on, mean_on = np.zeros(in_on.shape), np.zeros(in_on.shape)
        for s, consumer in self.ends:
            share = self._share(in_on, sent_sn, s, consumer)
            mean_on[consumer] += share * self.beyond_s[s]
            square_on[consumer] += share * self.beyond_s[s] ** 2
        return np.maximum(square_on - mean_on**2, 0.0)

    def _share(self, in_on: np.ndarray, sent_sn: np.ndarray, s: int, consumer: int) -> np.ndarray:
        return np.asarray(sent_sn[s] / np.maximum(in_on[consumer], 1e-12))


class Sockets(NamedTuple):
    """What all plans of a deployment have in common.

    speed_l: reference cores that one core is worth. first_l: the first socket of the same host. line_lk: reference-core
    seconds for a cache line from socket k of the same host. limit_lk: bytes a second that can be moved from there, on
    the diagonal those of the socket's own memory; inf where nothing is said. lines_s: cache lines a tuple of a stream.
    memory: bytes of local traffic per input tuple. limited: whether there is any limit.
    """

    speed_l: np.ndarray
    first_l: np.ndarray
    line_lk: np.ndarray
    limit_lk: np.ndarray
    lines_s: np.ndarray
    memory: Inputs
    limited: bool

    @classmethod
    def of(cls, job: Job) -> Self:
        """Those of all hosts."""
        hosts = job.deployment.cluster.hosts
        sockets = [(host, number) for host in hosts for number in range(host.socket_count)]
        most = max(host.socket_count for host in hosts)
        line_lk, limit_lk = np.zeros((len(sockets), most)), np.full((len(sockets), most), np.inf)
        for row, (host, own) in enumerate(sockets):
            speed, gbps = host.core_speed(own), host.numa.bandwidth_gbps if host.numa else None
            for other in range(host.socket_count):
                line_lk[row, other] = host.socket_latency_s(other, own) * speed
                if gbps is not None:
                    limit_lk[row, other] = gbps[other][own] * GIGA
            local_gbps = host.sockets[own].bandwidth_gbps if host.sockets else None
            limit_lk[row, own] = np.inf if local_gbps is None else local_gbps * GIGA
        speed_l = np.array([host.core_speed(own) for host, own in sockets])
        memory = Inputs.of(job, lambda edge: edge.memory_bytes, lambda component: component.memory_bytes)
        limited = bool(np.isfinite(limit_lk).any())
        lines_s = np.array([job.engine.lines_of(each.bytes_each) for each in job.edges])
        first_l = np.array([row - own for row, (_, own) in enumerate(sockets)])
        return cls(speed_l, first_l, line_lk, limit_lk, lines_s, memory, limited)

    @property
    def alike(self) -> bool:
        """Whether all sockets are alike in all of that, and free."""
        return not self.limited and not self.line_lk.any() and bool((self.speed_l == 1.0).all())


def disorder_of(deployment: Deployment, name: str) -> Disorder:
    """Of what a first window over event time waits for; what comes to any other was waited for already."""
    query = deployment.query
    upstream = [query.operator(each) for each in query.ancestors(name)]
    timed = [each for each in upstream if each.needs_event_time and each.hands_over == "windows"]
    operator = query.operator(name)
    if not operator.needs_event_time or operator.hands_over != "windows" or timed:
        return Disorder()
    sources = [each for each in upstream if each.is_source]
    waits_s = max(getattr(each, "slack_s", 0.0) + _behind_s(deployment, each) for each in sources)
    return Disorder(max(getattr(each, "disorder_s", 0.0) for each in sources), waits_s)


def _behind_s(deployment: Deployment, source: AnyOperator) -> float:
    """By how much the newest event time that a replica of a source has read is behind: with disorder D at rate r, the
    least of all t + D U since, which is above x with a chance of exp(-r x^2 / 2D)."""
    law = deployment.workload.arrivals[source.name]
    per_s = law.mean_rate_per_s / deployment.plan.replicas(source.name)
    return float(np.sqrt(np.pi * getattr(source, "disorder_s", 0.0) / 2.0 / max(per_s, 1e-12)))


MEGA, GIGA = 1e6, 1e9
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
