"""How the cores of a socket are shared among the replicas on it, under N plans at once: max-min fairly.

A replica can get what the demands of its neighbours leave, at most a core. While few replicas are busy, some of several
cores are idle, so that a replica which needs much gets less than that (`twin.rates.queueing.cores_beside`). Besides,
replicas of a socket collide: the k tuples in service or in line there share min(k, cores), so a tuple takes longer than
on a core of its own, by a factor that does not depend on how services vary (M/G/c under processor sharing). Letters at
the end of a name are the axes of `twin.rates.layout`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from twin.rates.queueing import cores_beside, shared_wait_s

if TYPE_CHECKING:
    from twin.rates.layout import Layout
    from twin.rates.load import Load

FULL = 0.995
"""Utilisation from which a socket counts as full."""
BLOCK = 512
"""Plans whose tasks are compared pair by pair at a time, so few that all pairs stay in a processor's cache."""


def share_cores(layout: Layout, own_cn: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Pressure of the CPU on a replica, and the cores that it can get. [C, N] each

    own_cn: cores that a replica needs. Sockets are shared max-min fairly, at most one core a task: on a full
    socket only the tasks above the fair level feel it, and what they feel is the demand on the whole socket. A task can
    get that level there; on other sockets, what the demands of its neighbours leave, less what is idle of it.
    """
    capacity_cn = layout.capacity_cn
    core = np.broadcast_to(1.0 if layout.sockets is None else layout.sockets.speed_cn, own_cn.shape)
    total_cn = layout.on_sockets(own_cn * layout.count_cn)
    level_cn = fair_level(own_cn, layout.neighbours, capacity_cn)
    full_cn = total_cn / capacity_cn
    alone_cn = own_cn / np.minimum(core, capacity_cn)
    above_cn = own_cn >= level_cn * 0.999  # those below get all that they need
    felt_cn = np.where(above_cn, full_cn, np.minimum(full_cn, own_cn / level_cn))
    others_cn = total_cn - layout.one(own_cn)
    left_cn = np.clip(np.where(full_cn > FULL, level_cn, capacity_cn - others_cn), 1e-6, core)
    # an equal part of several cores is a task's at any time; of more, some may be idle while few tasks are busy
    more_cn = (core < capacity_cn) & (own_cn * layout.on_sockets(layout.count_cn) > capacity_cn) & layout.here_cn
    if more_cn.any():
        asked_cn = np.minimum(own_cn, left_cn)
        got_k = beside_others(layout, own_cn / core, capacity_cn / core, more_cn) * core[more_cn]
        over_k = np.where(above_cn, np.maximum(full_cn, 1.0), 1.0)[more_cn]
        felt_cn[more_cn] = np.maximum(felt_cn[more_cn], asked_cn[more_cn] / got_k * over_k)
        left_cn[more_cn] = np.clip(got_k, 1e-6, left_cn[more_cn])
    used_cn = np.maximum(alone_cn, felt_cn)
    if not layout.single:
        used_cn, left_cn = np.where(layout.here_cn, used_cn, 0.0), np.where(layout.here_cn, left_cn, np.inf)
    return used_cn, left_cn


def fair_level(own_cn: np.ndarray, neighbours: np.ndarray, capacity_cn: np.ndarray) -> np.ndarray:
    """Cores that a task gets at most, so that a full socket is just used up (water filling). [C, N]

    With demands ascending, it is the maximum over tasks of what those below leave, divided among the others.
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
    return np.maximum(((neighbours > 0) * left_cn[None]).max(axis=1), 1e-9)


def siblings_here(layout: Layout) -> np.ndarray:
    """Share of the other replicas of its operator that are on a replica's socket. [C, N]"""
    others_cn = np.maximum(layout.replicas_on[layout.operator_c] - 1.0, 1.0)
    here_cn = layout.count_cn
    if layout.pair_c is not None:
        busiest_c, others_c = layout.pair_c
        here_cn = here_cn[busiest_c] + here_cn[others_c] * (busiest_c < others_c)[:, None]
    return np.asarray(np.maximum(here_cn - 1.0, 0.0) / others_cn)


def beside_others(layout: Layout, own_cn: np.ndarray, cores_cn: np.ndarray, mask_cn: np.ndarray) -> np.ndarray:
    """Cores that a replica of a cell gets if it is always busy, and the others on its socket as often as they need to
    be. [K], of the cells in the mask. own_cn: cores that a replica needs; cores_cn: those of its socket.
    """
    cells, plans = np.nonzero(mask_cn)
    there_ck = layout.count_cn[:, plans] * (layout.socket_cn[:, plans] == layout.socket_cn[cells, plans])
    for cell_c, part_cn in layout.one_of:
        there_ck[cell_c[cells], np.arange(len(cells))] -= part_cn[mask_cn]
    return cores_beside(cores_cn[mask_cn], own_cn[:, plans], np.maximum(there_ck, 0.0))


def collisions(
    layout: Layout, busy_cn: np.ndarray, scv_cn: np.ndarray, gap_scv_cn: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Cores that a replica gets while no other on its socket needs them; and how much longer a tuple is there
    because of the others, in services on these cores. 0 on a full socket, where max-min shares hold. [C, N] each

    busy_cn: cores that a replica needs. scv_cn, gap_scv_cn: squared coefficients of variation of its services, and of
    the gaps between all arrivals at its operator's replicas there.

    A replica serves one tuple at a time. So where services and gaps hardly vary, the fewer tasks there are for each
    core, the fewer collide; where they do not vary at all, none of up to two tasks a core. Unequal tasks count as so
    many equal ones as have the same sum of demands and of their squares.
    """
    capacity_cn = layout.capacity_cn
    core_cn = np.minimum(1.0 if layout.sockets is None else layout.sockets.speed_cn, capacity_cn)
    cores_cn, each_cn = capacity_cn / core_cn, busy_cn / core_cn
    total_cn = layout.on_sockets(each_cn * layout.count_cn)
    squares_cn = layout.on_sockets(each_cn**2 * layout.count_cn)
    alike_cn = np.maximum(total_cn, 1e-12) ** 2 / np.maximum(squares_cn, 1e-24)
    collide_cn = np.clip(alike_cn - np.floor(cores_cn), 0.0, 1.0)
    regular_cn = 1.0 - (np.minimum(scv_cn, 1.0) + np.minimum(gap_scv_cn, 1.0)) / 2.0
    collide_cn *= 1.0 - regular_cn * np.minimum(1.0, 2.0 * cores_cn / alike_cn)
    longer_cn = collide_cn * shared_wait_s(cores_cn, total_cn)
    return core_cn, np.where(total_cn < FULL * cores_cn, longer_cn, 0.0)


def demands(layout: Layout, found: Load) -> tuple[np.ndarray, np.ndarray]:
    """Cores that a replica needs, of those that run as one the first alone, and those that it can get. [C, N] each"""
    if found.cells is not None:
        return found.cells.busy_cn, found.cells.speed_cn
    busy_on = found.used_on * found.speed_on
    return busy_on if layout.fusing is None else np.where(layout.fusing.behind_on, 0.0, busy_on), found.speed_on
