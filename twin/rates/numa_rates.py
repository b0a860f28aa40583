"""Throughput by relative location: BriskStream's rate-based model (Section 3)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from twin.deployment import Deployment
from twin.errors import BadInput
from twin.job import Job, compile
from twin.plan import ExecutionPlan
from twin.rates.arrays import JobArrays
from twin.rates.load import flow_at, offered_flow, scanned_on
from twin.rates.seats import CountedPlans

# the job -------------------------------------------------------------------------------------------------------------
# Values of a job that all its plans share in `twin.rates.numa_rates`: rates, times, sizes, distances, capacities.
#
# Letters at the end of a name are its axes: o operators in data-flow order, s streams by the names of their ends, l
# sockets of all hosts in a row (i of the producer, j of the consumer), h hosts.


Fetch = Literal["relative", "never", "always"]
"""Cost of a record from another socket: by distance; nothing; or always the most, even from the same socket."""
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
                "passes on records of some inputs only; use local-search"
            )
        if parted is not None:
            raise BadInput(
                f"the model of sockets takes any number of subtasks to read a source evenly, and {parted!r} has "
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
            for each in ("in_per_s", "out_per_s", "fires_per_s", "window_records")
        )
        known_o = np.maximum(self.in_o, 1e-300)
        rates = self.in_o[:, None], arrays.sent_sn(out_o[:, None])
        evaluated_o = scanned_on(arrays, *(each_o[:, None] for each_o in (fires_o, window_o, out_o)))[:, 0]
        self.time_o = arrays.costs.service.mean(*rates)[:, 0] + evaluated_o / known_o
        """Execution of an input record, Te."""
        self.gain_o = out_o / known_o
        """Results per input record."""
        self.rate_s = out_o[self.producer_s] * arrays.share_s
        self.share_s = self.rate_s / known_o[self.consumer_s]
        """Share of a stream's records among the input records of its consumer."""
        self.sent_s = self.rate_s / known_o[self.producer_s]
        """Records of a stream for each input record of its producer."""
        self.bytes_s = arrays.costs.bytes_s
        self.memory_o = arrays.costs.memory.mean(*rates)[:, 0]
        self.results_per_s = float(self.in_o[self.sinks].sum())
        """Records a second into all sinks."""
        for name, time_s in zip(self.operators, self.time_o, strict=True):
            if time_s <= 0.0:
                raise BadInput(
                    f"operator {name!r} costs nothing, so no number of subtasks is too few; "
                    "give it a service_time_s above 0"
                )
        self._by_source(arrays)
        self._sockets(arrays)
        self._distances(arrays, fetch)

    def _by_source(self, arrays: JobArrays) -> None:
        """Computes the flow and the work of each source's records, if the others send nothing."""
        offered_a = np.array([arrays.offered_per_s[self.operators[o]] for o in self.sources])
        in_oa, out_oa = self._flowing(arrays, np.diag(offered_a))
        less = self._flowing(arrays, (LESS * offered_a)[:, None])[0][:, 0]
        self.additive = bool(np.allclose([LESS * in_oa.sum(axis=1), LESS * self.in_o], less, rtol=1e-9, atol=0.0))
        """Whether each source adds what it would send alone, as windows do not."""
        self.offered_a, self.results_a = offered_a, in_oa[self.sinks].sum(axis=0)
        self.rate_sa = arrays.sent_sn(out_oa)
        self.work_oa = arrays.costs.service.total(in_oa, self.rate_sa)
        """Reference cores for the records of each source, with nothing fetched."""
        self.memory_oa = arrays.costs.memory.total(in_oa, self.rate_sa)

    def _flowing(self, arrays: JobArrays, rates_an: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Records a second into and out of operators, at rates of the sources. [o, n] each"""
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
        """Reference cores that one subtask can use on each socket."""
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
        """Time that a record costs its consumer, by the sockets of producer and consumer."""
        self.send_sij = engine.serialise_ns_per_byte * away_sij
        """Time that a record costs its producer, by the sockets of producer and consumer."""
        if fetch == "never":
            self.fetch_sij, self.send_sij = np.zeros_like(self.fetch_sij), np.zeros_like(self.send_sij)
        elif fetch == "always":
            for each_sij in (self.fetch_sij, self.send_sij):
                each_sij[:] = each_sij.max(axis=(1, 2), keepdims=True)

    def counts_of(self, plan: ExecutionPlan) -> np.ndarray:
        """Subtasks of a plan [o, l]. Raises KeyError if it does not fit the deployment."""
        column = {location: index for index, location in enumerate(self.locations)}
        counts_ol = np.zeros((len(self.operators), len(self.locations)), np.int64)
        for row, name in enumerate(self.operators):
            for location in plan.locations(name):
                counts_ol[row, column[location]] += 1
        return counts_ol

    def plan_of(self, counts_ol: np.ndarray) -> ExecutionPlan:
        """Plan of the job with these subtasks; those of an operator are in the order of the sockets."""
        return CountedPlans(self.deployment, counts_ol[None])[0]


# rates ---------------------------------------------------------------------------------------------------------------
# Throughput by relative location: BriskStream's rate-based model (Section 3.1), for many plans at once.
#
# An input record takes a subtask T = Te + Tf: its execution, and fetching it from where its producer put it, by the
# distance of the two sockets (equation 2). Records are dealt evenly, so an operator's slowest subtask bounds all of
# them, and full channels hold back whoever feeds it. All demands grow in proportion with the offered rates, so there
# is one largest multiple of these, the *sustained load*, at which no subtask, socket, memory, channel between sockets
# or network card has more to do than it can (equations 3 to 5). The paper lets producers run on instead, so that an
# operator takes in what it can, and calls it over-supplied if that is less than what it is sent: `free_running`.
#
# `source_shares` has a factor of each source's own: all sources grow together, record for record, until a resource is
# full; those that need it stop there, and the others go on: max-min fair, as `twin.rates.load` slows them, in
# a fraction of its time. It is for jobs whose flows are linear in the rates (`NumaJob.additive`).
#
# Plans are subtask counts [n, o, l]; axes are those of `NumaJob`, n plans, r a resource, and a a source.


@dataclass(frozen=True, slots=True)
class Sustained:
    """Sustained load of N plans, as a multiple of the offered load, and its limits. Above 1: all of it, with room to
    spare.

    load_n: the least of the limits, which are multiples of the offered load, inf where a resource is not used:
    subtask_no of the slowest subtask of an operator, cpu_nl and memory_nl of a socket, channel_nij from a socket's
    memory to another socket, card_nh of a host's network card, total_n of all cores together. work_nl: cores that a
    socket needs at the offered load. time_nol: T of an input record there, in reference-core seconds.
    """

    load_n: np.ndarray
    subtask_no: np.ndarray
    cpu_nl: np.ndarray
    memory_nl: np.ndarray
    channel_nij: np.ndarray
    card_nh: np.ndarray
    total_n: np.ndarray
    work_nl: np.ndarray
    time_nol: np.ndarray


@dataclass(frozen=True, slots=True)
class FreeRunning:
    """Estimate of the paper for N plans: every producer runs as fast as it can. Records a second.

    throughput_n: into all sinks. supplied_no: sent to an operator; taken_no: the part of that which its subtasks can
    take. Where that is less, the operator is over-supplied: a bottleneck (case 1); else it is under-supplied (case 2).
    """

    throughput_n: np.ndarray
    supplied_no: np.ndarray
    taken_no: np.ndarray


def sustained(job: NumaJob, counts_nol: np.ndarray, unplaced_no: np.ndarray | None = None) -> Sustained:
    """Sustained load of plans, or, with subtasks unplaced, a bound on that of every way to place them.

    A subtask that is not placed fetches and sends nothing, and takes the least time that any socket allows, given the
    placed ones; only the cores of all sockets together bound it. Placing a subtask never raises that bound.
    """
    subtasks_no = counts_nol.sum(axis=2)
    all_no = np.maximum(subtasks_no if unplaced_no is None else subtasks_no + unplaced_no, 1)
    share_nol = counts_nol / all_no[:, :, None]
    time_nol = times(job, share_nol)
    with np.errstate(divide="ignore"):  # what nothing is asked of is no limit: inf
        pace_nol = (all_no / job.in_o)[:, :, None] * job.speed_l / time_nol
        subtask_no = np.where(counts_nol > 0, pace_nol, np.inf).min(axis=2)
        work_nl = (job.in_o[:, None] * share_nol * time_nol).sum(axis=1)
        needed_n = work_nl.sum(axis=1)
        if unplaced_no is not None:
            needed_n = needed_n + (job.in_o * (unplaced_no / all_no) * time_nol.min(axis=2)).sum(axis=1)
            subtask_no = np.minimum(subtask_no, np.where(unplaced_no > 0, pace_nol.max(axis=2), np.inf))
        cpu_nl, total_n = job.capacity_l / work_nl, job.capacity_l.sum() / needed_n
        memory_nl = job.memory_l / np.einsum("o,nol->nl", job.in_o * job.memory_o, share_nol)
        channel_nij, card_nh = _traffic(job, share_nol)
    flat = channel_nij.reshape(len(channel_nij), -1)
    limits = (subtask_no, cpu_nl, memory_nl, flat, card_nh, total_n[:, None])
    load_n = np.min([each.min(axis=1, initial=np.inf) for each in limits], axis=0)
    return Sustained(load_n, subtask_no, cpu_nl, memory_nl, channel_nij, card_nh, total_n, work_nl, time_nol)


def times(job: NumaJob, share_nol: np.ndarray) -> np.ndarray:
    """Time T of an input record [n, o, l]: execution, fetching, sending to other hosts. share_nol: of the subtasks."""
    time_nol = np.tile(job.time_o[:, None], (len(share_nol), 1, len(job.locations)))
    for s, (producer, consumer) in enumerate(zip(job.producer_s, job.consumer_s, strict=True)):
        time_nol[:, consumer] += job.share_s[s] * (share_nol[:, producer] @ job.fetch_sij[s])
        if job.between_hosts:
            time_nol[:, producer] += job.sent_s[s] * (share_nol[:, consumer] @ job.send_sij[s].T)
    return time_nol


def _traffic(job: NumaJob, share_nol: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Loads at which channels between sockets [n, i, j] and network cards [n, h] are full."""
    plans, hosts = len(share_nol), len(job.card_h)
    if not (job.between_hosts or job.has_channels):
        return np.full((plans, 1, 1), np.inf), np.full((plans, hosts), np.inf)
    rate_s = job.rate_s * job.bytes_s
    bytes_nij = np.einsum("s,nsi,nsj->nij", rate_s, share_nol[:, job.producer_s], share_nol[:, job.consumer_s])
    leaving_nl = np.where(job.apart_ij, bytes_nij, 0.0).sum(axis=2)
    leaving_nh = leaving_nl @ (job.host_l[:, None] == np.arange(hosts))
    return job.channel_ij / bytes_nij, job.card_h / leaving_nh


def free_running(job: NumaJob, counts_nol: np.ndarray) -> FreeRunning:
    """Flow if no producer waits for its consumers (Section 3.1, cases 1 and 2)."""
    subtasks_no = np.maximum(counts_nol.sum(axis=2), 1)
    with np.errstate(divide="ignore"):  # where a record takes no time: inf
        able_nol = job.speed_l / times(job, counts_nol / subtasks_no[:, :, None])
    supplied_no = np.tile(job.in_o, (len(counts_nol), 1))
    taken_no = np.zeros_like(supplied_no)
    for o, streams in enumerate(job.inputs):
        if streams:
            supplied_no[:, o] = sum(taken_no[:, p] * job.gain_o[p] for p in (job.producer_s[s] for s in streams))
        each_nl = np.minimum((supplied_no[:, o] / subtasks_no[:, o])[:, None], able_nol[:, o])
        taken_no[:, o] = (counts_nol[:, o] * each_nl).sum(axis=1)
    return FreeRunning(taken_no[:, job.sinks].sum(axis=1), supplied_no, taken_no)


def binding(job: NumaJob, counts_ol: np.ndarray) -> str:
    """Resource that stops a plan from bearing more, in words."""
    found = sustained(job, counts_ol[None])
    names = [str(location) for location in job.locations]
    limits = {f"a subtask of {name}": found.subtask_no[0, o] for o, name in enumerate(job.operators)}
    limits |= {f"the cores of {name}": found.cpu_nl[0, j] for j, name in enumerate(names)}
    limits |= {f"the memory bandwidth of {name}": found.memory_nl[0, j] for j, name in enumerate(names)}
    limits |= {f"the network card of {name}": found.card_nh[0, h] for h, name in enumerate(job.hosts)}
    if found.channel_nij.shape[1:] == job.channel_ij.shape:
        ends = [(i, j) for i in range(len(names)) for j in range(len(names))]
        limits |= {f"the channel {names[i]} -> {names[j]}": found.channel_nij[0, i, j] for i, j in ends}
    return min(limits, key=limits.__getitem__)


CLOSE = 1e-9


def results_share(job: NumaJob, counts_nol: np.ndarray) -> np.ndarray:
    """Share of the results at the offered rates that arrive. [n]"""
    return np.asarray(source_shares(job, counts_nol) @ job.results_a / job.results_per_s)


def most_results_per_s(job: NumaJob) -> float:
    """Bound on the results a second of any plan: all cores together, nothing fetched, and the sources with the least
    work for a result first."""
    work_a, left = job.work_oa.sum(axis=0), float(job.capacity_l.sum())
    found = 0.0
    for a in np.argsort(work_a / np.maximum(job.results_a, 1e-300)):
        share = min(1.0, left / work_a[a])
        found += share * job.results_a[a]
        left -= share * work_a[a]
    return float(found)


def source_shares(job: NumaJob, counts_nol: np.ndarray) -> np.ndarray:
    """Share of its offered rate that each source keeps, at most 1. [n, a]"""
    uses_nra = resource_uses(job, counts_nol)
    share_na = np.zeros((len(counts_nol), len(job.sources)))
    grows_na = np.ones(share_na.shape, bool)
    pace_a = job.offered_a.min() / job.offered_a
    for _ in job.sources:
        growing_na = grows_na * pace_a
        faster_nr = np.einsum("nra,na->nr", uses_nra, growing_na)
        left_nr = 1.0 - np.einsum("nra,na->nr", uses_nra, share_na)
        with np.errstate(divide="ignore", invalid="ignore"):  # resources that nothing more comes to are left out
            room_nr = np.where(faster_nr > 0.0, np.maximum(left_nr, 0.0) / faster_nr, np.inf)
            most_na = np.where(grows_na, (1.0 - share_na) / pace_a, np.inf)
        # each step ends when a resource is full or a source has its offered rate
        step_n = np.minimum(room_nr.min(axis=1), most_na.min(axis=1))
        step_n = np.where(np.isfinite(step_n), step_n, 0.0)
        share_na = share_na + growing_na * step_n[:, None]
        full_nr = room_nr <= step_n[:, None] * (1.0 + CLOSE)
        stops_na = np.einsum("nr,nra->na", full_nr, uses_nra) > 0.0
        grows_na = grows_na & ~stops_na & (share_na < 1.0 - CLOSE)
    return np.minimum(share_na, 1.0)


def resource_uses(job: NumaJob, counts_nol: np.ndarray) -> np.ndarray:
    """Share of every resource that a source needs at its offered rate. [n, r, a]"""
    plans, sources = len(counts_nol), len(job.sources)
    share_nol = counts_nol / np.maximum(counts_nol.sum(axis=2), 1)[:, :, None]
    work_nola = _works(job, share_nol) * share_nol[..., None]
    each_nola = work_nola / np.maximum(counts_nol, 1)[..., None] / job.speed_l[:, None]
    cpu_nla = work_nola.sum(axis=1) / job.capacity_l[:, None]
    memory_nla = np.einsum("oa,nol->nla", job.memory_oa, share_nol) / job.memory_l[:, None]
    parts = [each_nola.reshape(plans, -1, sources), cpu_nla, memory_nla]
    if job.between_hosts or job.has_channels:
        bytes_sa = job.rate_sa * job.bytes_s[:, None]
        ends = share_nol[:, job.producer_s], share_nol[:, job.consumer_s]
        bytes_nija = np.einsum("sa,nsi,nsj->nija", bytes_sa, *ends)
        leaving_nla = np.where(job.apart_ij[:, :, None], bytes_nija, 0.0).sum(axis=2)
        leaving_nha = np.einsum("nla,lh->nha", leaving_nla, job.host_l[:, None] == np.arange(len(job.card_h)))
        parts.append((bytes_nija / job.channel_ij[:, :, None]).reshape(plans, -1, sources))
        parts.append(leaving_nha / job.card_h[:, None])
    return np.concatenate(parts, axis=1)


def _works(job: NumaJob, share_nol: np.ndarray) -> np.ndarray:
    """Reference cores that an operator would need if all of it were on a socket, for each source. [n, o, l, a]"""
    work_nola = np.tile(job.work_oa[:, None], (len(share_nol), 1, len(job.locations), 1))
    for s, (producer, consumer) in enumerate(zip(job.producer_s, job.consumer_s, strict=True)):
        work_nola[:, consumer] += (share_nol[:, producer] @ job.fetch_sij[s])[..., None] * job.rate_sa[s]
        if job.between_hosts:
            work_nola[:, producer] += (share_nol[:, consumer] @ job.send_sij[s].T)[..., None] * job.rate_sa[s]
    return work_nola
