"""How long tuples wait in line for an operator that keeps up.

The wait of an M/G/1 queue (Pollaczek-Khinchine) at the speed that the socket gives its task beside the others; of gaps
that are more regular, that of GI/G/1 (`twin.rates.queueing`); of what comes at one moment, M^[b]/G/1
(`twin.rates.batches`); of replicas with a shared queue, M/M/c by Allen and Cunneen.

How regular gaps are is followed along the streams. What leaves a station is as regular as what came where it is idle,
and as its services where it is busy (Whitt, "The queueing network analyzer", 1983, eq. 38). A part of it, chosen at
random, is the more like Poisson's, the smaller it is; each n-th tuple in turn is n times as regular; and of several
producers, what is superposed becomes Poisson again. Letters at the end of a name are the axes of `twin.rates.layout`.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from twin.rates.batches import beside_on
from twin.rates.cpu_sharing import Sharing, demands, sharing
from twin.rates.layout import Layout
from twin.rates.load import Load
from twin.rates.queueing import RHO_MAX, irregularity, mmc_wait_s, superposed
from twin.rates.skew import hottest


def gap_scv_on(layout: Layout, found: Load) -> np.ndarray:
    """Squared coefficient of variation of the gaps between arrivals at a replica. Batches, results of windows, and
    copies that come by another way count as Poisson. [O, N]"""
    job = layout.job
    coming = np.ones((len(job.names), layout.size))
    leaving = np.ones_like(coming)
    for o, streams in enumerate(job.inputs):
        if not streams:
            coming[o] = job.arrival_scv_o[o]
        elif not job.dealing.akin_o[o] and not any(job.dealing.batch_s[s] > 1 for s in streams):
            coming[o] = _met(layout, found, o, leaving)
        if o in job.windows.all or o in job.calling:
            continue
        busy = np.minimum(found.used_on[o], 1.0) ** 2
        servers = layout.replicas_on[o] if job.dealing.shared_o[o] else 1.0
        leaves = 1.0 + (1.0 - busy) * (coming[o] - 1.0) + busy / np.sqrt(servers) * (found.line_scv_on[o] - 1.0)
        leaving[o] = 1.0 + np.minimum(job.gain_o[o], 1.0) * (leaves - 1.0)
    return coming


def _met(layout: Layout, found: Load, o: int, leaving: np.ndarray) -> np.ndarray:
    """The same where several streams meet at one replica of operator `o`. [N]"""
    job = layout.job
    producers, total, weighed = np.zeros(layout.size), np.zeros(layout.size), np.zeros(layout.size)
    for s in job.inputs[o]:
        producer, rate = job.producer_s[s], found.out_on[job.producer_s[s]] * job.share_s[s]
        producers = producers + (1.0 if job.dealing.forward_s[s] else layout.replicas_on[producer])
        if job.hows[s].near:
            producers = producers + layout.replicas_on[producer] * (layout.ways(s) / layout.replicas_on[o] - 1.0)
        total = total + rate
        weighed = weighed + rate * _dealt(layout, s, leaving[producer])
    return superposed(weighed / np.maximum(total, 1e-12), producers)


def _dealt(layout: Layout, s: int, scv: np.ndarray) -> np.ndarray:
    """The same for the tuples that one producer replica sends to one consumer replica. [N]"""
    job, turns = layout.job, layout.ways(s)
    scv = 1.0 + job.share_s[s] * (scv - 1.0)
    if job.dealing.to_one_s[s]:
        return scv
    if not job.dealing.in_turn_s[s]:
        return 1.0 + (scv - 1.0) / turns
    return scv / np.maximum(turns / max(job.gain_o[job.producer_s[s]], 1.0), 1.0)  # ten at once go to ten replicas


class Queues(NamedTuple):
    """By operator and plan [O, N]: service of a tuple; service of the whole chain from there on; mean wait of a tuple;
    squared variation of the gaps; time from one tuple to the next of a batch. Times in seconds."""

    service_on: np.ndarray
    line_on: np.ndarray
    wait_on: np.ndarray
    gap_on: np.ndarray
    pace_on: np.ndarray

    def at_load(self, scv_on: np.ndarray, load_on: np.ndarray) -> np.ndarray:
        """Waits of the same services at other loads, if no tuples come together. scv_on: of services. [O, N]"""
        return Line(self.line_on, self.gap_on, scv_on, None).wait_s(load_on)


class Line(NamedTuple):
    """Queues of replicas: service of a tuple, squared variation of gaps and of services, others that come with it."""

    service_s: np.ndarray
    gap_scv: np.ndarray
    scv: np.ndarray
    beside: np.ndarray | None

    def wait_s(self, load: np.ndarray) -> np.ndarray:
        """The mean wait in the steady state. A load above RHO_MAX counts as RHO_MAX."""
        rho = np.minimum(load, RHO_MAX)
        wait_s = rho / (1.0 - rho) * self.service_s * irregularity(self.gap_scv, self.scv, rho)
        return wait_s if self.beside is None else wait_s + self.beside * self.service_s / (2.0 * (1.0 - rho))

    def slowed_s(self, load: np.ndarray, slower: np.ndarray) -> np.ndarray:
        """The mean wait, and the extra time of a service, if services take `slower` times as long."""
        wait_s = self._replace(service_s=self.service_s * slower).wait_s(load * slower)
        return np.asarray(wait_s + self.service_s * (slower - 1.0))

    def select(self, rows: np.ndarray) -> Line:
        """The queues of some replicas. rows: a mask."""
        beside = None if self.beside is None else self.beside[rows]
        return Line(self.service_s[rows], self.gap_scv[rows], self.scv[rows], beside)


def queues_s(layout: Layout, found: Load) -> Queues:
    """Queues in the steady state, of operators that are not overloaded.

    Where sockets differ, these are means over them. Only the first of chained operators has a queue.
    """
    fusing, rows, cells = layout.fusing, layout.operator_c, found.cells
    shared = sharing(layout, found)
    gap_on = gap_scv_on(layout, found)
    beside, hot = beside_on(layout, found), hottest(layout, found)
    busy_cn, fair_cn = demands(layout, found)
    speed_cn = fair_cn if shared is None else shared.placed(shared.alone_k, fair_cn)
    service_cn = (found.service_on if cells is None else cells.service_cn) / speed_cn
    line_cn = service_cn if fusing is None else found.line_s_on[rows] / speed_cn
    line = Line(line_cn, gap_on[rows], found.line_scv_on[rows], None if beside is None else beside[rows])
    load_cn = busy_cn / speed_cn
    wait_cn = line.wait_s(load_cn) if hot is None else hot.of(rows).mean(load_cn, line.wait_s)
    pace_cn = line_cn
    if shared is not None:
        wait_cn = shared.placed(_colliding_s(shared, line, load_cn, wait_cn), wait_cn)
        pace_cn = shared.placed(line_cn[shared.rows] * (1.0 + shared.others_k), line_cn)
    service_on, line_on, wait_on, pace_on = map(layout.mean, (service_cn, line_cn, wait_cn, pace_cn))
    if fusing is not None:  # those behind the first get what it gets
        slow_on = fusing.spread(line_on / np.maximum(found.line_s_on, 1e-300))
        longer_on = pace_on / np.maximum(line_on, 1e-300)
        service_on, line_on = found.service_on * slow_on, found.line_s_on * slow_on
        pace_on = line_on * fusing.spread(longer_on)
    wait_on = _of_common_queues(layout, found, line_on, beside, wait_on)
    if fusing is not None:
        wait_on = np.where(fusing.behind_on, 0.0, wait_on)
    return Queues(service_on, line_on, wait_on, gap_on, pace_on)


def _colliding_s(shared: Sharing, line: Line, load_cn: np.ndarray, wait_cn: np.ndarray) -> np.ndarray:
    """Waits of tasks that collide, [K], where wait_cn is what they were alone: longer by what others take, but of one
    that needs nearly a core at least what follows from its having no time to make up for what it loses; of those that
    need more than the others what they wait while busy all the time, as far as these are not alike."""
    rows = shared.rows
    mine, load = line.select(rows), load_cn[rows]
    waits_s = wait_cn[rows] + shared.longer_k * mine.service_s
    waits_s = np.asarray(np.maximum(waits_s, mine.slowed_s(load, shared.slower_k)))
    if shared.larger is not None:
        here, slower, more_s, share = shared.larger
        busy_s = mine.select(here).slowed_s(load[here], slower) + more_s
        waits_s[here] += share * np.maximum(busy_s - waits_s[here], 0.0)
    return waits_s


def _of_common_queues(
    layout: Layout, found: Load, line_on: np.ndarray, beside: np.ndarray | None, wait_on: np.ndarray
) -> np.ndarray:
    """With the waits of replicas that take from one queue in place."""
    rho = np.minimum(found.used_on, RHO_MAX)
    for o in np.flatnonzero(layout.job.dealing.shared_o):
        each = zip(layout.replicas_on[o], rho[o], line_on[o], strict=True)
        wait_on[o] = [mmc_wait_s(int(c), float(r), float(s)) for c, r, s in each]
        wait_on[o] *= (1.0 + found.line_scv_on[o]) / 2.0
        if beside is not None:
            wait_on[o] += beside[o] / layout.replicas_on[o] * line_on[o] / (2.0 * (1.0 - rho[o]))
    return wait_on
