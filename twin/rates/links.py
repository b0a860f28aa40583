"""How loaded the links of a cluster's network are under N plans at once, and how long they take.

Only for clusters with links. Letters at the end of a name are its axes (n plans, p pairs of hosts, k directed links).
"""

from __future__ import annotations

from itertools import permutations
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from twin.rates.layout import Layout

MEGA = 1e6


class LinkLayout:
    """The routes between all pairs of hosts that any of the plans uses."""

    def __init__(self, layout: Layout) -> None:
        job = layout.job
        cluster = job.deployment.cluster
        shares_onh = [layout.host_share_nh(o) for o in range(len(job.names))]
        used = np.any([(share > 0).any(axis=0) for share in shares_onh], axis=0)
        names = {number: cluster.hosts[number].name for number in np.flatnonzero(used).tolist()}
        pairs = [pair for pair in permutations(names, 2) if cluster.routes.connected(*(names[each] for each in pair))]
        start_p = np.array([start for start, _ in pairs], dtype=int)
        end_p = np.array([end for _, end in pairs], dtype=int)
        directed = {ends: link for link in cluster.links for ends in (link.between, link.between[::-1])}
        number = {ends: index for index, ends in enumerate(directed)}
        crossed = [
            (pair, number[ends])
            for pair, (start, end) in enumerate(pairs)
            for ends in cluster.routes.between(names[start], names[end])
        ]
        # the links of all routes in a row: of pair crossing_p[i], link crossing_k[i]
        self.crossing_p, self.crossing_k = np.array(crossed, dtype=int).reshape(-1, 2).T
        self.bandwidth_k = np.array([link.bandwidth_mbps for link in directed.values()]) * MEGA / 8
        latency_k = np.array([link.latency_ms for link in directed.values()]) * 1e-3
        per_byte_p = np.bincount(self.crossing_p, 1.0 / self.bandwidth_k[self.crossing_k], len(pairs))
        latency_p = np.bincount(self.crossing_p, latency_k[self.crossing_k], len(pairs))
        ends = zip(job.producer_s, job.consumer_s, strict=True)
        share_snp = [shares_onh[start][:, start_p] * shares_onh[end][:, end_p] for start, end in ends]
        self.latency_sn = np.stack([share @ latency_p for share in share_snp])
        """Mean over a stream's tuples of the latency of their links, 0 within a host. [S, N]"""
        self.send_sn = np.stack([share @ per_byte_p for share in share_snp]) * job.bytes_s[:, None]
        """Mean time that a tuple of a stream takes on all links of its route. [S, N]"""
        self._share_snk = np.stack([share[:, self.crossing_p] for share in share_snp])

    def utilisation_sn(self, bytes_sn: np.ndarray) -> np.ndarray:
        """The highest utilisation, by all streams, among the links that a stream crosses. bytes_sn: a second. [S, N]"""
        total_kn = np.zeros((len(self.bandwidth_k), self._share_snk.shape[1]))
        np.add.at(total_kn, self.crossing_k, np.einsum("sn,snk->kn", bytes_sn, self._share_snk))
        used_nk = (total_kn.T / self.bandwidth_k)[:, self.crossing_k]
        return np.where(self._share_snk > 0, used_nk, 0.0).max(axis=2, initial=0.0)
