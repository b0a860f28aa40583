"""Loads of the network's cards and links under N plans at once, and the time that records take over them.

A route is a row of hops: the card of the host where it begins, then its links, if the cluster has any. Each is an M/G/1
queue with the records of all streams that cross it, whose services are their transmissions; waits in a row add up.

Letters at the end of a name are its axes: s streams, n plans, p pairs of hosts, k hops.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import permutations
from typing import TYPE_CHECKING

import numpy as np

from twin.rates.queueing import RHO_MAX
from twin.rates.sockets import MEGA

if TYPE_CHECKING:
    from twin.cluster import Cluster
    from twin.rates.layout import Layout
    from twin.rates.load import Load

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
