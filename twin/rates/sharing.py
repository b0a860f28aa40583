"""What tasks that keep up wait for each other where more of them sit on a socket than it has cores.

All that is in service or in line on a socket is served at min(k, cores): as a birth-death chain has it, so that however
services vary, a tuple takes so many times as long as on a core of its own (M/G/c under processor sharing). As each
task serves one tuple at a time, that is beside the wait in its own line; and of services that hardly vary, fewer
collide, the more so, the fewer tasks there are for the cores. One that needs more than the others has tuples in line
most of the time, and gets what these leave it (`twin.rates.crowds`), the less evenly, the longer they are busy at a
time. Letters at the end of a name are the axes of `twin.rates.layout`.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from twin.rates.cores import FULL
from twin.rates.crowds import apart, left_by_all
from twin.rates.layout import Layout
from twin.rates.load import Load
from twin.rates.queues import RHO_MAX

LEAST = 1e-3
"""Cores in use, as which fewer count: powers of less are no numbers that a processor is fast with."""


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
    core_cn = np.ones_like(busy_cn) if layout.sockets is None else layout.sockets.speed_cn
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
    collide = np.clip(alike - np.floor(np.maximum(cores, 1.0)), 0.0, 1.0)
    longer_k = collide * varied * longer(cores, total)
    alone = np.minimum(1.0, cores)
    # where all others keep up, it gets no more than they leave; one that asks for little has as much as any
    most = np.minimum(np.maximum(cores - (total - each), cores / alike), alone)
    met = np.clip(beside_busy(cores, total - each), np.minimum(each / RHO_MAX, most), most)
    slower = np.where(collide > 0.0, alone / met, 1.0)
    larger = _larger(layout, found, rows, Needs(each_cn, cores_cn, usual_cn), core_cn)
    return Sharing(rows, alone * core_cn[rows], slower, longer_k, longer_k * (1.0 - each / total), larger)


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
    return Larger(which[rows], np.minimum(1.0, cores_cn[which]) / got.cores, waits_s, share)


def demands(layout: Layout, found: Load) -> tuple[np.ndarray, np.ndarray]:
    """Cores that a replica needs, of those that run as one the first alone, and those that it can get. [C, N] each"""
    if found.cells is not None:
        return found.cells.busy_cn, found.cells.speed_cn
    busy_on = found.used_on * found.speed_on
    return busy_on if layout.fusing is None else np.where(layout.fusing.behind_on, 0.0, busy_on), found.speed_on


def beside_busy(cores: np.ndarray, others: np.ndarray) -> np.ndarray:
    """The mean of min(1, cores / (1 + K)) where K others are busy, a Poisson number with that mean."""
    cores, others = np.broadcast_arrays(cores, others)
    found = np.empty(others.shape)
    for many in np.unique(cores).tolist():
        rows = cores == many
        mean, whole = np.maximum(others[rows], LEAST), int(many)
        term = np.exp(-mean)
        fewer = np.zeros_like(mean)
        for k in range(1, whole + 1):
            fewer, term = fewer + term, term * mean / k
        found[rows] = fewer * min(1.0, many) + many / mean * np.maximum(1.0 - fewer - term, 0.0)
    return found


def longer(cores: np.ndarray, busy: np.ndarray) -> np.ndarray:
    """Time beyond the service on a core, or on all there is of it, over that service. busy: cores in use on average.

    Of a birth-death chain with births at rate `busy` and deaths at rate min(k, cores), the mean over `busy`, by Little.
    """
    cores, busy = np.broadcast_arrays(cores, busy)
    found = np.empty(busy.shape)
    for many in np.unique(cores).tolist():
        rows = cores == many
        used = np.clip(busy[rows], LEAST, RHO_MAX * many)
        rho, whole = used / many, int(many)
        term = np.ones_like(used)
        chances, present = np.ones_like(used), np.zeros_like(used)
        for k in range(1, whole + 1):
            term = term * used / k
            chances, present = chances + term, present + k * term
        beyond = term * rho / (1.0 - rho)
        chances, present = chances + beyond, present + beyond * (whole + 1.0 / (1.0 - rho))
        found[rows] = present / chances / np.maximum(used, 1e-12) - max(1.0, 1.0 / many)
    return np.maximum(found, 0.0)
