"""Values of a job that all its plans share in `twin.rates.numa_rates`: rates, times, sizes, distances, capacities.

Letters at the end of a name are its axes: o operators in data-flow order, s streams by the names of their ends, l
sockets of all hosts in a row (i of the producer, j of the consumer), h hosts.
"""

from __future__ import annotations

from typing import Literal

import numpy as np

from twin.deployment import Deployment
from twin.errors import BadInput
from twin.job import Job, compile
from twin.plan import ExecutionPlan
from twin.rates.arrays import JobArrays
from twin.rates.load import flow_at, offered_flow, scanned_on
from twin.rates.placements import CountedPlans

Fetch = Literal["relative", "never", "always"]
"""Cost of a tuple from another socket: by distance; nothing; or always the most, even from the same socket."""
LESS = 0.4321
"""Factor on the offered rates at which flows are compared, to see whether they are linear."""


class NumaJob:
    """Job for the model of sockets. Times are in reference-core seconds, rates those of the offered load.

    fetch: see `Fetch`; other than "relative" it is BriskStream's RLAS_fix(U) or RLAS_fix(L). as_if_even: whether
    streams that are not dealt evenly count as if they were, for callers that judge plans by something else in the end.
    Raises BadInput if there is one otherwise, or an operator costs nothing or waits for a system outside.
    """

    def __init__(self, what: Deployment | Job, fetch: Fetch = "relative", *, as_if_even: bool = False) -> None:
        job = compile(what).apart
        self.uneven = tuple(f"{' -> '.join(edge.ends)} ({edge.how})" for edge in job.edges if not edge.how.even)
        """Streams that are not dealt evenly, in words."""
        if self.uneven and not as_if_even:
            raise BadInput(
                f"the model of sockets takes streams to be spread evenly, and {self.uneven[0]} is not; "
                "use rebalance or hash, or the optimizer rlas"
            )
        waiting = next((each.name for each in job.query.operators if each.calls is not None), None)
        parted = next((each.name for each in job.query.operators if each.parts is not None), None)
        if job.query.one_sided:
            raise BadInput(
                f"the model of sockets takes operators to treat all inputs alike, and {job.query.one_sided[0]!r} "
                "passes on tuples of some inputs only; use local-search"
            )
        if parted is not None:
            raise BadInput(
                f"the model of sockets takes any number of replicas to read a source evenly, and {parted!r} has "
                "partitions; make it a source without"
            )
        if waiting is not None:
            raise BadInput(
                f"the model of sockets does not know operators that wait for a system outside, as {waiting!r} does; "
                "use local-search, or another optimizer of one host an operator"
            )
        arrays = JobArrays(job)
        flow = offered_flow(arrays)
        self.deployment = job.deployment
        self.operators = arrays.names
        self.producer_s, self.consumer_s = arrays.producer_s, arrays.consumer_s
        self.inputs, self.sources, self.sinks = arrays.inputs, arrays.sources, arrays.sinks
        self.in_o, out_o, fires_o, window_o = (
            np.array([float(getattr(flow[name], each)[0]) for name in arrays.names])
            for each in ("in_per_s", "out_per_s", "fires_per_s", "window_tuples")
        )
        known_o = np.maximum(self.in_o, 1e-300)
        rates = self.in_o[:, None], arrays.sent_sn(out_o[:, None])
        evaluated_o = scanned_on(arrays, *(each_o[:, None] for each_o in (fires_o, window_o, out_o)))[:, 0]
        self.time_o = arrays.costs.service.mean(*rates)[:, 0] + evaluated_o / known_o
        """Execution of an input tuple, Te."""
        self.gain_o = out_o / known_o
        """Results per input tuple."""
        self.rate_s = out_o[self.producer_s] * arrays.share_s
        self.share_s = self.rate_s / known_o[self.consumer_s]
        """Share of a stream's tuples among the input tuples of its consumer."""
        self.sent_s = self.rate_s / known_o[self.producer_s]
        """Tuples of a stream for each input tuple of its producer."""
        self.bytes_s = arrays.costs.bytes_s
        self.memory_o = arrays.costs.memory.mean(*rates)[:, 0]
        self.results_per_s = float(self.in_o[self.sinks].sum())
        """Tuples a second into all sinks."""
        for name, time_s in zip(self.operators, self.time_o, strict=True):
            if time_s <= 0.0:
                raise BadInput(
                    f"operator {name!r} costs nothing, so no number of replicas is too few; "
                    "give it a service_time_s above 0"
                )
        self._by_source(arrays)
        self._sockets(arrays)
        self._distances(arrays, fetch)

    def _by_source(self, arrays: JobArrays) -> None:
        """Computes the flow and the work of each source's tuples, if the others send nothing."""
        offered_a = np.array([arrays.offered_per_s[self.operators[o]] for o in self.sources])
        in_oa, out_oa = self._flowing(arrays, np.diag(offered_a))
        less = self._flowing(arrays, (LESS * offered_a)[:, None])[0][:, 0]
        self.additive = bool(np.allclose([LESS * in_oa.sum(axis=1), LESS * self.in_o], less, rtol=1e-9, atol=0.0))
        """Whether each source adds what it would send alone, as windows do not."""
        self.offered_a, self.results_a = offered_a, in_oa[self.sinks].sum(axis=0)
        self.rate_sa = arrays.sent_sn(out_oa)
        self.work_oa = arrays.costs.service.total(in_oa, self.rate_sa)
        """Reference cores for the tuples of each source, with nothing fetched."""
        self.memory_oa = arrays.costs.memory.total(in_oa, self.rate_sa)

    def _flowing(self, arrays: JobArrays, rates_an: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Tuples a second into and out of operators, at rates of the sources. [o, n] each"""
        names = [self.operators[o] for o in self.sources]
        flow = flow_at(arrays, dict(zip(names, rates_an, strict=True)))
        shape = rates_an.shape[1:]
        coming = np.stack([np.broadcast_to(flow[name].in_per_s, shape) for name in self.operators])
        return coming, np.stack([np.broadcast_to(flow[name].out_per_s, shape) for name in self.operators])

    def _sockets(self, arrays: JobArrays) -> None:
        self.hosts = tuple(host.name for host in self.deployment.cluster.hosts)
        self.locations = tuple(arrays.places.column)
        self.host_l = arrays.places.host_l
        self.capacity_l = arrays.places.capacity_l
        self.speed_l = arrays.places.core_l
        """Reference cores that one replica can use on each socket."""
        self.cores_l = np.maximum(1, np.round(self.capacity_l / arrays.places.speed_l).astype(int))
        own_l = np.arange(len(self.locations))
        self.memory_l = arrays.places.limit_lk[own_l, own_l - arrays.places.first_l]
        """Bandwidth of each socket's own memory, in bytes a second."""
        self.card_h = arrays.places.bandwidth_h
        self.apart_ij = self.host_l[:, None] != self.host_l[None, :]
        self.between_hosts = bool(self.apart_ij.any())

    def _distances(self, arrays: JobArrays, fetch: Fetch) -> None:
        engine, places = self.deployment.engine, arrays.places
        j, i = np.nonzero(~self.apart_ij & ~np.eye(len(self.locations), dtype=bool))
        line_ij = np.zeros(self.apart_ij.shape)
        line_ij[i, j] = places.line_lk[j, i - places.first_l[j]]
        self.channel_ij = np.full(self.apart_ij.shape, np.inf)
        """Bytes a second from the memory of one socket to another of the same host."""
        self.channel_ij[i, j] = places.limit_lk[j, i - places.first_l[j]]
        self.has_channels = bool(np.isfinite(self.channel_ij).any())
        away_sij = self.bytes_s[:, None, None] * self.apart_ij * 1e-9
        self.fetch_sij = arrays.costs.lines_s[:, None, None] * line_ij + engine.deserialise_ns_per_byte * away_sij
        """Time that a tuple costs its consumer, by the sockets of producer and consumer."""
        self.send_sij = engine.serialise_ns_per_byte * away_sij
        """Time that a tuple costs its producer, by the sockets of producer and consumer."""
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
        """Plan of the job with these replicas; those of an operator are in the order of the sockets."""
        return CountedPlans(self.deployment, counts_ol[None])[0]
