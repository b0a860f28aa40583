"""Placement coefficients: numbers of the rate model for sums that are linear in where a job's operators run.

At the offered rates nothing of a job's flow depends on its placement, so the demand on every core, network card, link
and memory is a sum over operators and streams: the demand of an operator where it runs, and that of a stream where it
leaves one host and arrives on another. `PlacementCoefficients.loads` adds that up, and equals the rate model's offered
loads for every plan whose memory is below the onset of garbage collection, on sockets that are equally near, where an
operator's subtasks are alike and all get records.

Where one operator is on one host these sums are linear in "operator o is on socket l" and "stream s leaves host h",
which is what a mixed-integer program needs; of operators that are spread over hosts, the share of a stream that leaves
is a product. Letters at the end of a name are axes, as in `twin.rates.layout`: o operators in data-flow order, s
streams by the names of their ends, l sockets of all hosts in a row, h hosts, n plans.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, Self

import numpy as np

from twin.deployment import Deployment
from twin.job import compile
from twin.kinds.flow import Flow, HeldRecords, group_age_s, length_s
from twin.kinds.windowed import Windowed
from twin.rates.arrays import JobArrays
from twin.rates.load import entries_on, flow_at, held_bytes_on, scanned_on, stacked
from twin.rates.queueing import RHO_MAX, mmc_wait_s, superposed
from twin.rates.seats import Seats, uneven_shares
from twin.rates.sockets import MEGA, Places


class OperatorCoefficients(NamedTuple):
    """Coefficients of operators, [O] each.

    work: cores that all subtasks need together when everything is near. service_s: part of that for an input record,
    without window evaluations. scv: of the service, gap_scv: of the gaps between records. subtasks: number that share
    the work. skew: work of the busiest subtask over the mean. held_mb: of memory, all subtasks together. in_per_s:
    records taken. batch: records that come at once. shared: whether its subtasks take from one queue. window_s: age
    that its window adds; of a join, its length. evaluated_s: core seconds that an evaluation of it takes a subtask.
    """

    work: np.ndarray
    service_s: np.ndarray
    scv: np.ndarray
    gap_scv: np.ndarray
    parallelism: np.ndarray
    skew: np.ndarray
    held_mb: np.ndarray
    in_per_s: np.ndarray
    batch: np.ndarray
    shared: np.ndarray
    window_s: np.ndarray
    evaluated_s: np.ndarray


class StreamCoefficients(NamedTuple):
    """Coefficients of streams, if all of a stream leaves a host, [S] each.

    send, receive: cores for (de)serialising, of the producer and of the consumer; bytes_per_s: on the way;
    record_bytes: of each; rate_per_s: records from the producer; credits_per_s: share of a channel's credits that is
    under way for each second of latency.
    """

    send: np.ndarray
    receive: np.ndarray
    bytes_per_s: np.ndarray
    record_bytes: np.ndarray
    rate_per_s: np.ndarray
    credits_per_s: np.ndarray


class LinearLoads(NamedTuple):
    """Utilisations of N plans.

    cpu_nl: of sockets; card_nh: of network cards; memory_nh: of RAM, 0 of unused hosts; core_no: of the core that an
    operator's busiest subtask has for itself, on its worst socket; credits_ns: of the streams' channels by records on
    their way, where the cluster has no links.
    """

    cpu_nl: np.ndarray
    card_nh: np.ndarray
    memory_nh: np.ndarray
    core_no: np.ndarray
    credits_ns: np.ndarray

    @property
    def highest_n(self) -> np.ndarray:
        """Highest utilisation, without that of memory; above 1, a plan is overloaded. [N]"""
        each = (self.cpu_nl, self.card_nh, self.core_no, self.credits_ns)
        return np.max([used.max(axis=1) for used in each], axis=0)


@dataclass(frozen=True, slots=True)
class PlacementCoefficients:
    """Placement coefficients of a job at `factor` times its offered rates, with the numbers of subtasks of its plan."""

    deployment: Deployment
    names: tuple[str, ...]
    producer_s: tuple[int, ...]
    consumer_s: tuple[int, ...]
    operators: OperatorCoefficients
    streams: StreamCoefficients
    places: Places
    near_s: tuple[bool, ...]
    """Whether a stream leaves a host only if no subtask of its consumer is there."""
    bursty: bool
    """Whether windows emit more at once than their channels take: bursts may then block them, which is not linear."""

    @classmethod
    def of(cls, deployment: Deployment, factor: float = 1.0) -> Self:
        """Makes the coefficients of a deployment. factor: on the rates of all sources, > 0."""
        job = JobArrays(compile(deployment))
        rates = {name: np.array([rate * factor]) for name, rate in job.offered_per_s.items()}
        subtasks_o = np.minimum([float(deployment.plan.parallelism(name)) for name in job.names], job.dealing.fed_o)
        flow = flow_at(job, rates, counted={job.names[o]: subtasks_o[o : o + 1] for o in job.subtasks_count})
        operators = _operators(job, flow, subtasks_o)
        return cls(
            deployment=deployment,
            names=job.names,
            producer_s=tuple(job.producer_s),
            consumer_s=tuple(job.consumer_s),
            operators=operators,
            streams=_streams(job, flow, subtasks_o),
            places=job.places,
            near_s=tuple(how.near for how in job.hows),
            bursty=_bursty(job, flow),
        )

    @property
    def inputs(self) -> list[list[int]]:
        """Input streams of each operator."""
        return [[s for s, end in enumerate(self.consumer_s) if end == o] for o in range(len(self.names))]

    def at_hosts(self, each_nol: np.ndarray) -> np.ndarray:
        """Sums of a value by socket over the sockets of each host. [N, O, H]"""
        hosts = len(self.places.bandwidth_h)
        return each_nol @ (self.places.host_l[:, None] == np.arange(hosts))

    def loads(self, share_nol: np.ndarray) -> LinearLoads:
        """Utilisations of plans. share_nol: of an operator's subtasks on a socket; each row of sockets adds up to 1."""
        work, stream, place = self.operators, self.streams, self.places
        host_noh = self.at_hosts(share_nol)
        need_no = np.tile(work.work, (len(share_nol), 1))
        sent_nh = np.zeros((len(share_nol), len(place.bandwidth_h)))
        credits_ns = np.zeros((len(share_nol), len(self.producer_s)))
        for s, (start, end) in enumerate(zip(self.producer_s, self.consumer_s, strict=True)):
            stays_nh = host_noh[:, end] > 0.0 if self.near_s[s] else host_noh[:, end]
            leaves_nh = host_noh[:, start] * (1.0 - stays_nh)
            need_no[:, start] += stream.send[s] * leaves_nh.sum(axis=1)
            need_no[:, end] += stream.receive[s] * leaves_nh.sum(axis=1)
            sent_nh += stream.bytes_per_s[s] * leaves_nh
            credits_ns[:, s] = stream.credits_per_s[s] * (leaves_nh @ place.latency_h)
        used_nh = (host_noh > 0).any(axis=1)
        law = self.deployment.engine.memory
        held_nh = np.einsum("noh,o->nh", host_noh, work.held_mb) + law.base_mb
        slowest_no = np.where(share_nol > 0, place.core_l, np.inf).min(axis=2)
        return LinearLoads(
            cpu_nl=np.einsum("nol,no->nl", share_nol, need_no) / place.capacity_l,
            card_nh=sent_nh / place.bandwidth_h,
            memory_nh=np.where(used_nh, held_nh / place.ram_mb_h, 0.0),
            core_no=need_no / work.parallelism * work.skew / slowest_no,
            credits_ns=credits_ns,
        )

    def delays_s(self, more_o: np.ndarray, speed_ol: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Seconds of a record in service and in a window's burst, and its mean wait in the queue. [O, L] each"""
        each = self.operators
        in_o = np.maximum(each.in_per_s, 1e-12)
        service_ol = (each.service_s + more_o / in_o)[:, None] / speed_ol
        rho_ol = np.minimum(((each.work + more_o) / each.parallelism)[:, None] / speed_ol, RHO_MAX)
        wait_ol = rho_ol / (1.0 - rho_ol) * service_ol
        for o in np.flatnonzero(each.shared):
            queues = zip(rho_ol[o], service_ol[o], strict=True)
            wait_ol[o] = [mmc_wait_s(int(each.parallelism[o]), float(rho), float(time_s)) for rho, time_s in queues]
        irregular_o1 = (each.gap_scv[:, None] + each.scv[:, None]) / 2.0
        return service_ol * (0.5 + each.batch[:, None] / 2.0), wait_ol * irregular_o1


def _least_gap_scv(job: JobArrays, subtasks_o: np.ndarray) -> np.ndarray:
    """Least squared coefficient of variation of the gaps between arrivals at a subtask, wherever operators are and
    however busy: the output is taken to be as regular as the input or as the services, whichever is more
    (`twin.rates.waiting`). [O]"""
    coming, leaving, together = np.ones((3, len(job.names)))
    fuses = job.deployment.engine.chaining or bool(job.deployment.plan.fused)
    for o, streams in enumerate(job.inputs):
        all_in = 1.0
        if not streams:
            coming[o] = all_in = job.arrival_scv_o[o]
        elif not job.dealing.akin_o[o] and not any(job.dealing.batch_s[s] > 1 for s in streams):
            wholes = [1.0 + job.share_s[s] * (together[job.producer_s[s]] - 1.0) for s in streams]
            each = [_least_dealt(job, s, whole, leaving, subtasks_o) for s, whole in zip(streams, wholes, strict=True)]
            coming[o], all_in = superposed(np.array([min(each), min(wholes)]), np.array(len(streams)))
        if o not in job.windows.all and o not in job.calling:
            gain, steady = min(job.gain_o[o], 1.0), min(0.0 if fuses else job.costs.scv_o[o], 1.0)
            leaving[o], together[o] = (1.0 - gain * (1.0 - min(came, steady)) for came in (coming[o], all_in))
    return coming


def _least_dealt(job: JobArrays, s: int, whole: float, leaving: np.ndarray, subtasks_o: np.ndarray) -> float:
    """Least squared variation of gaps in one consumer subtask's part of a stream. whole: the least in all of it."""
    producer, consumer = job.producer_s[s], job.consumer_s[s]
    if job.dealing.forward_s[s]:
        return 1.0 + float(job.share_s[s]) * (float(leaving[producer]) - 1.0)
    if job.dealing.to_one_s[s]:
        return whole
    if not job.dealing.in_turn_s[s]:
        return min(whole, 1.0)
    turns = float(subtasks_o[consumer])
    return min(whole, float(superposed(np.array(1.0 / turns), subtasks_o[producer])) - (1.0 - whole) / turns)


def _operators(job: JobArrays, flow: dict[str, Flow], subtasks_o: np.ndarray) -> OperatorCoefficients:
    in_on, out_on, window_on, fires_on, groups_on, bursts_on = stacked(job, flow)
    sent_sn = job.sent_sn(out_on) * np.where(job.dealing.broadcast_s, subtasks_o[job.consumer_s], 1.0)[:, None]
    near_on = job.costs.service.total(in_on, sent_sn)
    looks_on = scanned_on(job, fires_on, window_on, out_on)
    each_on = np.divide(looks_on, fires_on, out=np.zeros_like(looks_on), where=fires_on > 0)
    counted = {job.names[o]: subtasks_o[o : o + 1] for o in job.subtasks_count}
    entries = np.array(entries_on(job, window_on, groups_on, counted))
    entries[list(job.windows.slides)] *= subtasks_o[list(job.windows.slides), None]
    held_o = held_bytes_on(job, in_on, entries, sent_sn)[:, 0]
    seats = [Seats.of_counts(job, o, np.array([[count]])) for o, count in enumerate(subtasks_o)]  # on any sockets
    skew_o = np.ones(len(subtasks_o))
    for o, (shares, _) in uneven_shares(job, seats, {0: job.deployment.plan.key_groups}).items():
        skew_o[o] = shares[0].taken.max() * subtasks_o[o]
    size_o = np.where(np.isfinite(bursts_on), out_on / np.maximum(bursts_on, 1e-12), 1.0)[:, 0]
    batch_o = [max([1.0, *(_at_once(job, s, size_o, subtasks_o) for s in streams)]) for streams in job.inputs]
    return OperatorCoefficients(
        work=(near_on + looks_on)[:, 0],
        service_s=np.where(in_on > 0, near_on / np.maximum(in_on, 1e-12), job.costs.service.mean_o[:, None])[:, 0],
        scv=job.costs.scv_o,
        gap_scv=_least_gap_scv(job, subtasks_o),
        parallelism=subtasks_o,
        skew=skew_o,
        held_mb=held_o * job.deployment.engine.state_overhead / MEGA,
        in_per_s=in_on[:, 0],
        batch=np.array(batch_o),
        shared=np.array(job.dealing.shared_o),
        evaluated_s=each_on[:, 0] / np.where(job.windows.by_time_o, subtasks_o, 1.0),
        window_s=np.array([_window_s(job, flow, o, subtasks_o[o]) for o in range(len(job.names))]),
    )


def _at_once(job: JobArrays, s: int, size_o: np.ndarray, subtasks_o: np.ndarray) -> float:
    """Records of a stream that come to a subtask together, wherever operators are: a window's results. The records that
    the next operator makes of these come at its pace, and wait only for an operator that is slower where it happens to
    be."""
    producer, consumer = job.producer_s[s], job.consumer_s[s]
    if producer not in job.windows.all or size_o[producer] < job.dealing.batch_s[s]:
        return 1.0
    return float(size_o[producer] / (1.0 if job.dealing.broadcast_s[s] else subtasks_o[consumer]))


def _window_s(job: JobArrays, flow: dict[str, Flow], o: int, parallelism: float) -> float:
    operator, found = job.operators[o], flow[job.names[o]]
    if not isinstance(operator, Windowed):
        return 0.0
    taken = np.maximum(found.in_per_s, 1e-12)
    if o in job.windows.slides:  # each subtask has a window of its own
        taken = found.fires_per_s * job.windows.slides[o] / parallelism
    if operator.joins:
        return float(length_s(operator.window, taken)[0][0])
    return float(group_age_s(operator.window, HeldRecords(taken, found.window_records, found.groups_per_fire))[0])


def _streams(job: JobArrays, flow: dict[str, Flow], subtasks_o: np.ndarray) -> StreamCoefficients:
    engine = job.deployment.engine
    rate_s = np.array([float(flow[job.names[o]].out_per_s[0]) for o in job.producer_s]) * job.share_s
    copies_s = np.where(job.dealing.broadcast_s, subtasks_o[job.consumer_s], 1.0)
    per_subtask_s = rate_s * copies_s / subtasks_o[job.consumer_s]
    room_s = np.full(len(job.streams), float(engine.channel_records or 1))
    if (memory := engine.network_memory) is not None:
        channels_s = np.where(job.dealing.forward_s, 1.0, subtasks_o[job.producer_s])
        room_s = memory.gate(channels_s, job.costs.spans_s) * job.costs.buffer_s
    return StreamCoefficients(
        send=rate_s * copies_s * job.costs.bytes_s * 1e-9 * engine.serialise_ns_per_byte,
        receive=rate_s * copies_s * job.costs.bytes_s * 1e-9 * engine.deserialise_ns_per_byte,
        bytes_per_s=rate_s * copies_s * job.costs.bytes_s,
        record_bytes=job.costs.bytes_s,
        rate_per_s=rate_s,
        credits_per_s=per_subtask_s / room_s,
    )


def _bursty(job: JobArrays, flow: dict[str, Flow]) -> bool:
    windows = [flow[job.names[o]] for o in job.windows.all]
    return any(float(each.out_per_s[0]) > job.channels.credits * float(each.fires_per_s[0]) for each in windows)
