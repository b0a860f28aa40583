"""Sockets of hosts under N plans at once: the sharing of their cores, and what they add to the load."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple, Self

import numpy as np

from twin.cluster import Cluster
from twin.plan import Location
from twin.rates.queueing import cores_beside, shared_wait_s

if TYPE_CHECKING:
    from twin.rates.layout import Layout
    from twin.rates.load import Load


# sharing of cores ----------------------------------------------------------------------------------------------------
# Sharing of a socket's cores among the subtasks on it, under N plans at once: max-min fair.
#
# A subtask can get the cores that the demands of its neighbours leave, at most one. While few subtasks are busy, some
# of several cores are idle, so that a subtask which needs much gets less than that
# (`twin.rates.queueing.cores_beside`). Besides, records in service on a socket share its cores, so that each takes
# longer than on a core of its own (`shared`). Letters at the end of a name are the axes of `twin.rates.layout`.


FULL = 0.995
"""Utilisation from which a socket counts as full."""
LOWEST = 1e-9
"""Lowest level of a socket in cores, so that a task that needs nothing is below it."""
BLOCK = 512
"""Most plans whose tasks are compared pair by pair at a time: so few that all pairs stay in a processor's cache."""


def share_cores(layout: Layout, own_cn: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Pressure of the CPU on a subtask, and the cores that it can get. [C, N] each

    own_cn: cores that a subtask needs. Sockets are shared max-min fairly, at most one core a task: on a full socket
    only the tasks above the fair level feel pressure, which is the demand on the whole socket. A task can get that
    level there; on other sockets, the cores that the demands of its neighbours leave, without idle parts of these.
    """
    capacity_cn, core_cn = layout.capacity_cn, layout.core_cn
    others_cn = layout.on_sockets(own_cn * layout.count_cn) - layout.own_part(own_cn)
    level_cn = fair_level(own_cn, layout.neighbours, capacity_cn)
    full_cn = (others_cn + own_cn) / capacity_cn
    if layout.pair_c is not None:  # a socket that is not full on average may be so with a busiest subtask
        there_cn = (layout.busiest_cn > 0.0) & (layout.busiest_cn < 1.0) & (full_cn > 1.0)
        there_level_cn = np.maximum(np.minimum(level_cn, own_cn / np.maximum(full_cn, 1.0)), LOWEST)
        level_cn = np.where(there_cn, there_level_cn, level_cn)
    alone_cn = own_cn / core_cn
    above_cn = own_cn >= level_cn * 0.999  # tasks below the level get all that they need
    felt_cn = np.where(above_cn, full_cn, np.minimum(full_cn, own_cn / level_cn))
    left_cn = np.clip(np.where(full_cn > FULL, level_cn, capacity_cn - others_cn), 1e-6, core_cn)
    # a task has its equal part of several cores at any time; a larger part may be idle while few tasks are busy
    more_cn = (core_cn < capacity_cn) & (own_cn * layout.on_sockets(layout.count_cn) > capacity_cn) & layout.here_cn
    if more_cn.any():
        asked_cn = np.minimum(own_cn, left_cn)
        got_k = beside_others(layout, own_cn / core_cn, capacity_cn / core_cn, more_cn) * core_cn[more_cn]
        over_k = np.where(above_cn, np.maximum(full_cn, 1.0), 1.0)[more_cn]
        felt_cn[more_cn] = np.maximum(felt_cn[more_cn], asked_cn[more_cn] / got_k * over_k)
        left_cn[more_cn] = np.clip(got_k, 1e-6, left_cn[more_cn])
    used_cn = np.maximum(alone_cn, felt_cn)
    if not layout.single:
        used_cn, left_cn = np.where(layout.here_cn, used_cn, 0.0), np.where(layout.here_cn, left_cn, np.inf)
    return used_cn, left_cn


def fair_level(own_cn: np.ndarray, neighbours: np.ndarray, capacity_cn: np.ndarray) -> np.ndarray:
    """Most cores that a task gets, so that a full socket is just used up (water filling). [C, N]

    With demands ascending, it is the maximum over tasks of the cores that those below leave, divided among the others.
    neighbours: subtasks of cell d if it is on the socket of cell c, else 0 [C, D, N].
    """
    blocks = [slice(start, start + BLOCK) for start in range(0, max(1, own_cn.shape[1]), BLOCK)]
    return np.concatenate([_level(own_cn[:, n], neighbours[:, :, n], capacity_cn[:, n]) for n in blocks], axis=1)


def _level(own_cn: np.ndarray, neighbours: np.ndarray, capacity_cn: np.ndarray) -> np.ndarray:
    cells = np.arange(len(own_cn))
    smaller = neighbours * (own_cn[None] < own_cn[:, None])
    taken_cn = np.einsum("cdn,dn->cn", smaller, own_cn)
    others_cn = np.maximum(neighbours.sum(axis=1) - smaller.sum(axis=1), 1e-9)
    left_cn = np.where(neighbours[cells, cells] > 0, (capacity_cn - taken_cn) / others_cn, 0.0)
    return np.maximum(((neighbours > 0) * left_cn[None]).max(axis=1), LOWEST)


def beside_others(layout: Layout, own_cn: np.ndarray, cores_cn: np.ndarray, mask_cn: np.ndarray) -> np.ndarray:
    """Cores that a subtask of a cell gets if it is always busy, beside others on its socket that are busy as often as
    they need to be. [K], of the cells in the mask. own_cn: cores that a subtask needs; cores_cn: those of its
    socket."""
    cells, plans = np.nonzero(mask_cn)
    there_ck = layout.count_cn[:, plans] * (layout.socket_cn[:, plans] == layout.socket_cn[cells, plans])
    for cell_c, part_cn in layout.self_parts:
        there_ck[cell_c[cells], np.arange(len(cells))] -= part_cn[mask_cn]
    return cores_beside(cores_cn[mask_cn], own_cn[:, plans], np.maximum(there_ck, 0.0))


class SharedCores(NamedTuple):
    """Effect of tasks on a socket on each other. core_cn: cores that a subtask gets while no other on its socket needs
    them. longer_cn: extra time of a record at a subtask because of the others, in services on these cores, if records
    come to the socket as in a Poisson process; 0 on a full socket, where max-min shares hold. variability_cn: factor on
    all that the others add, by how gaps and works vary. [C, N] each"""

    core_cn: np.ndarray
    longer_cn: np.ndarray
    variability_cn: np.ndarray


def shared(layout: Layout, found: Load, busy_cn: np.ndarray, entry_scv_on: np.ndarray) -> SharedCores:
    """Effect of the subtasks on a socket on each other. busy_cn: cores that a subtask needs. entry_scv_on: squared
    variation of the gaps between arrivals at the sockets, where they came in; one above that of a Poisson process
    counts as that.

    A record that comes to a socket is a visit, with work for all the subtasks that it goes through there. Under
    processor sharing, the time in M/G/c does not depend on how works vary (Cohen, "The multiple phase service network
    with generalized processor sharing", 1979). One subtask serves in turn, so its effect on itself is left out. Of m
    subtasks on c cores, (m - c) / (m - 1) of that counts: an interpolation between c = m, where nobody disturbs
    anybody, and c = 1, where all do; for three tasks on two cores it is up to a fifth too little.

    For the rest, the work that is there grows with the squared variations (c_a^2 + c_s^2) / 2 of gaps and works
    (Kingman 1961, for one server). The number of visits to which it belongs follows from the work that is left of each:
    (1 + c_s^2) / 2 of its work where it is shared, and where subtasks serve in turn, its work from there on, (1 + 1 /
    m) / 2 of it. The larger counts. Unequal subtasks count as the number of equal ones that have the same sum of works
    and of their squares. The rate of visits is the operators' mean rate by work, which is exact where all that comes
    goes all the way. With exponential services on one core each takes s / (1 - rho), as at a node with processor
    sharing (Baskett, Chandy, Muntz and Palacios, 1975).
    """
    capacity_cn, core_cn, rows = layout.capacity_cn, layout.core_cn, layout.operator_c
    cores_cn, each_cn = capacity_cn / core_cn, busy_cn / core_cn
    works_cn = each_cn * layout.count_cn
    total_cn = np.maximum(layout.on_sockets(works_cn), 1e-12)
    inverse_tasks_cn = layout.on_sockets(works_cn * each_cn) / total_cn**2  # 1 / m
    disturb_cn = np.clip((1.0 - cores_cn * inverse_tasks_cn) / np.maximum(1.0 - inverse_tasks_cn, 1e-12), 0.0, 1.0)
    longer_cn = disturb_cn * (shared_wait_s(cores_cn, total_cn) - shared_wait_s(cores_cn, each_cn))
    taken_cn = layout.of_operators(found.in_on[rows] * layout.share_cn)
    all_cn = layout.of_operators(works_cn)
    visits_cn = layout.on_sockets(works_cn * taken_cn) / total_cn  # visits a second
    squares_cn = layout.on_sockets(works_cn * all_cn / np.maximum(taken_cn, 1e-12) * (1.0 + found.line_scv_on[rows]))
    work_scv_cn = np.maximum(visits_cn * squares_cn - layout.on_sockets(works_cn * all_cn), 0.0) / total_cn**2
    gap_scv_cn = layout.on_sockets(works_cn * np.minimum(entry_scv_on[rows], 1.0)) / total_cn
    variability_cn = (gap_scv_cn + work_scv_cn) / (1.0 + np.maximum(work_scv_cn, inverse_tasks_cn))
    full_cn = total_cn >= FULL * cores_cn
    return SharedCores(core_cn, np.where(full_cn, 0.0, longer_cn), np.where(full_cn, 1.0, variability_cn))


def demands(layout: Layout, found: Load) -> tuple[np.ndarray, np.ndarray]:
    """Cores that a subtask needs, for a chain at its first operator alone, and cores that it can get. [C, N] each"""
    if found.cells is not None:
        return found.cells.busy_cn, found.cells.speed_cn
    busy_on = found.used_on * found.speed_on
    return busy_on if layout.fusing is None else np.where(layout.fusing.behind_on, 0.0, busy_on), found.speed_on


# sockets -------------------------------------------------------------------------------------------------------------
# Sockets of hosts, and what they add to the load of N plans: fetching between them, limits of memory, clocks.
#
# They count only for clusters that say any of it. A record that a subtask takes from another socket of its host costs
# it cache lines at the distance of the two (BriskStream, SIGMOD 2019, section 3.1), which it waits for whatever its
# clock. The bytes moved inside a socket or between two are bounded (equations 4 and 5): demand beyond gives every byte
# a price, time for which its users wait, that makes the first of them always busy when just the limit is moved. Those
# that have time left at that price feel less.
#
# Streams count as dealt evenly from all subtasks to all, whatever their partitioning. Letters at the end of a name are
# axes, as in `twin.rates.layout`; k is a socket of the host in question, counted from 0.


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
        """Reference cores of a socket that one subtask can use. [L]"""
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
    """Loads of an operator's subtasks on one socket: the fields of `twin.rates.load.Load` by cell. [C, N] each"""

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
        # reference-core seconds to fetch a record of it [C, N]
        self._share_kcn: list[np.ndarray] = []
        self._fetch_s: list[np.ndarray] = []
        for s, (start, end) in enumerate(zip(job.producer_s, job.consumer_s, strict=True)):
            out, into = layout.cells(start), layout.cells(end)
            at_ln = np.zeros((rows + width, layout.size))  # beyond the last host: no subtasks
            for socket_n, share_n in zip(layout.socket_cn[out], layout.emitted_cn[out], strict=True):
                at_ln[socket_n, plans] += share_n
            taker_cn = layout.socket_cn[into]
            first_cn = places.first_l[taker_cn]
            share_kcn = at_ln[first_cn + np.arange(width)[:, None, None], plans]
            if job.hows[s].near:  # subtasks get records sent on their host, and their share of those that leave others
                shares_n = layout.taken_nh(end)[plans, layout.host_cn[into]] * layout.leaving[s].sum(axis=0)
                share_kcn = share_kcn / np.maximum(share_kcn.sum(axis=0) + shares_n, 1e-300)
            if job.dealing.forward_s[s]:
                here_p, other_k = np.repeat(np.arange(rows), width), np.tile(np.arange(width), rows)
                pairs = here_p, places.first_l[here_p] + other_k
                sent_np = layout.partners_np((end, start), np.arange(rows), pairs)
                share_kcn = sent_np[plans, taker_cn * width + np.arange(width)[:, None, None]]
            fetch_cn = np.einsum("kcn,cnk->cn", share_kcn, places.line_lk[taker_cn]) * job.costs.lines_s[s]
            if job.dealing.shared_o[end]:  # a free subtask takes the next record
                fetch_cn = np.broadcast_to((fetch_cn * layout.share_cn[into]).sum(axis=0), fetch_cn.shape)
            self._share_kcn.append(share_kcn)
            self._fetch_s.append(fetch_cn)

    def cells(
        self,
        layout: Layout,
        taken_on: np.ndarray,
        per_subtask_sn: np.ndarray,
        near_cn: np.ndarray,
        service_on: np.ndarray,
    ) -> Cells:
        """Loads by cell, from demand [C, N] and service [O, N] of a subtask that is near to everything.

        taken_on, per_subtask_sn: records a second that a mean subtask takes, in all and of each stream.
        """
        operator_c = layout.operator_c
        taken_cn = taken_on[operator_c] * layout.skew_cn
        fetching_cn = self._fetching(layout, per_subtask_sn)
        busy_cn = near_cn + fetching_cn
        cpu_cn, speed_cn = share_cores(layout, busy_cn)
        felt_cn, waiting_cn = self._limits(layout, busy_cn, speed_cn, taken_on, per_subtask_sn)
        each_cn = (fetching_cn + waiting_cn) / np.maximum(taken_cn, 1e-12)
        cpu_cn = np.where(layout.here_cn, np.maximum(cpu_cn, felt_cn), 0.0)
        return Cells(service_on[operator_c] + each_cn, busy_cn + waiting_cn, speed_cn, cpu_cn)

    def _fetching(self, layout: Layout, per_subtask_sn: np.ndarray) -> np.ndarray:
        """Cores that a subtask spends on fetching, given the records a second that it takes of each stream. [C, N]"""
        found_cn = np.zeros(layout.socket_cn.shape)
        for s, end in enumerate(layout.job.consumer_s):
            found_cn[layout.cells(end)] += self._fetch_s[s] * per_subtask_sn[s]
        return found_cn * layout.skew_cn

    def _limits(
        self,
        layout: Layout,
        busy_cn: np.ndarray,
        speed_cn: np.ndarray,
        taken_on: np.ndarray,
        per_subtask_sn: np.ndarray,
    ) -> tuple[np.ndarray, np.ndarray]:
        """Pressure on a cell of the limits that it uses, and cores that a subtask of it waits for memory. [C, N] each

        busy_cn: demand of a subtask; speed_cn: cores that it can get.
        """
        places = layout.job.places
        if not places.limited:
            return np.zeros_like(busy_cn), np.zeros_like(busy_cn)
        moved_kcn = self._moved(layout, taken_on, per_subtask_sn)
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

    def _moved(self, layout: Layout, taken_on: np.ndarray, per_subtask_sn: np.ndarray) -> np.ndarray:
        """Bytes a second that one subtask of a cell moves from each socket of its host. [K, C, N]"""
        job = layout.job
        moved_kcn = np.zeros((job.places.limit_lk.shape[1], *layout.socket_cn.shape))
        for s, end in enumerate(job.consumer_s):
            moved_kcn[:, layout.cells(end)] += self._share_kcn[s] * (per_subtask_sn[s] * job.costs.bytes_s[s])
        own_cn = layout.socket_cn - job.places.first_l[layout.socket_cn]
        cells, plans = np.arange(len(own_cn))[:, None], np.arange(layout.size)
        memory = job.costs.memory
        local_on = taken_on * memory.mean_o[:, None] + np.zeros(layout.size)
        for s, consumer in memory.ends:
            local_on[consumer] += per_subtask_sn[s] * memory.beyond_s[s]
        moved_kcn[own_cn, cells, plans] = local_on[layout.operator_c]
        return moved_kcn * layout.skew_cn


def _beside_users(layout: Layout, busy_cn: np.ndarray, speed_cn: np.ndarray, moved_kcn: np.ndarray) -> np.ndarray:
    """Cores that a subtask gets while all that use the same limit are always busy: `speed_cn`, or its fair part where
    there are more subtasks than cores. [K, C, N]

    moved_kcn: bytes that a subtask moves under each limit; busy_cn: cores that it needs without waiting.
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
