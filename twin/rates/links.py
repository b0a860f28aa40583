"""How loaded the links of a cluster's network are under N plans at once, and how long they take.

Only for clusters with links. Letters at the end of a name are its axes (n plans, p pairs of hosts, k directed links).
"""

from __future__ import annotations

from itertools import permutations
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from twin.cluster import Cluster
    from twin.rates.layout import Layout

MEGA = 1e6


class LinkLayout:
    """Which part of each stream crosses which links."""

    def __init__(self, layout: Layout) -> None:
        job = layout.job
        directed = [
            (ends, link) for link in job.deployment.cluster.links for ends in (link.between, link.between[::-1])
        ]
        self.bandwidth_k = np.array([link.bandwidth_mbps for _, link in directed]) * MEGA / 8
        latency_k = np.array([link.latency_ms for _, link in directed]) * 1e-3
        number = {ends: index for index, (ends, _) in enumerate(directed)}
        crossed = _of_hosts if layout.single else _of_shares
        self._share_snk = crossed(layout, number)
        self.latency_sn = self._share_snk @ latency_k
        """Mean over a stream's tuples of the latency of their links, 0 within a host. [S, N]"""
        self.send_sn = (self._share_snk @ (1.0 / self.bandwidth_k)) * job.bytes_s[:, None]
        """Mean time that a tuple of a stream takes on all links of its route. [S, N]"""

    def utilisation_sn(self, bytes_sn: np.ndarray) -> np.ndarray:
        """The highest utilisation, by all streams, among the links that a stream crosses. bytes_sn: a second. [S, N]"""
        used_nk = np.einsum("sn,snk->nk", bytes_sn, self._share_snk) / self.bandwidth_k
        return np.where(self._share_snk > 0, used_nk, 0.0).max(axis=2, initial=0.0)


def _of_hosts(layout: Layout, number: dict[tuple[str, str], int]) -> np.ndarray:
    """[S, N, K] the part of a stream's tuples that crosses a link, where every operator is on one host."""
    job, hosts = layout.job, len(layout.job.bandwidth_h)
    pair_sn = layout.host_cn[job.producer_s] * hosts + layout.host_cn[job.consumer_s]
    pairs, place = np.unique(pair_sn, return_inverse=True)
    ends = [divmod(pair, hosts) for pair in pairs.tolist()]
    crossed = _crossed(job.deployment.cluster, ends, number)
    return np.asarray(crossed[place.ravel()]).reshape(*pair_sn.shape, len(number))


def _of_shares(layout: Layout, number: dict[tuple[str, str], int]) -> np.ndarray:
    """The same where replicas of an operator may be on several hosts."""
    job = layout.job
    cluster = job.deployment.cluster
    shares_onh = [layout.host_share_nh(o) for o in range(len(job.names))]
    used = np.flatnonzero(np.any([(share > 0).any(axis=0) for share in shares_onh], axis=0)).tolist()
    names = [host.name for host in cluster.hosts]
    pairs = [pair for pair in permutations(used, 2) if cluster.routes.connected(*(names[each] for each in pair))]
    start_p, end_p = np.array(pairs, dtype=int).reshape(-1, 2).T
    crossed = _crossed(cluster, pairs, number)
    ends = zip(job.producer_s, job.consumer_s, strict=True)
    return np.stack([(shares_onh[one][:, start_p] * shares_onh[other][:, end_p]) @ crossed for one, other in ends])


def _crossed(cluster: Cluster, pairs: list[tuple[int, int]], number: dict[tuple[str, str], int]) -> np.ndarray:
    """[P, K] 1 where the route between two hosts crosses a link; no route is none."""
    names, routes = [host.name for host in cluster.hosts], cluster.routes
    crossed = np.zeros((len(pairs), len(number)))
    for pair, (start, end) in enumerate(pairs):
        if routes.connected(names[start], names[end]):
            crossed[pair, [number[ends] for ends in routes.between(names[start], names[end])]] = 1.0
    return crossed
