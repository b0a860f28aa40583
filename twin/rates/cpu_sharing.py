"""How the cores of a socket are shared among the replicas on it, under N plans at once, and how long they wait for it.

All that is in service or in line on a socket is served at min(k, cores): as a birth-death chain has it, so that however
services vary, a tuple takes so many times as long as on a core of its own (M/G/c under processor sharing). As each
task serves one tuple at a time, that is beside the wait in its own line; and of services that hardly vary, fewer
collide, the more so, the fewer tasks there are for the cores. One that needs more than the others has tuples in line
most of the time, and gets what these leave it (`twin.rates.queueing`), the less evenly, the longer they are busy at a
time. Axes are those of `twin.rates.layout`; k are some of the cells, each under one of the plans.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from twin.rates.queueing import LEAST, RHO_MAX, Left, Others, beside_busy, cores_beside, longer

if TYPE_CHECKING:
    from twin.rates.layout import Layout
    from twin.rates.load import Load

FULL = 0.995
"""Utilisation from which a socket counts as full."""
BLOCK = 512
"""Plans whose tasks are compared pair by pair at a time: all pairs of these stay in a processor's cache."""


def share_cores(layout: Layout, own_cn: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Pressure of the CPU, and the cores a replica can get, of which own_cn is its demand. [C, N] each

    Sockets are shared max-min fairly, at most one core a task: on a full socket only the tasks above the fair level
    feel it, and what they feel is the demand on the whole socket. A task can get that level there; on other sockets,
    what the demands of its neighbours leave. Of several cores some are idle while few tasks are busy, so that those
    which need much get less (`twin.rates.cpu_sharing`).
    """
    capacity_cn = layout.capacity_cn
    even_cn, own_cn = own_cn, own_cn if layout.uneven is None else own_cn * layout.uneven.mean_cn
    core = 1.0 if layout.sockets is None else layout.sockets.speed_cn
    total_cn = layout.on_sockets(own_cn * layout.count_cn)
    level_cn = fair_level(own_cn, layout.neighbours, capacity_cn)
    full_cn = total_cn / capacity_cn
    crowded_cn = even_cn if layout.crowding_on is None else even_cn * layout.crowding_on[layout.operator_c]
    alone_cn = crowded_cn / np.minimum(core, capacity_cn)
    felt_cn = np.where(own_cn >= level_cn * 0.999, full_cn, np.minimum(full_cn, own_cn / level_cn))
    left_cn = np.clip(np.where(full_cn > FULL, level_cn, capacity_cn - (total_cn - own_cn)), 1e-6, core)
    rows = layout.crowded_cn & layout.here_cn & (capacity_cn > core)
    rows &= own_cn * layout.tasks_cn > capacity_cn
    if rows.any():
        core_cn = np.broadcast_to(core, own_cn.shape)
        asked_cn = np.minimum(own_cn, level_cn)
        got, share = left_by_lighter(layout, rows, asked_cn / core_cn, capacity_cn / core_cn)
        left_cn[rows] -= share * np.maximum(left_cn[rows] - got * core_cn[rows], 0.0)
        felt_cn[rows] = np.maximum(felt_cn[rows], (asked_cn / left_cn)[rows] * np.maximum(full_cn[rows], 1.0))
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


MANY_TIMES = 2.0
"""What others need, at which a task counts as one of many alike."""
ALIKE = 0.999
"""Share of a task's demand from which on another task counts as no lighter."""


def left_by_lighter(
    layout: Layout, rows: np.ndarray, own_cn: np.ndarray, cores_cn: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Cores that a replica can get beside those that need less, if it and all that need no less are always busy, and
    how far it is from being one of many alike. [K] each

    rows: of cells, which [C, N]. own_cn: cores that a replica needs, no more than it could get in a fluid. cores_cn:
    of its socket.
    """
    beside = Beside(layout, rows, own_cn)
    lighter_ck = np.where(beside.own_ck < ALIKE * beside.own_k, beside.count_ck, 0.0)
    others = beside.others(lighter_ck)
    always = 1.0 + (beside.count_ck.sum(axis=0) - lighter_ck.sum(axis=0))
    share, cores = apart(others, beside.own_k), cores_cn[rows]
    some = (share > 0.0) & (always < cores)  # else no core is ever idle
    found = np.ones(len(some))
    found[some] = cores_beside(cores[some], always[some], others.select(some)).cores
    return found, share


def left_by_all(
    layout: Layout, rows: np.ndarray, own_cn: np.ndarray, cores_cn: np.ndarray, rest_cn: np.ndarray
) -> tuple[Left, Others]:
    """What one replica gets if it alone is always busy, and beside what. [K]

    rest_cn: mean rest of a service, in CPU seconds.
    """
    beside = Beside(layout, rows, own_cn)
    others = beside.others(beside.count_ck, rest_cn)
    return cores_beside(cores_cn[rows], np.ones(len(beside.own_k)), others), others


def apart(others: Others, own: np.ndarray) -> np.ndarray:
    """How far a task is from being one of many alike, 0 to 1: none of those is always busy before the others are, and
    what all do together is known better. It interpolates between two laws, by exact runs. [K]
    """
    return 1.0 - np.minimum(MANY_TIMES * others.demand / others.tasks / np.maximum(own, 1e-12), 1.0) ** 4


class Beside:
    """Of some cells, each under a plan: own_k: a replica's demand; own_ck: those of all cells; count_ck: how many other
    replicas these have on its socket."""

    def __init__(self, layout: Layout, rows: np.ndarray, own_cn: np.ndarray) -> None:
        cells, self._plans = np.nonzero(rows)
        here_ck = layout.socket_cn[:, self._plans] == layout.socket_cn[cells, self._plans]
        self.own_ck, self.own_k = own_cn[:, self._plans], own_cn[rows]
        self.count_ck = np.where(here_ck, layout.count_cn[:, self._plans], 0.0)
        self.count_ck[cells, np.arange(len(cells))] -= 1.0
        chance_on = layout.chance_on
        self._chance_ck = None if chance_on is None else chance_on[layout.operator_c][:, self._plans]

    def others(self, count_ck: np.ndarray, rest_cn: np.ndarray | None = None) -> Others:
        """So many replicas of each cell together. rest_cn: see `left_by_all`; None: no matter."""
        each_ck = count_ck * self.own_ck
        demand = np.maximum(each_ck.sum(axis=0), 1e-12)
        tasks = demand**2 / np.maximum((each_ck * self.own_ck).sum(axis=0), 1e-24)
        chance = np.ones_like(demand)
        if self._chance_ck is not None:
            chance = (each_ck * self._chance_ck).sum(axis=0) / demand
        rest_s = np.zeros_like(demand) if rest_cn is None else (each_ck * rest_cn[:, self._plans]).sum(axis=0) / demand
        return Others(demand, tasks, chance, rest_s)


class Larger(NamedTuple):
    """rows_k: tasks that need more than those they share cores with, of those that collide [K]; of these, slower: cores
    that it gets while no other needs them over what it gets on average if it is always busy; waits_s: what it waits
    longer as that varies; share: how far it is from being one of many alike, 0 to 1."""

    rows_k: np.ndarray
    slower: np.ndarray
    waits_s: np.ndarray
    share: np.ndarray


class Sharing(NamedTuple):
    """rows: where tasks collide. [C, N] Of these, [K] each: alone_k: cores that a task gets while no other needs them;
    slower_k: that over what it gets on average if it is always busy, and the others as often as they need to be;
    longer_k: time beyond that of a task alone, over the service, and others_k: of that, the part that is none of the
    task's own tuples. larger: of those that need more than the others."""

    rows: np.ndarray
    alone_k: np.ndarray
    slower_k: np.ndarray
    longer_k: np.ndarray
    others_k: np.ndarray
    larger: Larger | None

    def placed(self, each_k: np.ndarray, elsewhere: np.ndarray) -> np.ndarray:
        """What is so where tasks collide, among what is so elsewhere. [C, N]"""
        found = elsewhere.copy()
        found[self.rows] = each_k
        return found


def sharing(layout: Layout, found: Load) -> Sharing | None:
    """None where no tasks collide: all have a core each, under any of the plans, or all others share a full socket."""
    if not layout.crowded_cn.any():
        return None
    busy_cn, _ = demands(layout, found)
    # a part of a core is a core that is as much slower
    core_cn = np.minimum(1.0 if layout.sockets is None else layout.sockets.speed_cn, layout.capacity_cn)
    cores_cn, each_cn = layout.capacity_cn / core_cn, busy_cn / core_cn
    total_cn = layout.on_sockets(each_cn * layout.count_cn)
    rows = layout.crowded_cn & (total_cn < FULL * cores_cn) & (total_cn > LEAST)
    if not rows.any():
        return None
    cores, each, total = cores_cn[rows], each_cn[rows], total_cn[rows]
    usual_cn = layout.on_sockets(each_cn**2 * layout.count_cn) / np.maximum(total_cn, LEAST)
    alike = total / usual_cn[rows]  # as how many equal tasks they vary
    scv = found.line_scv_on[layout.operator_c][rows]
    varied = 1.0 + np.minimum(scv - 1.0, 0.0) / 2.0 * np.minimum(1.0, 2.0 * cores / alike)
    collide = np.clip(alike - np.floor(cores), 0.0, 1.0)
    longer_k = collide * varied * longer(cores, total)
    # where all others keep up, it gets no more than they leave; one that asks for little has as much as any
    most = np.minimum(np.maximum(cores - (total - each), cores / alike), 1.0)
    met = np.clip(beside_busy(cores, total - each), np.minimum(each / RHO_MAX, most), most)
    slower = np.where(collide > 0.0, 1.0 / met, 1.0)
    larger = _larger(layout, found, rows, Needs(each_cn, cores_cn, usual_cn), core_cn)
    return Sharing(rows, core_cn[rows], slower, longer_k, longer_k * (1.0 - each / total), larger)


class Needs(NamedTuple):
    """In cores of the socket: what a replica needs; how many there are; what a task there needs, a mean by what they
    need. [C, N] each"""

    each_cn: np.ndarray
    cores_cn: np.ndarray
    usual_cn: np.ndarray


def _larger(layout: Layout, found: Load, rows: np.ndarray, needs: Needs, core_cn: np.ndarray) -> Larger | None:
    """None if all tasks that collide are alike, or have cores enough."""
    each_cn, cores_cn, usual_cn = needs
    which = rows & layout.here_cn & (each_cn > usual_cn)
    if not which.any():
        return None
    rest_cn = (found.line_s_on * (1.0 + found.line_scv_on) / 2.0)[layout.operator_c] / core_cn
    got, others = left_by_all(layout, which, each_cn, cores_cn, rest_cn)
    used = np.minimum(each_cn[which] / got.cores, RHO_MAX)
    waits_s = used * got.varied_s / (2.0 * got.cores**2 * (1.0 - used))
    share = apart(others, each_cn[which])
    return Larger(which[rows], 1.0 / got.cores, waits_s, share)


def demands(layout: Layout, found: Load) -> tuple[np.ndarray, np.ndarray]:
    """Cores that a replica needs, of those that run as one the first alone, and those that it can get. [C, N] each"""
    if found.cells is not None:
        return found.cells.busy_cn, found.cells.speed_cn
    busy_on = found.used_on * found.speed_on
    return busy_on if layout.fusing is None else np.where(layout.fusing.behind_on, 0.0, busy_on), found.speed_on
