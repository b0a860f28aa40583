"""Throughput by relative location: BriskStream's rate-based model (Section 3.1), for many plans at once.

An input tuple takes a replica T = Te + Tf: its execution, and fetching it from where its producer put it, by the
distance of the two sockets (equation 2). Tuples are dealt evenly, so an operator's slowest replica bounds all of them,
and full channels hold back whoever feeds it. All demands grow in proportion with the offered rates, so there is one
largest multiple of these, the *sustained load*, at which no replica, socket, memory, channel between sockets or network
card has more to do than it can (equations 3 to 5). The paper lets producers run on instead, so that an operator takes
in what it can, and calls it over-supplied if that is less than what it is sent: `free_running`.

Plans are replica counts [n, o, l]; axes are those of `twin.rates.numa_job`, and n plans.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from twin.rates.numa_job import NumaJob


@dataclass(frozen=True, slots=True)
class Sustained:
    """How much of the offered load N plans can bear, and what stops them. Above 1: all of it, with room to spare.

    load_n: the least of the limits, which are multiples of the offered load, inf where a resource is not used:
    replica_no of the slowest replica of an operator, cpu_nl and memory_nl of a socket, channel_nij from a socket's
    memory to another socket, card_nh of a host's network card, total_n of all cores together. work_nl: cores that a
    socket needs at the offered load. time_nol: T of an input tuple there, in reference-core seconds.
    """

    load_n: np.ndarray
    replica_no: np.ndarray
    cpu_nl: np.ndarray
    memory_nl: np.ndarray
    channel_nij: np.ndarray
    card_nh: np.ndarray
    total_n: np.ndarray
    work_nl: np.ndarray
    time_nol: np.ndarray


@dataclass(frozen=True, slots=True)
class FreeRunning:
    """The paper's estimate for N plans: every producer runs as fast as it can. Tuples a second.

    throughput_n: into all sinks. supplied_no: sent to an operator; taken_no: what its replicas can take of that.
    Where that is less, the operator is over-supplied: a bottleneck (case 1); else it is under-supplied (case 2).
    """

    throughput_n: np.ndarray
    supplied_no: np.ndarray
    taken_no: np.ndarray


def sustained(job: NumaJob, counts_nol: np.ndarray, unplaced_no: np.ndarray | None = None) -> Sustained:
    """The sustained load of plans, or, with replicas unplaced, a bound on that of every way to place them.

    What is not placed fetches and sends nothing, and itself takes the least time that any socket allows, given what
    is placed; only the cores of all sockets together bound it. Placing a replica never raises that bound.
    """
    replicas_no = counts_nol.sum(axis=2)
    all_no = np.maximum(replicas_no if unplaced_no is None else replicas_no + unplaced_no, 1)
    share_nol = counts_nol / all_no[:, :, None]
    time_nol = times(job, share_nol)
    with np.errstate(divide="ignore"):
        pace_nol = (all_no / job.in_o)[:, :, None] * job.speed_l / time_nol
        replica_no = np.where(counts_nol > 0, pace_nol, np.inf).min(axis=2)
        work_nl = (job.in_o[:, None] * share_nol * time_nol).sum(axis=1)
        needed_n = work_nl.sum(axis=1)
        if unplaced_no is not None:
            needed_n = needed_n + (job.in_o * (unplaced_no / all_no) * time_nol.min(axis=2)).sum(axis=1)
            replica_no = np.minimum(replica_no, np.where(unplaced_no > 0, pace_nol.max(axis=2), np.inf))
        cpu_nl, total_n = job.capacity_l / work_nl, job.capacity_l.sum() / needed_n
        memory_nl = job.memory_l / np.einsum("o,nol->nl", job.in_o * job.memory_o, share_nol)
        channel_nij, card_nh = _traffic(job, share_nol)
    flat = channel_nij.reshape(len(channel_nij), -1)
    limits = (replica_no, cpu_nl, memory_nl, flat, card_nh, total_n[:, None])
    load_n = np.min([each.min(axis=1, initial=np.inf) for each in limits], axis=0)
    return Sustained(load_n, replica_no, cpu_nl, memory_nl, channel_nij, card_nh, total_n, work_nl, time_nol)


def times(job: NumaJob, share_nol: np.ndarray) -> np.ndarray:
    """T of an input tuple [n, o, l]: execution, fetching, and sending to other hosts. share_nol: of the replicas."""
    time_nol = np.tile(job.time_o[:, None], (len(share_nol), 1, len(job.locations)))
    for s, (producer, consumer) in enumerate(zip(job.producer_s, job.consumer_s, strict=True)):
        time_nol[:, consumer] += job.share_s[s] * (share_nol[:, producer] @ job.fetch_sij[s])
        if job.between_hosts:
            time_nol[:, producer] += job.sent_s[s] * (share_nol[:, consumer] @ job.send_sij[s].T)
    return time_nol


def _traffic(job: NumaJob, share_nol: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The loads at which channels between sockets [n, i, j] and network cards [n, h] are full."""
    plans, hosts = len(share_nol), len(job.card_h)
    if not (job.between_hosts or job.has_channels):
        return np.full((plans, 1, 1), np.inf), np.full((plans, hosts), np.inf)
    rate_s = job.rate_s * job.bytes_s
    bytes_nij = np.einsum("s,nsi,nsj->nij", rate_s, share_nol[:, job.producer_s], share_nol[:, job.consumer_s])
    leaving_nl = np.where(job.apart_ij, bytes_nij, 0.0).sum(axis=2)
    leaving_nh = leaving_nl @ (job.host_l[:, None] == np.arange(hosts))
    return job.channel_ij / bytes_nij, job.card_h / leaving_nh


def free_running(job: NumaJob, counts_nol: np.ndarray) -> FreeRunning:
    """What flows if no producer waits for its consumers (Section 3.1, cases 1 and 2)."""
    replicas_no = np.maximum(counts_nol.sum(axis=2), 1)
    with np.errstate(divide="ignore"):
        able_nol = job.speed_l / times(job, counts_nol / replicas_no[:, :, None])
    supplied_no = np.tile(job.in_o, (len(counts_nol), 1))
    taken_no = np.zeros_like(supplied_no)
    for o, streams in enumerate(job.inputs):
        if streams:
            supplied_no[:, o] = sum(taken_no[:, p] * job.gain_o[p] for p in (job.producer_s[s] for s in streams))
        each_nl = np.minimum((supplied_no[:, o] / replicas_no[:, o])[:, None], able_nol[:, o])
        taken_no[:, o] = (counts_nol[:, o] * each_nl).sum(axis=1)
    return FreeRunning(taken_no[:, job.sinks].sum(axis=1), supplied_no, taken_no)


def binding(job: NumaJob, counts_ol: np.ndarray) -> str:
    """What stops a plan from bearing more, in words."""
    found = sustained(job, counts_ol[None])
    names = [str(location) for location in job.locations]
    limits = {f"a replica of {name}": found.replica_no[0, o] for o, name in enumerate(job.operators)}
    limits |= {f"the cores of {name}": found.cpu_nl[0, j] for j, name in enumerate(names)}
    limits |= {f"the memory bandwidth of {name}": found.memory_nl[0, j] for j, name in enumerate(names)}
    limits |= {f"the network card of {name}": found.card_nh[0, h] for h, name in enumerate(job.hosts)}
    if found.channel_nij.shape[1:] == job.channel_ij.shape:
        ends = [(i, j) for i in range(len(names)) for j in range(len(names))]
        limits |= {f"the channel {names[i]} -> {names[j]}": found.channel_nij[0, i, j] for i, j in ends}
    return min(limits, key=limits.__getitem__)
