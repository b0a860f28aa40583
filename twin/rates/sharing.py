"""What tasks that keep up wait for each other where more of them sit on a socket than it has cores.

All that is in service or in line on a socket is served at min(k, cores): as a birth-death chain has it, so that however
services vary, a tuple takes so many times as long as on a core of its own (M/G/c under processor sharing). As each
task serves one tuple at a time, that is beside the wait in its own line; and of services that hardly vary, fewer
collide, the more so, the fewer tasks there are for the cores. Letters at the end of a name are the axes of
`twin.rates.layout`.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from twin.rates.cores import FULL
from twin.rates.layout import Layout
from twin.rates.load import Load

MOST = 0.98
"""Utilisation of a socket at which it is taken to be if it is more."""


class Sharing(NamedTuple):
    """speed_cn: cores that a task gets while no other needs them, and of a full socket its share. slower_cn: that
    over what it gets on average if it is always busy, and the others as often as they need to be. longer_cn: time
    beyond that at `speed_cn`, over the service; others_cn: of that, the part that is none of the task's own tuples.
    [C, N] each"""

    speed_cn: np.ndarray
    slower_cn: np.ndarray
    longer_cn: np.ndarray
    others_cn: np.ndarray


def sharing(layout: Layout, found: Load) -> Sharing | None:
    """None where all tasks have a core each, under any of the plans."""
    if not layout.crowded_cn.any():
        return None
    busy_cn, speed_cn = demands(layout, found)
    core_cn = 1.0 if layout.sockets is None else layout.sockets.speed_cn
    cores_cn, each_cn = layout.capacity_cn / core_cn, busy_cn / core_cn
    total_cn = np.maximum(layout.on_sockets(each_cn * layout.count_cn), 1e-12)
    squares_cn = layout.on_sockets(each_cn**2 * layout.count_cn)
    alike_cn = total_cn**2 / np.maximum(squares_cn, 1e-300)  # as how many equal tasks they vary
    collide_cn = np.clip(alike_cn - np.floor(np.maximum(cores_cn, 1.0)), 0.0, 1.0)
    scv_cn = found.line_scv_on[layout.operator_c]
    varied_cn = 1.0 + np.minimum(scv_cn - 1.0, 0.0) / 2.0 * np.minimum(1.0, 2.0 * cores_cn / alike_cn)
    calm_cn = layout.crowded_cn & (total_cn < FULL * cores_cn)
    longer_cn = np.where(calm_cn, collide_cn * varied_cn * longer(cores_cn, total_cn), 0.0)
    alone_cn = np.minimum(core_cn, layout.capacity_cn) * np.ones_like(speed_cn)
    met_cn = core_cn * beside_busy(cores_cn, np.maximum(total_cn - each_cn, 1e-9))
    met_cn = np.clip(met_cn, np.minimum(busy_cn / MOST, alone_cn), alone_cn)
    return Sharing(
        speed_cn=np.where(calm_cn, alone_cn, speed_cn),
        slower_cn=np.where(calm_cn, alone_cn / met_cn, 1.0),
        longer_cn=longer_cn,
        others_cn=longer_cn * (1.0 - each_cn / total_cn),
    )


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
        mean, whole = others[rows], int(many)
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
        used = np.minimum(busy[rows], MOST * many)
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
