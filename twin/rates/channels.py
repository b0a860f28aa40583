"""Ways of records between subtasks under N plans: channels with little room, and the network's cards and links."""

from __future__ import annotations

from collections.abc import Callable
from itertools import permutations
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from twin.kinds.windowed import Windowed
from twin.rates.queueing import RHO_MAX
from twin.rates.sockets import FULL, MEGA

if TYPE_CHECKING:
    from twin.cluster import Cluster
    from twin.rates.layout import Layout
    from twin.rates.load import Load


# channels with little room -------------------------------------------------------------------------------------------
# Channels with little room: they block producers that send in bursts, and add latency when full.
#
# Where several streams meet, their records wait in one line, of which the operator takes as much of each stream, but
# from those that bring less all they bring (max-min fairness). An evaluation of a window hands over all results at
# once: those that find no room leave at the pace of the slowest operator downstream, and the window's operator is
# blocked meanwhile. `twin.rates.filling` has how channels fill. Letters at the end of a name are the axes of
# `twin.rates.layout`.


LARGE = 2.0
"""Standard deviations by which a burst is larger than usual now and then. Values from 1 to 3 agree equally well with
exact runs of the corpora's joins."""


def burst_blocking(
    layout: Layout,
    in_on: np.ndarray,
    out_on: np.ndarray,
    fires_on: np.ndarray,
    used_on: np.ndarray,
    pace_sn: np.ndarray,
) -> dict[int, np.ndarray]:
    """Share of time that an operator's own bursts of results keep it blocked, by number of the windowed operator. [N]

    An evaluation hands over all results at once. Those that find no room in the channels down to an operator leave at
    that operator's pace, and the window's operator is blocked meanwhile. An operator with other inputs has only the
    time for this one that those leave. used_on: share of its time that an operator works; pace_sn: utilisation of a
    stream.
    """
    job, capacity_sn = layout.job, np.broadcast_to(layout.room_sn, pace_sn.shape)
    found: dict[int, np.ndarray] = {}
    for o in job.windows.all:
        fires = fires_on[o]
        size = np.divide(out_on[o], fires, out=np.zeros_like(fires), where=fires > 0)
        if not (size > capacity_sn.min()).any():
            continue
        worst = np.zeros(layout.size)
        ahead = [(s, np.zeros(layout.size)) for s in job.outputs[o]]  # streams, and room up to them
        while ahead:
            s, room = ahead.pop()
            consumer, sent = job.consumer_s[s], np.maximum(out_on[job.producer_s[s]] * job.share_s[s], 1e-12)
            each = out_on[o] / sent  # results of the window that make a record here
            room = room + capacity_sn[s] * layout.queues_on[consumer] / layout.copies_sn[s] * each
            used = used_on[consumer]
            mine = sent / np.maximum(in_on[consumer], 1e-12)
            here = used * mine / np.maximum(1.0 - used * (1.0 - mine), 0.05)
            # share of the time between evaluations that the whole burst would need here
            held = np.maximum(here, pace_sn[s]) * np.maximum(1.0 - room / np.maximum(size, 1e-12), 0.0)
            if layout.fusing is not None:
                held = np.where(layout.fusing.inner_sn[s], 0.0, held)
            worst = np.maximum(worst, held)
            if consumer not in job.windows.all:
                ahead.extend((each_s, room) for each_s in job.outputs[consumer])
        found[o] = worst
    return found


def held_up(
    layout: Layout, sent_sn: np.ndarray, fires: np.ndarray, blocked: np.ndarray, windowed: int
) -> tuple[np.ndarray, np.ndarray]:
    """Part of their work that operators upstream of a window over time have to do while its operator is not blocked by
    its results, and the share of time for which it is; 1 and 0 of all others. [O, N] each

    The results keep the window's operator blocked for a share b of each period. Meanwhile an operator upstream works
    until the channels in between are full: these hold a part r of a period's records. Its work, a share u of its time,
    fits if u (1 - r) <= 1 - b. Of several ways the one that holds least counts; of each stream, the channels of its
    busiest consumer. fires: evaluations a second [N]; blocked: b [N]; windowed: number of the window's operator.
    """
    job, size_on = layout.job, (len(layout.job.names), layout.size)
    left_on, blocked_on = np.ones(size_on), np.zeros(size_on)
    blocked_on[windowed] = blocked
    queues_on = layout.queues_on / layout.busiest_on
    for o in range(windowed, -1, -1):
        for s in job.inputs[o] if blocked_on[o].any() else ():
            producer = job.producer_s[s]
            held = layout.room_sn[s] * queues_on[o] / np.maximum(sent_sn[s], 1e-12) * fires
            left, before = np.clip(left_on[o] - held, 0.0, 1.0), left_on[producer]
            left_on[producer] = np.where(blocked_on[producer] > 0.0, np.maximum(left, before), left)
            blocked_on[producer] = blocked_on[o]
    blocked_on[windowed] = 0.0
    return left_on, blocked_on


def stalls(layout: Layout, offered: Load) -> dict[str, np.ndarray]:
    """Time that a record takes a join with a time window, by name, if its own bursts will stall it, else 0. [N]

    They will if bursts that are larger than usual, as random ones are now and then, do not leave before the next: the
    records that wait meanwhile make the next burst larger still.
    """
    job = layout.job
    found = {}
    for o, blocked in burst_blocking(
        layout, offered.in_on, offered.out_on, offered.fires_on, offered.used_on, offered.stream_sn
    ).items():
        operator = job.operators[o]
        if isinstance(operator, Windowed) and operator.bunches:
            sides = [offered.out_on[job.producer_s[s]] * job.share_s[s] * operator.window.size for s in job.inputs[o]]
            varied = np.sqrt(sum(1.0 / np.maximum(side, 1e-12) for side in sides))  # a product of Poisson numbers
            stalled = (blocked > 0) & (offered.used_on[o] + (1.0 + LARGE * varied) * blocked > 1.0)
            if stalled.any():
                each_s = offered.service_on[o] / offered.speed_on[o] / layout.subtasks_on[o]
                found[job.names[o]] = np.where(stalled, each_s, 0.0)
    return found


class MeasuredSpan(NamedTuple):
    """Part of a run, from an empty start at 0, over which means are taken."""

    start_s: float
    end_s: float

    @property
    def length_s(self) -> float:
        """Length of the measured part in seconds."""
        return self.end_s - self.start_s


def held_back(until: np.ndarray, measured: MeasuredSpan) -> np.ndarray:
    """Share of the measured time that comes after `until`."""
    return np.clip((measured.end_s - until) / measured.length_s, 0.0, 1.0)


def felt(layout: Layout, now: Load) -> tuple[np.ndarray, np.ndarray]:
    """Factors by which inputs are too fast: of operators (the worst pressure downstream) and of streams. [O, N], [S, N]

    Of an operator with several inputs, the too fast ones have a higher factor, those below the fair level a lower one.
    """
    job = layout.job
    felt_on, felt_sn, sent_sn = now.pressure(job), np.empty_like(now.card_sn), layout.carried_sn(now.out_on)
    for o in reversed(range(len(job.names))):
        for s in job.outputs[o]:
            np.maximum(felt_on[o], felt_sn[s], out=felt_on[o])
        if len(job.inputs[o]) == 1:
            felt_sn[job.inputs[o][0]] = felt_on[o]
        elif job.inputs[o]:
            rates = sent_sn[job.inputs[o]]
            fair = fair_rates(rates, felt_on[o], np.maximum(layout.room_sn[job.inputs[o]], 1.0))
            felt_sn[job.inputs[o]] = rates / np.maximum(fair, 1e-12)
    return felt_on, felt_sn


def fair_rates(rates: np.ndarray, over: np.ndarray, places: np.ndarray | float = 1.0) -> np.ndarray:
    """Highest rates of streams that are let through, so that all together make the sum of their rates over `over`.
    [K, N]

    rates: [K, N]. places: records of a stream that can stand in the line [K, N]. By Little's law, streams whose records
    wait as long in one line pass it at rates like their numbers in it. Streams that bring more than their share are
    slowed to it. Where over < 1, streams are let through whole: the highest is that of the fastest over `over`.
    """
    over = np.maximum(over, 1e-12)
    rates, places = np.broadcast_arrays(rates, places)
    each = rates / places
    slower = each[None] < each[:, None]
    capacity = rates.sum(axis=0) / over
    left = places.sum(axis=0) - (slower * places[None]).sum(axis=1)
    shared = (capacity - (slower * rates[None]).sum(axis=1)) / left
    return np.asarray(np.where(over >= 1.0, shared.max(axis=0), each.max(axis=0) / over) * places)


class Full(NamedTuple):
    """Full channels: which operators' input queues, and which streams' channels, are full [O, N], [S, N] bool. jam_on:
    where sockets differ, the share of an operator's subtasks whose channels are full if any are [O, N]."""

    blocked_on: np.ndarray
    full_sn: np.ndarray
    jam_on: np.ndarray | None


def full_channels(layout: Layout, found: Load, share: np.ndarray) -> Full:
    """Finds full channels. A stream's channel is full if it, its consumer or something downstream is the bottleneck;
    where several streams meet, only those which bring more than the fair rate are. Where sockets differ, the subtasks
    on some are the bottleneck."""
    job = layout.job
    throttled = share.min(axis=0) < 1.0
    stream_sn = found.stream_sn
    blocked_on = throttled & (found.cpu_on > FULL)
    full_sn = throttled & (stream_sn > FULL)
    jam_on = None
    if found.cells is not None:
        busy_cn = found.cells.cpu_cn > FULL
        # what is held up otherwise, as by calls or by its own bursts, is so first at its busiest subtasks
        busiest_cn = np.asarray(layout.skew_cn * (1.0 + 1e-9) >= layout.busiest_on[layout.operator_c])
        busy_cn = np.where(layout.worst(busy_cn)[layout.operator_c], busy_cn, busiest_cn)
        jam_on = layout.over_cells(np.where(busy_cn, layout.evenly_cn, 0.0))
    if not throttled.any():
        return Full(blocked_on, full_sn, jam_on)
    felt_sn = felt(layout, found)[1]
    for o in reversed(range(len(job.names))):
        for s in job.outputs[o]:
            blocked_on[o] |= full_sn[s]
            if jam_on is not None:
                jam_on[o] = np.where(full_sn[s], 1.0, jam_on[o])
        for s in job.inputs[o]:
            full_sn[s] |= blocked_on[o] & (felt_sn[s] > 0.99)
    return Full(blocked_on, full_sn, jam_on)


def channel_waits_s(layout: Layout, found: Load, full: Full, link_sn: np.ndarray) -> np.ndarray:
    """Seconds from leaving the producer to the head of the consumer's queue if channels are full; else on the network.
    [S, N]

    A full channel holds what it has room for, the way included: by Little's law a record spends room over rate in it. A
    stream that is not full but meets a full one waits in the same line.
    """
    job, (blocked_on, full_sn, jam_on) = layout.job, full
    if not full_sn.any():
        return link_sn
    sent_sn = layout.carried_sn(found.out_on)
    per_subtask_sn = sent_sn / layout.queues_on[job.consumer_s]
    inside_sn = layout.debloated_sn(layout.room_sn, per_subtask_sn) / np.maximum(per_subtask_sn, 1e-9)
    if jam_on is not None:
        jam_sn = np.where(blocked_on[job.consumer_s], jam_on[job.consumer_s], 1.0)
        inside_sn = link_sn + (inside_sn - link_sn) * jam_sn
    queued_sn = np.where(full_sn & blocked_on[job.consumer_s], np.maximum(inside_sn - link_sn, 0.0), 0.0)
    passed_sn = np.where(full_sn, np.maximum(inside_sn, link_sn), link_sn)
    for streams in job.inputs:
        if len(streams) > 1:
            line = queued_sn[streams].max(axis=0)
            for s in streams:
                passed_sn[s] = np.where(full_sn[s], passed_sn[s], link_sn[s] + line)
    return passed_sn


# the network ---------------------------------------------------------------------------------------------------------
# Loads of the network's cards and links under N plans at once, and the time that records take over them.
#
# A route is a row of hops: the card of the host where it begins, then its links, if the cluster has any. Each is an
# M/G/1 queue with the records of all streams that cross it, whose services are their transmissions; waits in a row add
# up.
#
# Letters at the end of a name are its axes: s streams, n plans, p pairs of hosts, k hops.


Of = Callable[[int, np.ndarray], np.ndarray]
"""Function that sums a value of pairs of hosts [P, X] over a stream's pairs, by their shares of its records: [N, X]."""


class Hops:
    """Hops of a cluster, the k axis: the cards of its hosts, and its links. Without links, a card leads to any host."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        cards = [(host.bandwidth_mbps, 0.0 if cluster.links else host.latency_ms) for host in cluster.hosts]
        links = [(ends, link) for link in cluster.links for ends in (link.between, link.between[::-1])]
        self._number = {ends: len(cards) + index for index, (ends, _) in enumerate(links)}
        each = np.array([*cards, *((link.bandwidth_mbps, link.latency_ms) for _, link in links)])
        self.slow_k, self.latency_k = 8.0 / MEGA / each[:, 0], each[:, 1] * 1e-3
        """Transmission in seconds a byte, and latency in seconds, of each hop. [K] each"""

    def route(self, start: int, end: int) -> list[int]:
        """Hops from one host to another, in order; empty if there is no route."""
        if start == end:
            return []
        if not self.cluster.links:
            return [start]
        names, routes = [self.cluster.hosts[each].name for each in (start, end)], self.cluster.routes
        return [start, *(self._number[ends] for ends in routes.between(*names))] if routes.connected(*names) else []


class LinkLayout:
    """Links of the network under N plans: the part of each stream that crosses each hop."""

    def __init__(self, layout: Layout) -> None:
        job = layout.job
        hops = Hops(job.deployment.cluster)
        self.bytes_s, self._slow_k = job.costs.bytes_s, hops.slow_k
        pairs, of = (_of_hosts if layout.single else _of_shares)(layout)
        routes = [hops.route(*pair) for pair in pairs]
        slow_pk = np.zeros((len(pairs), len(self._slow_k)))
        for p, route in enumerate(routes):
            slow_pk[p, route] = self._slow_k[route]
        rows = range(len(job.streams))
        self._slow_snk = np.stack([of(s, slow_pk) for s in rows])
        self._share_snk = np.stack([of(s, np.sign(slow_pk)) for s in rows])
        self.latency_sn = self._share_snk @ hops.latency_k
        """Mean over a stream's records of the latency of their links, 0 within a host. [S, N]"""
        self.send_sn = self._slow_snk.sum(axis=2) * self.bytes_s[:, None]
        """Mean time that a record of a stream takes on the card and all links of its route. [S, N]"""

    def used_nk(self, bytes_sn: np.ndarray) -> np.ndarray:
        """Utilisation of all hops. bytes_sn: bytes a second. [N, K]"""
        return np.einsum("sn,snk->nk", bytes_sn, self._slow_snk)

    def utilisation_sn(self, bytes_sn: np.ndarray) -> np.ndarray:
        """Highest utilisation, by all streams, of the hops that a stream crosses. bytes_sn: bytes a second. [S, N]"""
        return np.where(self._share_snk > 0, self.used_nk(bytes_sn), 0.0).max(axis=2, initial=0.0)

    def waits_sn(self, sent_sn: np.ndarray) -> np.ndarray:
        """Mean time for which a stream's records wait at all hops, in seconds. sent_sn: records a second. [S, N]"""
        used_nk, squares_nk = np.zeros((2, *self._slow_snk.shape[1:]))
        for s, sent_n in enumerate(sent_sn * self.bytes_s[:, None]):
            used_nk += sent_n[:, None] * self._slow_snk[s]
            squares_nk += sent_n[:, None] * self._slow_snk[s] * self._slow_k * self.bytes_s[s]
        each_nk = squares_nk / 2.0 / (1.0 - np.minimum(used_nk, RHO_MAX))
        return np.asarray((self._share_snk * each_nk).sum(axis=2))


def _of_hosts(layout: Layout) -> tuple[list[tuple[int, int]], Of]:
    """Pairs of hosts that streams connect, where every operator is on one host."""
    job, hosts = layout.job, len(layout.job.places.bandwidth_h)
    pair_sn = layout.host_cn[job.producer_s] * hosts + layout.host_cn[job.consumer_s]
    pairs, place = np.unique(pair_sn, return_inverse=True)
    place_sn = place.reshape(pair_sn.shape)
    return [divmod(pair, hosts) for pair in pairs.tolist()], lambda s, each_px: each_px[place_sn[s]]


def _of_shares(layout: Layout) -> tuple[list[tuple[int, int]], Of]:
    """Pairs of hosts that streams connect, if subtasks may be on several hosts; chained streams connect none."""
    job = layout.job
    shares_onh = [layout.taken_nh(o) for o in range(len(job.names))]
    used = np.flatnonzero(np.any([(share > 0).any(axis=0) for share in shares_onh], axis=0)).tolist()
    pairs = list(permutations(used, 2))
    start_p, end_p = np.array(pairs, dtype=int).reshape(-1, 2).T

    def of(s: int, each_px: np.ndarray) -> np.ndarray:
        ends = job.producer_s[s], job.consumer_s[s]
        start_nh, end_nh, ways_np = layout.emitted_nh(ends[0]), shares_onh[ends[1]], shares_onh[ends[1]][:, end_p]
        if job.dealing.forward_s[s]:
            ways_np = layout.partners_np(ends, job.places.host_l, (start_p, end_p))
        crossed_np = start_nh[:, start_p] * ways_np
        if job.hows[s].near:  # records leave only hosts without a consumer
            crossed_np *= end_nh[:, start_p] == 0.0
        crossed_nx = crossed_np @ each_px
        return crossed_nx if layout.fusing is None else crossed_nx * ~layout.fusing.inner_sn[s][:, None]

    return pairs, of


def used_cards(layout: Layout, sent_sn: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Highest utilisation among the cards and links that a stream crosses [S, N]; utilisation of all cards [H, N]."""
    job = layout.job
    bytes_sn = sent_sn * job.costs.bytes_s[:, None] + np.zeros(layout.size)
    leaving_cn = np.zeros(layout.count_cn.shape)
    for s, producer in enumerate(job.producer_s):
        leaving_cn[layout.cells(producer)] += bytes_sn[s] * layout.leaving[s]
    used_hn = layout.by_host(leaving_cn) / job.places.bandwidth_h[:, None]
    if layout.links is not None:
        return layout.links.utilisation_sn(bytes_sn), used_hn
    used_cn = layout.of_hosts(used_hn)
    cards = [
        np.where(layout.leaving[s] > 0, used_cn[layout.cells(producer)], 0.0).max(axis=0)
        for s, producer in enumerate(job.producer_s)
    ]
    return np.stack(cards), used_hn


def used_hops(layout: Layout, found: Load) -> np.ndarray:
    """Utilisation of the hosts' network cards, then of the links, each in both directions. [N, K]"""
    if layout.links is None:
        return np.asarray(found.card_hn.T)
    return layout.links.used_nk(layout.carried_sn(found.out_on) * layout.job.costs.bytes_s[:, None])


def links_s(layout: Layout, found: Load) -> np.ndarray:
    """Latency, transmission and wait for the network card and the links, in seconds. [S, N]"""
    sent_sn = layout.carried_sn(found.out_on)
    if layout.links is not None:
        send_sn, waits_sn = layout.links.send_sn, layout.links.waits_sn(sent_sn)
    else:
        send_sn, waits_sn = layout.send_sn, _card_waits_sn(layout, found, sent_sn)
    return np.asarray(layout.latency_sn + send_sn + np.where(found.card_sn > 0.0, waits_sn, 0.0))


def _card_waits_sn(layout: Layout, found: Load, sent_sn: np.ndarray) -> np.ndarray:
    """Mean time for which a stream's records wait for cards: lambda E[S^2] / (2 (1 - rho)), by Pollaczek and Khinchine,
    S being the transmission of whatever leaves the host. [S, N]"""
    job = layout.job
    squares_cn = np.zeros(layout.count_cn.shape)
    for s, producer in enumerate(job.producer_s):
        squares_cn[layout.cells(producer)] += sent_sn[s] * job.costs.bytes_s[s] ** 2 * layout.leaving[s]
    squares_hn = layout.by_host(squares_cn) / job.places.bandwidth_h[:, None] ** 2
    waits_cn = layout.of_hosts(squares_hn / 2.0 / (1.0 - np.minimum(found.card_hn, RHO_MAX)))
    pairs = zip(layout.leaving, job.producer_s, strict=True)
    return np.stack([(leaving * waits_cn[layout.cells(o)]).sum(axis=0) for leaving, o in pairs])
