"""Sockets of hosts, and what they add to the load of N plans: fetching between them, limits of memory, clocks.

They count only for clusters that say any of it. A tuple that a replica takes from another socket of its host costs it
cache lines at the distance of the two (BriskStream, SIGMOD 2019, section 3.1), which it waits for whatever its clock.
The bytes moved inside a socket or between two are bounded (equations 4 and 5): demand beyond gives every byte a price,
time for which its users wait, that makes the first of them always busy when just the limit is moved. Those that have
time left at that price feel less.

Streams count as dealt evenly from all replicas to all, whatever their partitioning. Letters at the end of a name are
axes, as in `twin.rates.layout`; k is a socket of the host in question, counted from 0.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple, Self

import numpy as np

from twin.cluster import Cluster
from twin.plan import Location
from twin.rates.cpu_sharing import FULL, fair_level, share_cores

if TYPE_CHECKING:
    from twin.rates.layout import Layout


MEGA, GIGA = 1e6, 1e9


class Places(NamedTuple):
    """Hosts of a cluster and their sockets, in a row.

    column: the number of a socket. host_l: its host; capacity_l: its cores; speed_l: reference cores that one core is
    worth; first_l: the first socket of the same host. line_lk: reference-core seconds for a cache line from socket k of
    the same host. limit_lk: bytes a second that can be moved from there, on the diagonal those of the socket's own
    memory; inf where nothing is said. By host: capacity_h: cores; bandwidth_h: bytes a second out; latency_h: seconds
    out, where the cluster has no links; ram_mb_h: memory.
    """

    column: Mapping[Location, int]
    host_l: np.ndarray
    capacity_l: np.ndarray
    speed_l: np.ndarray
    first_l: np.ndarray
    line_lk: np.ndarray
    limit_lk: np.ndarray
    capacity_h: np.ndarray
    bandwidth_h: np.ndarray
    latency_h: np.ndarray
    ram_mb_h: np.ndarray

    @classmethod
    def of(cls, cluster: Cluster) -> Self:
        """Places of a cluster."""
        hosts = cluster.hosts
        sockets = [(number, host, own) for number, host in enumerate(hosts) for own in range(host.socket_count)]
        most = max(host.socket_count for host in hosts)
        line_lk, limit_lk = np.zeros((len(sockets), most)), np.full((len(sockets), most), np.inf)
        for row, (_, host, own) in enumerate(sockets):
            speed, gbps = host.core_speed(own), host.numa.bandwidth_gbps if host.numa else None
            for other in range(host.socket_count):
                line_lk[row, other] = host.socket_latency_s(other, own) * speed
                if gbps is not None:
                    limit_lk[row, other] = gbps[other][own] * GIGA
            local_gbps = host.sockets[own].bandwidth_gbps if host.sockets else None
            limit_lk[row, own] = np.inf if local_gbps is None else local_gbps * GIGA
        host_l = np.array([number for number, _, _ in sockets])
        capacity_l = np.array([host.socket_capacity(own) for _, host, own in sockets])
        return cls(
            column={Location(host.name, own): index for index, (_, host, own) in enumerate(sockets)},
            host_l=host_l,
            capacity_l=capacity_l,
            speed_l=np.array([host.core_speed(own) for _, host, own in sockets]),
            first_l=np.array([row - own for row, (_, _, own) in enumerate(sockets)]),
            line_lk=line_lk,
            limit_lk=limit_lk,
            capacity_h=np.bincount(host_l, capacity_l),
            bandwidth_h=np.array([host.bandwidth_mbps for host in hosts]) * MEGA / 8,
            latency_h=np.array([host.latency_ms for host in hosts]) * 1e-3,
            ram_mb_h=np.array([host.ram_mb for host in hosts]),
        )

    @property
    def core_l(self) -> np.ndarray:
        """Reference cores of a socket that one replica can use. [L]"""
        return np.minimum(self.speed_l, self.capacity_l)

    @property
    def limited(self) -> bool:
        """Whether the bandwidth of any memory is limited."""
        return bool(np.isfinite(self.limit_lk).any())

    @property
    def alike(self) -> bool:
        """Whether all sockets have the reference clock, no distances and no limits of memory."""
        return not self.limited and not self.line_lk.any() and bool((self.speed_l == 1.0).all())


class Cells(NamedTuple):
    """Loads of an operator's replicas on one socket: the fields of `twin.rates.load.Load` by cell. [C, N] each"""

    service_cn: np.ndarray
    busy_cn: np.ndarray
    speed_cn: np.ndarray
    cpu_cn: np.ndarray


class SocketLayout:
    """Distances between the cells of N plans."""

    def __init__(self, layout: Layout) -> None:  # it does not keep the layout: large arrays would live on in a cycle
        job, plans, places = layout.job, np.arange(layout.size), layout.job.places
        rows, width = places.line_lk.shape
        # by stream, for each cell of its consumer: share of the stream from each socket of its host [K, C, N], and
        # reference-core seconds to fetch a tuple of it [C, N]
        self._share_kcn: list[np.ndarray] = []
        self._fetch_s: list[np.ndarray] = []
        for s, (start, end) in enumerate(zip(job.producer_s, job.consumer_s, strict=True)):
            out, into = layout.cells(start), layout.cells(end)
            at_ln = np.zeros((rows + width, layout.size))  # beyond the last host: no replicas
            for socket_n, share_n in zip(layout.socket_cn[out], layout.emitted_cn[out], strict=True):
                at_ln[socket_n, plans] += share_n
            taker_cn = layout.socket_cn[into]
            first_cn = places.first_l[taker_cn]
            share_kcn = at_ln[first_cn + np.arange(width)[:, None, None], plans]
            if job.hows[s].near:  # replicas get tuples sent on their host, and their share of those that leave others
                shares_n = layout.taken_nh(end)[plans, layout.host_cn[into]] * layout.leaving[s].sum(axis=0)
                share_kcn = share_kcn / np.maximum(share_kcn.sum(axis=0) + shares_n, 1e-300)
            if job.dealing.forward_s[s]:
                here_p, other_k = np.repeat(np.arange(rows), width), np.tile(np.arange(width), rows)
                pairs = here_p, places.first_l[here_p] + other_k
                sent_np = layout.partners_np((end, start), np.arange(rows), pairs)
                share_kcn = sent_np[plans, taker_cn * width + np.arange(width)[:, None, None]]
            fetch_cn = np.einsum("kcn,cnk->cn", share_kcn, places.line_lk[taker_cn]) * job.costs.lines_s[s]
            if job.dealing.shared_o[end]:  # a free replica takes the next tuple
                fetch_cn = np.broadcast_to((fetch_cn * layout.share_cn[into]).sum(axis=0), fetch_cn.shape)
            self._share_kcn.append(share_kcn)
            self._fetch_s.append(fetch_cn)

    def cells(
        self,
        layout: Layout,
        taken_on: np.ndarray,
        per_replica_sn: np.ndarray,
        near_cn: np.ndarray,
        service_on: np.ndarray,
    ) -> Cells:
        """Loads by cell, from demand [C, N] and service [O, N] of a replica that is near to everything.

        taken_on, per_replica_sn: tuples a second that a mean replica takes, in all and of each stream.
        """
        operator_c = layout.operator_c
        taken_cn = taken_on[operator_c] * layout.skew_cn
        fetching_cn = self._fetching(layout, per_replica_sn)
        busy_cn = near_cn + fetching_cn
        cpu_cn, speed_cn = share_cores(layout, busy_cn)
        felt_cn, waiting_cn = self._limits(layout, busy_cn, speed_cn, taken_on, per_replica_sn)
        each_cn = (fetching_cn + waiting_cn) / np.maximum(taken_cn, 1e-12)
        cpu_cn = np.where(layout.here_cn, np.maximum(cpu_cn, felt_cn), 0.0)
        return Cells(service_on[operator_c] + each_cn, busy_cn + waiting_cn, speed_cn, cpu_cn)

    def _fetching(self, layout: Layout, per_replica_sn: np.ndarray) -> np.ndarray:
        """Cores that a replica spends on fetching, given the tuples a second that it takes of each stream. [C, N]"""
        found_cn = np.zeros(layout.socket_cn.shape)
        for s, end in enumerate(layout.job.consumer_s):
            found_cn[layout.cells(end)] += self._fetch_s[s] * per_replica_sn[s]
        return found_cn * layout.skew_cn

    def _limits(
        self,
        layout: Layout,
        busy_cn: np.ndarray,
        speed_cn: np.ndarray,
        taken_on: np.ndarray,
        per_replica_sn: np.ndarray,
    ) -> tuple[np.ndarray, np.ndarray]:
        """Pressure on a cell of the limits that it uses, and cores that a replica of it waits for memory. [C, N] each

        busy_cn: demand of a replica; speed_cn: cores that it can get.
        """
        places = layout.job.places
        if not places.limited:
            return np.zeros_like(busy_cn), np.zeros_like(busy_cn)
        moved_kcn = self._moved(layout, taken_on, per_replica_sn)
        width = len(moved_kcn)
        limit_kcn = (layout.socket_cn * width + np.arange(width)[:, None, None]) * layout.size + np.arange(layout.size)
        limit_kcn, uses_kcn = limit_kcn.ravel(), ((moved_kcn > 0) & layout.here_cn).ravel()
        demand = np.bincount(limit_kcn, (moved_kcn * layout.count_cn).ravel(), places.limit_lk.size * layout.size)
        used = demand / np.repeat(places.limit_lk.ravel(), layout.size)
        speed_kcn = _beside_users(layout, busy_cn, speed_cn, moved_kcn)
        spare_kcn = np.maximum(np.where(layout.here_cn, speed_kcn, 0.0) - busy_cn, 0.0)
        spare_kcn = (spare_kcn / np.maximum(moved_kcn, 1e-12)).ravel()
        price_s = np.full(len(used), np.inf)
        np.minimum.at(price_s, limit_kcn[uses_kcn], spare_kcn[uses_kcn])  # the first user is then always busy
        used_kcn = used[limit_kcn].reshape(moved_kcn.shape)
        waits_kcn = np.where(uses_kcn, price_s[limit_kcn], 0.0).reshape(moved_kcn.shape) * moved_kcn
        felt_kcn = np.where(moved_kcn > 0, used_kcn * np.minimum((busy_cn + waits_kcn) / speed_kcn, 1.0), 0.0)
        return felt_kcn.max(axis=0), np.where(used_kcn > FULL, waits_kcn, 0.0).max(axis=0)

    def _moved(self, layout: Layout, taken_on: np.ndarray, per_replica_sn: np.ndarray) -> np.ndarray:
        """Bytes a second that one replica of a cell moves from each socket of its host. [K, C, N]"""
        job = layout.job
        moved_kcn = np.zeros((job.places.limit_lk.shape[1], *layout.socket_cn.shape))
        for s, end in enumerate(job.consumer_s):
            moved_kcn[:, layout.cells(end)] += self._share_kcn[s] * (per_replica_sn[s] * job.costs.bytes_s[s])
        own_cn = layout.socket_cn - job.places.first_l[layout.socket_cn]
        cells, plans = np.arange(len(own_cn))[:, None], np.arange(layout.size)
        memory = job.costs.memory
        local_on = taken_on * memory.mean_o[:, None] + np.zeros(layout.size)
        for s, consumer in memory.ends:
            local_on[consumer] += per_replica_sn[s] * memory.beyond_s[s]
        moved_kcn[own_cn, cells, plans] = local_on[layout.operator_c]
        return moved_kcn * layout.skew_cn


def _beside_users(layout: Layout, busy_cn: np.ndarray, speed_cn: np.ndarray, moved_kcn: np.ndarray) -> np.ndarray:
    """Cores that a replica gets while all that use the same limit are always busy: `speed_cn`, or its fair part where
    there are more replicas than cores. [K, C, N]

    moved_kcn: bytes that a replica moves under each limit; busy_cn: cores that it needs without waiting.
    """
    cores_cn = layout.capacity_cn / layout.core_cn
    crowded_cn = layout.here_cn & (layout.on_sockets(layout.count_cn) > cores_cn)
    found_kcn = np.broadcast_to(speed_cn, moved_kcn.shape).copy()
    plans = np.flatnonzero(crowded_cn.any(axis=0))
    if len(plans):
        for speed, moved in zip(found_kcn, moved_kcn, strict=True):
            asked = np.where(moved > 0.0, layout.core_cn, busy_cn)[:, plans]
            level = fair_level(asked, layout.neighbours[:, :, plans], layout.capacity_cn[:, plans])
            fair = np.where(crowded_cn[:, plans], np.minimum(level, layout.core_cn[:, plans]), speed[:, plans])
            speed[:, plans] = np.minimum(speed[:, plans], fair)
    return found_kcn
