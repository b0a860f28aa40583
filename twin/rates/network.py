"""How loaded the links of a cluster's network are under N plans at once, and how long tuples take over them.

Only for clusters with links. A route is a row of hops, each a queue of deterministic service: the card of the host
where it begins, where tuples wait as in clusters without links, then its links. At a link wait

* what is new there, as in an M/G/1 queue of all that crosses it;
* what comes from another hop, by so much less as it is spaced already. Equal hops in a row make one wait, unequal
  ones that of the slowest, in whatever order (Friedman, "Reduction methods for tandem queuing systems", 1965). So what
  is spared is at least the stream's wait in a queue of its own, of the slowest service on its way or of this hop's, the
  faster of both, which is exact where equal hops join; at most that at the slowest; and between these as the gaps of
  departures vary less, by the square of the utilisation (Marshall 1968);
* small tuples behind larger ones, again at each hop, as these take longer to come in: of a busy period none is over a
  hop sooner than the largest so far (Boxma, "On a tandem queueing model with identical service times", 1979).

Letters at the end of a name are its axes: s streams, n plans, p pairs of hosts, k hops, t turns from hop to hop.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise, permutations
from typing import TYPE_CHECKING

import numpy as np

from twin.rates.queueing import RHO_MAX
from twin.rates.sockets import MEGA

if TYPE_CHECKING:
    from twin.cluster import Cluster
    from twin.rates.layout import Layout
    from twin.rates.load import Load

Of = Callable[[int, np.ndarray], np.ndarray]
"""Sum over a stream's pairs of hosts, by their shares of its tuples, of what is true of each [P, X]: [N, X]."""


class Hops:
    """The cards of a cluster's hosts, and its links: the k axis. Where there are no links, a card leads to any host."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        cards = [(host.bandwidth_mbps, 0.0 if cluster.links else host.latency_ms) for host in cluster.hosts]
        links = [(ends, link) for link in cluster.links for ends in (link.between, link.between[::-1])]
        self._number = {ends: len(cards) + index for index, (ends, _) in enumerate(links)}
        each = np.array([*cards, *((link.bandwidth_mbps, link.latency_ms) for _, link in links)])
        self.slow_k, self.latency_k = 8.0 / MEGA / each[:, 0], each[:, 1] * 1e-3
        """Seconds a byte, and seconds."""

    def route(self, start: int, end: int) -> list[int]:
        """The hops from one host to another, in order; empty if there is no route."""
        if start == end:
            return []
        if not self.cluster.links:
            return [start]
        names, routes = [self.cluster.hosts[each].name for each in (start, end)], self.cluster.routes
        return [start, *(self._number[ends] for ends in routes.between(*names))] if routes.connected(*names) else []


class LinkLayout:
    """Which part of each stream crosses which hops."""

    def __init__(self, layout: Layout) -> None:
        job = layout.job
        hops = Hops(job.deployment.cluster)
        self.bytes_s, self._slow_k, self._cards = job.costs.bytes_s, hops.slow_k, len(job.places.bandwidth_h)
        pairs, self._of = (_of_hosts if layout.single else _of_shares)(layout)
        routes = [hops.route(*pair) for pair in pairs]
        self._slow_pk = np.zeros((len(pairs), len(self._slow_k)))
        for p, route in enumerate(routes):
            self._slow_pk[p, route] = self._slow_k[route]
        self._turns_t2, self._slowest_pt = _turns(routes, self._slow_k)
        rows = range(len(job.streams))
        self._slow_snk = np.stack([self._of(s, self._slow_pk) for s in rows])
        self._share_snk = np.stack([self._of(s, np.sign(self._slow_pk)) for s in rows])
        self.latency_sn = self._share_snk @ hops.latency_k
        """Mean over a stream's tuples of the latency of their links, 0 within a host. [S, N]"""
        self.send_sn = self._slow_snk.sum(axis=2) * self.bytes_s[:, None]
        """Mean time that a tuple of a stream takes on the card and all links of its route. [S, N]"""

    def used_nk(self, bytes_sn: np.ndarray) -> np.ndarray:
        """Utilisation of all hops. bytes_sn: a second. [N, K]"""
        return np.einsum("sn,snk->nk", bytes_sn, self._slow_snk)

    def utilisation_sn(self, bytes_sn: np.ndarray) -> np.ndarray:
        """The highest utilisation, by all streams, among the hops that a stream crosses. bytes_sn: a second. [S, N]"""
        return np.where(self._share_snk > 0, self.used_nk(bytes_sn), 0.0).max(axis=2, initial=0.0)

    def waits_sn(self, sent_sn: np.ndarray) -> np.ndarray:
        """Mean time for which a stream's tuples wait at all hops. sent_sn: tuples a second. [S, N]"""
        before_t, after_t = self._turns_t2.T
        into_tk = np.eye(len(self._slow_k))[after_t]
        rate_nk, used_nk, alone_nk = self._queues(sent_sn, self._slow_pk)
        rate_nt, _, least_nt = self._queues(sent_sn, np.minimum(self._slowest_pt, self._slow_k[after_t]))
        _, spaced_nt, most_nt = self._queues(sent_sn, self._slowest_pt)
        spared_nt = np.clip(spaced_nt**2 * alone_nk[:, after_t], least_nt, most_nt)
        fresh_nk = np.maximum(alone_nk - (rate_nt * spared_nt) @ into_tk / np.maximum(rate_nk, 1e-12), 0.0)
        behind = self._behind(sent_sn, 1.0 - np.minimum(used_nk, RHO_MAX)[:, before_t])
        waits_sn = np.empty(self.send_sn.shape)
        for s, size in enumerate(self.bytes_s):
            behind_nt = self._of(s, np.sign(self._slowest_pt)) * behind[size]
            waits_sn[s] = (self._share_snk[s] * fresh_nk).sum(axis=1) + behind_nt.sum(axis=1)
        return waits_sn

    def _behind(self, sent_sn: np.ndarray, idle_nt: np.ndarray) -> dict[float, np.ndarray]:
        """By a tuple's bytes, for how long larger ones that turned before it hold it up. [N, T]

        They do so for as long as it is busy since they came, and half of what longer they take over the next hop.
        idle_nt: share of time in which the hop before the turn has nothing to send.
        """
        before_t, after_t = self._turns_t2.T
        slow_pt, sizes = np.sign(self._slowest_pt) * self._slow_k[before_t], np.unique(self.bytes_s)
        found = {sizes[-1]: np.zeros_like(idle_nt)}
        for size, larger in reversed(list(pairwise(sizes))):
            larger_nt, used_nt, _ = self._queues(np.where(self.bytes_s[:, None] > size, sent_sn, 0.0), slow_pt)
            odds_nt = (used_nt + (used_nt - larger_nt * size * self._slow_k[before_t]) / 2.0) / idle_nt
            found[size] = found[larger] + odds_nt / (1.0 + odds_nt) * (larger - size) * self._slow_k[after_t]
        return found

    def _queues(self, sent_sn: np.ndarray, slow_px: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Tuples a second, utilisation and mean wait of M/G/1 queues which take so many seconds a byte. [N, X] each"""
        rate_nx, used_nx, squares_nx = np.zeros((3, self.send_sn.shape[1], slow_px.shape[1]))
        for s, sent_n in enumerate(sent_sn):
            rate_nx += sent_n[:, None] * self._of(s, np.sign(slow_px))
            used_nx += sent_n[:, None] * self._of(s, slow_px * self.bytes_s[s])
            squares_nx += sent_n[:, None] * self._of(s, (slow_px * self.bytes_s[s]) ** 2)
        return rate_nx, used_nx, squares_nx / 2.0 / (1.0 - np.minimum(used_nx, RHO_MAX))


def _of_hosts(layout: Layout) -> tuple[list[tuple[int, int]], Of]:
    """Pairs of hosts that streams connect, where every operator is on one host."""
    job, hosts = layout.job, len(layout.job.places.bandwidth_h)
    pair_sn = layout.host_cn[job.producer_s] * hosts + layout.host_cn[job.consumer_s]
    pairs, place = np.unique(pair_sn, return_inverse=True)
    place_sn = place.reshape(pair_sn.shape)
    return [divmod(pair, hosts) for pair in pairs.tolist()], lambda s, each_px: each_px[place_sn[s]]


def _of_shares(layout: Layout) -> tuple[list[tuple[int, int]], Of]:
    """The same where replicas of an operator may be on several hosts; what is fused leaves none."""
    job = layout.job
    shares_onh = [layout.host_share_nh(o) for o in range(len(job.names))]
    used = np.flatnonzero(np.any([(share > 0).any(axis=0) for share in shares_onh], axis=0)).tolist()
    pairs = list(permutations(used, 2))
    start_p, end_p = np.array(pairs, dtype=int).reshape(-1, 2).T

    def of(s: int, each_px: np.ndarray) -> np.ndarray:
        start_nh, end_nh = layout.emitted_nh(job.producer_s[s]), shares_onh[job.consumer_s[s]]
        crossed_np = start_nh[:, start_p] * end_nh[:, end_p]
        if job.hows[s].near:  # only from hosts without a consumer
            crossed_np *= end_nh[:, start_p] == 0.0
        crossed_nx = crossed_np @ each_px
        return crossed_nx if layout.fusing is None else crossed_nx * ~layout.fusing.inner_sn[s][:, None]

    return pairs, of


def _turns(routes: Sequence[Sequence[int]], slow_k: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Every hop that any route takes after another, with that one before it [T, 2]; by route, seconds a byte of the
    slowest hop before the turn, 0 if it has no such turn [P, T]."""
    turns = sorted({turn for route in routes for turn in pairwise(route)})
    slowest_pt = np.zeros((len(routes), len(turns)))
    for p, route in enumerate(routes):
        for place, turn in enumerate(pairwise(route)):
            slowest_pt[p, turns.index(turn)] = slow_k[route[: place + 1]].max()
    return np.array(turns, dtype=int).reshape(-1, 2), slowest_pt


def used_cards(layout: Layout, sent_sn: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The highest utilisation among the cards and links that a stream crosses [S, N]; of all cards [H, N]."""
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
        return np.asarray(found.nic_hn.T)
    return layout.links.used_nk(layout.carried_sn(found.out_on) * layout.job.costs.bytes_s[:, None])


def links_s(layout: Layout, found: Load) -> np.ndarray:
    """Latency, transmission and the wait for the network card and the links. [S, N]"""
    sent_sn = layout.carried_sn(found.out_on)
    if layout.links is not None:
        send_sn, waits_sn = layout.links.send_sn, layout.links.waits_sn(sent_sn)
    else:
        send_sn, waits_sn = layout.send_sn, _card_waits_sn(layout, found, sent_sn)
    return np.asarray(layout.latency_sn + send_sn + np.where(found.nic_sn > 0.0, waits_sn, 0.0))


def _card_waits_sn(layout: Layout, found: Load, sent_sn: np.ndarray) -> np.ndarray:
    """Mean time for which a stream's tuples wait for cards: lambda E[S^2] / (2 (1 - rho)), by Pollaczek and Khinchine,
    S being the transmission of whatever leaves the host. [S, N]"""
    job = layout.job
    squares_cn = np.zeros(layout.count_cn.shape)
    for s, producer in enumerate(job.producer_s):
        squares_cn[layout.cells(producer)] += sent_sn[s] * job.costs.bytes_s[s] ** 2 * layout.leaving[s]
    squares_hn = layout.by_host(squares_cn) / job.places.bandwidth_h[:, None] ** 2
    waits_cn = layout.of_hosts(squares_hn / 2.0 / (1.0 - np.minimum(found.nic_hn, RHO_MAX)))
    pairs = zip(layout.leaving, job.producer_s, strict=True)
    return np.stack([(leaving * waits_cn[layout.cells(o)]).sum(axis=0) for leaving, o in pairs])
