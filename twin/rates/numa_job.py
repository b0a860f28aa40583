"""What all plans of a job have in common for `twin.rates.numa_rates`: rates, times, sizes, distances, capacities.

Letters at the end of a name are its axes: o operators in data-flow order, s streams by the names of their ends, l
sockets of all hosts in a row (i of the producer, j of the consumer), h hosts.
"""

from __future__ import annotations

from typing import Literal

import numpy as np

from twin.deployment import Deployment
from twin.errors import BadInput
from twin.plan import ExecutionPlan, Location
from twin.rates.layout import Job
from twin.rates.load import offered_flow

GIGA, MEGA = 1e9, 1e6

Fetch = Literal["relative", "never", "always"]
"""What a tuple from another socket costs: by distance; nothing; or always the most, even from the same socket."""


class NumaJob:
    """Times are in reference-core seconds, rates those of the offered load.

    fetch: see `Fetch`; other than "relative" it is BriskStream's RLAS_fix(U) or RLAS_fix(L). Raises BadInput if a
    stream does not deal its tuples evenly, or an operator costs nothing.
    """

    def __init__(self, deployment: Deployment, fetch: Fetch = "relative") -> None:
        query, engine = deployment.query, deployment.engine
        for stream in query.streams:
            if not query.partitioning(stream).even:
                raise BadInput(
                    f"stream {stream.producer} -> {stream.consumer} is {query.partitioning(stream)}: sockets are "
                    "weighed for streams that are dealt evenly; use rebalance or hash"
                )
        job = Job(deployment)
        flow = offered_flow(job)
        self.deployment = deployment
        self.operators = job.names
        self.producer_s, self.consumer_s = job.producer_s, job.consumer_s
        self.inputs, self.sources, self.sinks = job.inputs, job.sources, job.sinks
        self.in_o, out_o, fires_o, window_o = (
            np.array([float(getattr(flow[name], each)[0]) for name in job.names])
            for each in ("in_per_s", "out_per_s", "fires_per_s", "window_tuples")
        )
        known_o = np.maximum(self.in_o, 1e-300)
        evaluated_o = fires_o * window_o * job.scan_o + out_o * job.result_o
        rates = dict(zip(job.names, out_o.tolist(), strict=True))
        service_o = np.array([engine.service_s(query, operator, rates) for operator in job.operators])
        self.time_o = service_o + evaluated_o / known_o
        """Te."""
        self.gain_o = out_o / known_o
        """Results for an input tuple."""
        self.rate_s = out_o[self.producer_s]
        self.share_s = self.rate_s / known_o[self.consumer_s]
        """A stream's tuples among the input tuples of its consumer."""
        self.sent_s = self.rate_s / known_o[self.producer_s]
        """Tuples of a stream for each input tuple of its producer."""
        self.bytes_s = job.bytes_s
        self.memory_o = np.array([engine.memory_bytes(query, operator, rates) for operator in job.operators])
        self.results_per_s = float(self.in_o[self.sinks].sum())
        """Into all sinks."""
        for name, time_s in zip(self.operators, self.time_o, strict=True):
            if time_s <= 0.0:
                raise BadInput(
                    f"operator {name!r} costs nothing, so no number of replicas is too few; "
                    "give it a service_time_s above 0"
                )
        self._sockets(job)
        self._distances(fetch)

    def _sockets(self, job: Job) -> None:
        hosts = self.deployment.cluster.hosts
        self.hosts = tuple(host.name for host in hosts)
        self.locations = tuple(Location(host, socket) for host, socket in job.column)
        self.host_l = job.host_l
        places = [(hosts[h], each.socket) for h, each in zip(self.host_l, self.locations, strict=True)]
        self.capacity_l = job.capacity_l
        speed_l = np.array([host.core_speed(socket) for host, socket in places])
        self.speed_l = np.minimum(speed_l, self.capacity_l)
        """Reference cores that one replica can use."""
        self.cores_l = np.maximum(1, np.round(self.capacity_l / speed_l).astype(int))
        given = [host.sockets[socket].bandwidth_gbps if host.sockets else None for host, socket in places]
        self.memory_l = np.array([np.inf if each is None else each * GIGA for each in given])
        self.card_h = np.array([host.bandwidth_mbps * MEGA / 8 for host in hosts])
        self.apart_ij = self.host_l[:, None] != self.host_l[None, :]
        self.between_hosts = bool(self.apart_ij.any())

    def _distances(self, fetch: Fetch) -> None:
        engine, hosts = self.deployment.engine, self.deployment.cluster.hosts
        line_ij = np.zeros(self.apart_ij.shape)
        self.channel_ij = np.full(self.apart_ij.shape, np.inf)
        """Bytes a second from the memory of one socket to another of the same host."""
        for i, start in enumerate(self.locations):
            for j, end in enumerate(self.locations):
                host = hosts[self.host_l[i]]
                if i == j or self.apart_ij[i, j] or host.numa is None:
                    continue
                line_ij[i, j] = host.socket_latency_s(start.socket, end.socket) * host.core_speed(end.socket)
                if host.numa.bandwidth_gbps is not None:
                    self.channel_ij[i, j] = host.numa.bandwidth_gbps[start.socket][end.socket] * GIGA
        self.has_channels = bool(np.isfinite(self.channel_ij).any())
        lines_s = np.array([engine.lines_of(size) for size in self.bytes_s])
        away_sij = self.bytes_s[:, None, None] * self.apart_ij * 1e-9
        self.fetch_sij = lines_s[:, None, None] * line_ij + engine.deserialise_ns_per_byte * away_sij
        """What a tuple costs its consumer, by the sockets of both."""
        self.send_sij = engine.serialise_ns_per_byte * away_sij
        """The same of its producer."""
        if fetch == "never":
            self.fetch_sij, self.send_sij = np.zeros_like(self.fetch_sij), np.zeros_like(self.send_sij)
        elif fetch == "always":
            for each_sij in (self.fetch_sij, self.send_sij):
                each_sij[:] = each_sij.max(axis=(1, 2), keepdims=True)

    def counts_of(self, plan: ExecutionPlan) -> np.ndarray:
        """Replicas of a plan [o, l]. Raises KeyError if it does not fit the deployment."""
        column = {location: index for index, location in enumerate(self.locations)}
        counts_ol = np.zeros((len(self.operators), len(self.locations)), np.int64)
        for row, name in enumerate(self.operators):
            for location in plan.locations(name):
                counts_ol[row, column[location]] += 1
        return counts_ol

    def plan_of(self, counts_ol: np.ndarray) -> ExecutionPlan:
        """The job's plan with these replicas; those of an operator in the order of the sockets."""
        names = [str(location) for location in self.locations]
        rows = dict(zip(self.operators, counts_ol.astype(int), strict=True))
        listed = [operator.name for operator in self.deployment.query.operators]
        places = {name: tuple(np.repeat(names, rows[name]).tolist()) for name in listed}
        return self.deployment.plan.with_placement(places)
