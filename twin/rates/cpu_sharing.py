"""Sharing of a socket's cores among the replicas on it, under N plans at once: max-min fair.

A replica can get the cores that the demands of its neighbours leave, at most one. While few replicas are busy, some of
several cores are idle, so that a replica which needs much gets less than that (`twin.rates.queueing.cores_beside`).
Besides, tuples in service on a socket share its cores, so that each takes longer than on a core of its own (`shared`).
Letters at the end of a name are the axes of `twin.rates.layout`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from twin.rates.queueing import cores_beside, shared_wait_s

if TYPE_CHECKING:
    from twin.rates.layout import Layout
    from twin.rates.load import Load

FULL = 0.995
"""Utilisation from which a socket counts as full."""
LOWEST = 1e-9
"""Lowest level of a socket in cores, so that a task that needs nothing is below it."""
BLOCK = 512
"""Most plans whose tasks are compared pair by pair at a time: so few that all pairs stay in a processor's cache."""


def share_cores(layout: Layout, own_cn: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Pressure of the CPU on a replica, and the cores that it can get. [C, N] each

    own_cn: cores that a replica needs. Sockets are shared max-min fairly, at most one core a task: on a full socket
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
    neighbours: replicas of cell d if it is on the socket of cell c, else 0 [C, D, N].
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
    """Cores that a replica of a cell gets if it is always busy, beside others on its socket that are busy as often as
    they need to be. [K], of the cells in the mask. own_cn: cores that a replica needs; cores_cn: those of its
    socket."""
    cells, plans = np.nonzero(mask_cn)
    there_ck = layout.count_cn[:, plans] * (layout.socket_cn[:, plans] == layout.socket_cn[cells, plans])
    for cell_c, part_cn in layout.self_parts:
        there_ck[cell_c[cells], np.arange(len(cells))] -= part_cn[mask_cn]
    return cores_beside(cores_cn[mask_cn], own_cn[:, plans], np.maximum(there_ck, 0.0))


class SharedCores(NamedTuple):
    """Effect of tasks on a socket on each other. core_cn: cores that a replica gets while no other on its socket needs
    them. longer_cn: extra time of a tuple at a replica because of the others, in services on these cores, if tuples
    come to the socket as in a Poisson process; 0 on a full socket, where max-min shares hold. variability_cn: factor on
    all that the others add, by how gaps and works vary. [C, N] each"""

    core_cn: np.ndarray
    longer_cn: np.ndarray
    variability_cn: np.ndarray


def shared(layout: Layout, found: Load, busy_cn: np.ndarray, entry_scv_on: np.ndarray) -> SharedCores:
    """Effect of the replicas on a socket on each other. busy_cn: cores that a replica needs. entry_scv_on: squared
    variation of the gaps between arrivals at the sockets, where they came in; one above that of a Poisson process
    counts as that.

    A tuple that comes to a socket is a visit, with work for all the replicas that it goes through there. Under
    processor sharing, the time in M/G/c does not depend on how works vary (Cohen, "The multiple phase service network
    with generalized processor sharing", 1979). One replica serves in turn, so its effect on itself is left out. Of m
    replicas on c cores, (m - c) / (m - 1) of that counts: an interpolation between c = m, where nobody disturbs
    anybody, and c = 1, where all do; for three tasks on two cores it is up to a fifth too little.

    For the rest, the work that is there grows with the squared variations (c_a^2 + c_s^2) / 2 of gaps and works
    (Kingman 1961, for one server). The number of visits to which it belongs follows from the work that is left of each:
    (1 + c_s^2) / 2 of its work where it is shared, and where replicas serve in turn, its work from there on, (1 + 1 /
    m) / 2 of it. The larger counts. Unequal replicas count as the number of equal ones that have the same sum of works
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
    """Cores that a replica needs, for a chain at its first operator alone, and cores that it can get. [C, N] each"""
    if found.cells is not None:
        return found.cells.busy_cn, found.cells.speed_cn
    busy_on = found.used_on * found.speed_on
    return busy_on if layout.fusing is None else np.where(layout.fusing.behind_on, 0.0, busy_on), found.speed_on
