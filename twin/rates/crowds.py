"""What the tasks on a socket leave to one of them that is busy all the time (`twin.rates.permanent`).

Letters at the end of a name are the axes of `twin.rates.layout`; k are some of the cells, each under one of the plans.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from twin.rates.permanent import Left, Others, left

if TYPE_CHECKING:
    from twin.rates.layout import Layout

MANY_TIMES = 2.0
"""What others need, at which a task counts as one of many alike."""
ALIKE = 0.999
"""Of its demand, from which on another task counts as no lighter."""


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
    found[some] = left(cores[some], always[some], others.select(some)).cores
    return found, share


def left_by_all(
    layout: Layout, rows: np.ndarray, own_cn: np.ndarray, cores_cn: np.ndarray, rest_cn: np.ndarray
) -> tuple[Left, Others]:
    """What one replica gets if it alone is always busy, and beside what. [K]

    rest_cn: mean rest of a service, in CPU seconds.
    """
    beside = Beside(layout, rows, own_cn)
    others = beside.others(beside.count_ck, rest_cn)
    return left(cores_cn[rows], np.ones(len(beside.own_k)), others), others


def apart(others: Others, own: np.ndarray) -> np.ndarray:
    """How far a task is from being one of many alike, 0 to 1: none of those is always busy before the others are, and
    what all do together is known better (`twin.rates.sharing`). It interpolates between two laws, by exact runs. [K]
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
