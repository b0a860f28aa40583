"""How loaded the links of a cluster's network are under N plans at once, and how long they take.

Only for clusters with links. Letters at the end of a name are its axes (n plans, p pairs of hosts, k directed links).
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import permutations
from typing import TYPE_CHECKING

import numpy as np

from twin.query import Stream

if TYPE_CHECKING:
    from twin.rate_load import Layout

MEGA = 1e6


class LinkLayout:
    """The routes between all pairs of hosts that any of the plans uses."""

    def __init__(self, layout: Layout) -> None:
        cluster = layout.deployment.cluster
        used = np.any([(share > 0).any(axis=0) for share in layout.host_share_nh.values()], axis=0)
        names = {number: cluster.hosts[number].name for number in np.flatnonzero(used).tolist()}
        pairs = [pair for pair in permutations(names, 2) if cluster.routes.connected(*(names[each] for each in pair))]
        self.start_p = np.array([start for start, _ in pairs], dtype=int)
        self.end_p = np.array([end for _, end in pairs], dtype=int)
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
        self.latency_k = np.array([link.latency_ms for link in directed.values()]) * 1e-3

    def share_np(self, layout: Layout, stream: Stream) -> np.ndarray:
        """Share of a stream's tuples that go from the one host to the other. [N, P]"""
        starts, ends = layout.host_share_nh[stream.producer], layout.host_share_nh[stream.consumer]
        return np.asarray(starts[:, self.start_p] * ends[:, self.end_p])

    def latency_s(self, layout: Layout, stream: Stream) -> np.ndarray:
        """Mean over a stream's tuples of the latency of their links, 0 within a host. [N]"""
        latency_p = np.bincount(self.crossing_p, self.latency_k[self.crossing_k], len(self.start_p))
        return np.asarray(self.share_np(layout, stream) @ latency_p)

    def transmission_s(self, layout: Layout, stream: Stream, size: float, used: np.ndarray) -> np.ndarray:
        """Mean time that a tuple of that many bytes takes on all links, with the wait at that utilisation. [N]"""
        each_p = np.bincount(self.crossing_p, size / self.bandwidth_k[self.crossing_k], len(self.start_p))
        return np.asarray(self.share_np(layout, stream) @ each_p * (1.0 + used / (1.0 - used) / 2.0))

    def utilisation(self, layout: Layout, bytes_per_s: Mapping[Stream, np.ndarray]) -> dict[Stream, np.ndarray]:
        """By stream, the highest utilisation among the links that it crosses, by all streams. [N] each"""
        shares = {stream: self.share_np(layout, stream)[:, self.crossing_p] for stream in bytes_per_s}
        total_kn = np.zeros((len(self.bandwidth_k), layout.size))
        for stream, rate in bytes_per_s.items():
            np.add.at(total_kn, self.crossing_k, (rate[:, None] * shares[stream]).T)
        used_nk = total_kn.T / self.bandwidth_k
        return {
            stream: np.where(share > 0, used_nk[:, self.crossing_k], 0.0).max(axis=1, initial=0.0)
            for stream, share in shares.items()
        }
