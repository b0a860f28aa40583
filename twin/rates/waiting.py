"""Waits of tuples in the queue of an operator that keeps up.

The wait is that of a GI/G/1 queue (Kingman 1961; of Poisson arrivals that of Pollaczek and Khinchine) at the speed that
the socket gives its task beside the others; where b tuples come at one moment, that of GI^[b]/G/1, which is (rho (b
c_a^2 + c_s^2) / (1 - rho) + b - 1) / 2 services at a load of rho, with the squared coefficients of variation c_a^2 of
the gaps between such moments and c_s^2 of services; of replicas with a shared queue, that of M/M/c, for other gaps and
services by Allen and Cunneen.

The regularity of gaps is followed along the streams. The output of a station is as regular as its input where it is
idle, and as its services where it is busy (Whitt, "The queueing network analyzer", 1983, eq. 38). A part of it, chosen
at random, is the more like Poisson's, the smaller it is. Each n-th tuple in turn is n times as regular; the more
producers deal, each for itself, the more it is as if at random. Several streams together become Poisson again. Parts
that were dealt to the subtasks of an operator and meet again are as regular as the whole was, so streams are followed
as wholes, too. Letters at the end of a name are the axes of `twin.rates.layout`.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from twin.rates.batches import beside_on
from twin.rates.cpu_sharing import demands, shared
from twin.rates.layout import Layout
from twin.rates.load import Load
from twin.rates.queueing import RHO_MAX, ggc_wait_s, shared_wait_s, superposed


class Gaps(NamedTuple):
    """Squared coefficients of variation of the gaps between arrivals: at one replica of an operator, at all of them
    together, and at the host where the tuples came in. [O, N] each"""

    one_on: np.ndarray
    all_on: np.ndarray
    entry_on: np.ndarray


def gap_scvs(layout: Layout, found: Load) -> Gaps:
    """Variation of the gaps between every operator's arrivals. Batches, results of windows, answers of calls, and
    copies that meet count as Poisson."""
    job, fusing, left_scv_on = layout.job, layout.fusing, found.line_scv_on
    if fusing is not None:
        left_scv_on = fusing.left_scv(found.service_on, job.costs.scv_o[:, None] + np.zeros(layout.size))
    coming, all_in, entry, leaving, together, entered = np.ones((6, len(job.names), layout.size))
    for o, streams in enumerate(job.inputs):
        if not streams:
            coming[o] = all_in[o] = entry[o] = job.arrival_scv_o[o]
        elif not job.dealing.akin_o[o] and not any(job.dealing.batch_s[s] > 1 for s in streams):
            coming[o], all_in[o] = _met(layout, found, o, leaving, together)
        if streams and fusing is not None:  # within a task, tuples go on as they came to it
            before = job.producer_s[streams[0]]
            coming[o] = np.where(fusing.behind_on[o], leaving[before], coming[o])
            all_in[o] = np.where(fusing.behind_on[o], together[before], all_in[o])
        if streams:
            entry[o] = _entered(layout, found, streams, entered, all_in[o])
        if o in job.windows.all or o in job.calling:
            continue
        rho2, gain = np.minimum(found.used_on[o], 1.0) ** 2, np.minimum(job.gain_o[o], 1.0)
        varied = left_scv_on[o] - 1.0
        if fusing is not None:  # a task spaces tuples by all of its work, as they leave it
            rho2 = np.where(fusing.ahead_on[o], 0.0, rho2)
        servers = np.sqrt(layout.replicas_on[o])
        own = servers if job.dealing.shared_o[o] else 1.0
        leaving[o] = 1.0 + gain * ((1.0 - rho2) * (coming[o] - 1.0) + rho2 / own * varied)
        together[o] = 1.0 + gain * ((1.0 - rho2) * (all_in[o] - 1.0) + rho2 / servers * varied)
        entered[o] = entry[o]
    return Gaps(coming, all_in, entry)


def _entered(layout: Layout, found: Load, streams: list[int], entered_on: np.ndarray, here: np.ndarray) -> np.ndarray:
    """Mean over these streams' tuples of `entered_on` of the producer if they stay on its host, else of `here`. [N]"""
    producers = [layout.job.producer_s[s] for s in streams]
    rates = found.out_on[producers] * layout.job.share_s[streams, None]
    each = entered_on[producers] + layout.remote_sn[streams] * (here - entered_on[producers])
    return np.asarray((rates * each).sum(axis=0) / np.maximum(rates.sum(axis=0), 1e-12))


def _met(
    layout: Layout, found: Load, o: int, leaving: np.ndarray, together: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Squared variations of gaps where streams meet at one replica of operator `o`, and at all its replicas together.
    [N] each

    leaving, together: of the output of one replica of each operator, and of all its replicas.
    """
    job = layout.job
    total, one, all_ = np.zeros(layout.size), np.zeros(layout.size), np.zeros(layout.size)
    for s in job.inputs[o]:
        producer, share = job.producer_s[s], job.share_s[s]
        rate = found.out_on[producer] * share
        whole = 1.0 + share * (together[producer] - 1.0)
        alone = 1.0 + share * (leaving[producer] - 1.0) if job.dealing.forward_s[s] else _dealt(layout, s, whole)
        total, one, all_ = total + rate, one + rate * alone, all_ + rate * whole
    met, total = np.array(len(job.inputs[o])), np.maximum(total, 1e-12)
    return superposed(one / total, met), superposed(all_ / total, met)


def _dealt(layout: Layout, s: int, whole: np.ndarray) -> np.ndarray:
    """Squared variation of the gaps in one consumer replica's part of a stream; `whole`: in all of it. [N]

    Each producer replica deals in turn for itself, so the more of them there are, the more it is as if at random.
    """
    job, replicas_on = layout.job, layout.replicas_on
    if job.dealing.to_one_s[s]:
        return whole
    turns = replicas_on[job.consumer_s[s]]
    if not job.dealing.in_turn_s[s]:
        return np.asarray(1.0 + (whole - 1.0) / turns)
    turns = np.maximum(turns / max(job.gain_o[job.producer_s[s]], 1.0), 1.0)  # ten made at once go to ten replicas
    return superposed(1.0 / turns, replicas_on[job.producer_s[s]]) - (1.0 - whole) / turns


class Queues(NamedTuple):
    """Queues by operator and plan [O, N], in seconds: service of a tuple; service of the chain from there on; mean wait
    of a tuple."""

    service_on: np.ndarray
    line_on: np.ndarray
    wait_on: np.ndarray


def queues_s(layout: Layout, found: Load) -> Queues:
    """Queues in the steady state, of operators that are not overloaded.

    Where sockets differ, these are means over them. Only the first of chained operators has a queue.
    """
    fusing, rows, cells = layout.fusing, layout.operator_c, found.cells
    beside = beside_on(layout, found)
    busy_cn, speed_cn = demands(layout, found)
    line_cn = (found.line_s_on[rows] if cells is None or fusing is not None else cells.service_cn) / speed_cn
    gaps = gap_scvs(layout, found)
    more_cn = 0.0 if beside is None else beside[rows]
    irregular_cn = (gaps.one_on[rows] * (1.0 + more_cn) + found.line_scv_on[rows]) / 2.0

    def wait_s(load_cn: np.ndarray) -> np.ndarray:
        """Mean wait in services at a load; b of the formula above is 1 + more_cn."""
        rho_cn = np.minimum(load_cn, RHO_MAX)
        return np.asarray(rho_cn * irregular_cn / (1.0 - rho_cn) + more_cn / 2.0)

    core_cn, longer_cn, variability_cn = shared(layout, found, busy_cn, gaps.entry_on)
    alone_cn = line_cn * np.minimum(speed_cn, core_cn) / core_cn
    apart_cn = alone_cn * (1.0 + wait_s(busy_cn / core_cn))
    beside_cn = np.maximum(line_cn * (1.0 + wait_s(busy_cn / speed_cn)) - apart_cn, alone_cn * longer_cn)
    # where visits vary less than Poisson ones, others add less, whether by their load or by meeting (`shared`)
    stay_cn = apart_cn + variability_cn * np.maximum(beside_cn, 0.0)
    line_cn = np.minimum(line_cn, stay_cn)  # so that they then lengthen the service less, too
    line_on, wait_on = layout.mean(line_cn), layout.mean(stay_cn - line_cn)
    service_on = line_on
    if fusing is not None:  # operators behind the first get the same cores
        slow_on = fusing.spread(line_on / np.maximum(found.line_s_on, 1e-300))
        # all that a task makes of a tuple leaves together, when the last of it is done
        service_on = found.service_on * slow_on * (1.0 + fusing.siblings())
        line_on = found.line_s_on * slow_on
    wait_on = _of_common_queues(layout, found, line_on, gaps, beside, wait_on)
    if fusing is not None:
        wait_on = np.where(fusing.behind_on, 0.0, wait_on)
    return Queues(service_on, line_on, wait_on)


def _of_common_queues(
    layout: Layout, found: Load, line_on: np.ndarray, gaps: Gaps, beside: np.ndarray | None, wait_on: np.ndarray
) -> np.ndarray:
    """Waits `wait_on`, with those of replicas that take from one queue put in. [O, N]"""
    rho = np.minimum(found.used_on, RHO_MAX)
    for o in np.flatnonzero(layout.job.dealing.shared_o).tolist():
        each = zip(layout.replicas_on[o], rho[o], gaps.all_on[o], found.line_scv_on[o], line_on[o], strict=True)
        wait_on[o] = [ggc_wait_s(int(c), *(float(value) for value in rest)) for c, *rest in each]
        crowded = layout.replicas_on[o] > (layout.capacity_cn / layout.core_cn)[layout.first_c[o]]
        if crowded.any():
            time_s = _on_fewer_cores_s(layout, found, o, (gaps.all_on[o] + found.line_scv_on[o]) / 2.0)
            wait_on[o] = np.where(crowded, np.maximum(time_s - line_on[o], 0.0), wait_on[o])
        if beside is not None:
            wait_on[o] += beside[o] / layout.replicas_on[o] * line_on[o] / (2.0 * (1.0 - rho[o]))
    return wait_on


def _on_fewer_cores_s(layout: Layout, found: Load, o: int, variability: np.ndarray) -> np.ndarray:
    """Wait and service in seconds where more replicas take from one queue than there are cores: that of as many servers
    as cores, with all the work on the socket. [N]"""
    cell = layout.first_c[o]  # all replicas are on one host
    busy_cn = demands(layout, found)[0] * layout.count_cn
    cores, core, total = layout.capacity_cn[cell], layout.core_cn[cell], layout.on_sockets(busy_cn)[cell]
    longer = shared_wait_s(cores / core, total / core) * variability
    return np.asarray(found.line_s_on[o] / core * (1.0 + longer))
