"""What many plans of one job have in common, so that it is computed once.

A plan changes only where operators sit. The state of a host depends on which replicas are on it, that of an operator on
its host's and on those upstream of it: among 10,000 plans of a query there are a few hundred different hosts, and
different operators only where the streams come together. All of this is whole numbers and the same for every network.

Axes: P plans, O operators in data-flow order, H hosts, U different hosts, R hosts of one operator, N rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from models.distinct import distinct


@dataclass(frozen=True)
class Flowing:
    """The N different states of one operator after it has heard of what is upstream.

    producers: the operators that it reads. rows_SxN: for each of these, rows of its states. own_N: rows of this
    operator's `Sharing.hosts_NxR`. kind_P: which of its states it has under each plan.
    """

    producers: tuple[int, ...]
    rows_SxN: np.ndarray
    own_N: np.ndarray
    kind_P: np.ndarray


@dataclass(frozen=True)
class Sharing:
    """plan_U, host_U, counts_UxO: the different hosts, a plan that has them, and the replicas on them. hosts_NxR: by
    operator, the different sets of hosts that it is on, and plan_N a plan of each. used_PxK: the hosts in use under
    each plan. Where there are fewer than columns, U stands."""

    plan_U: np.ndarray
    host_U: np.ndarray
    counts_UxO: np.ndarray
    hosts_NxR: tuple[np.ndarray, ...]
    plan_N: tuple[np.ndarray, ...]
    used_PxK: np.ndarray
    flowing: tuple[Flowing, ...]

    @property
    def plans(self) -> int:
        """P."""
        return len(self.used_PxK)


def share(counts_PxOxH: np.ndarray, streams: Sequence[tuple[int, int]], inputs_P: np.ndarray) -> Sharing:
    """From the replicas of each operator on each host. streams: (producer, consumer). inputs_P: equal for plans under
    which all nodes have the same inputs, apart from what follows from these replicas."""
    plans, operators, hosts = counts_PxOxH.shape
    on_OxPxH = np.ascontiguousarray((counts_PxOxH > 0).swapaxes(0, 1))
    plan_N, host_N = np.nonzero(on_OxPxH.any(axis=0))
    counts_NxO = counts_PxOxH[plan_N, :, host_N].astype(np.int64)
    first_U, kind_N = distinct([inputs_P[plan_N], host_N, *counts_NxO.T])
    nothing = len(first_U)
    kind_PxH = np.full((plans, hosts), nothing)
    kind_PxH[plan_N, host_N] = kind_N
    placed, placed_plan, flowing = [], [], list[Flowing]()
    for operator in range(operators):
        owner_N, where_N = np.nonzero(on_OxPxH[operator])
        hosts_PxR = in_rows(owner_N, kind_PxH[owner_N, where_N], plans, nothing)
        first_N, placed_P = distinct(hosts_PxR.T)
        placed.append(hosts_PxR[first_N])
        placed_plan.append(first_N)
        producers = tuple(producer for producer, consumer in streams if consumer == operator)
        rows_SxP = np.array([*(flowing[producer].kind_P for producer in producers), placed_P])
        first_N, kind_P = distinct(rows_SxP)
        flowing.append(Flowing(producers, rows_SxP[:-1, first_N], placed_P[first_N], kind_P))
    used_PxK = in_rows(plan_N, kind_N, plans, nothing)
    kinds = (plan_N[first_U], host_N[first_U], counts_NxO[first_U])
    return Sharing(*kinds, tuple(placed), tuple(placed_plan), used_PxK, tuple(flowing))


def in_rows(owner_N: np.ndarray, value_N: np.ndarray, owners: int, nothing: int) -> np.ndarray:
    """Each owner's values in a row [owners, most values of one], filled up with `nothing`. `owner_N` ascends."""
    count = np.bincount(owner_N, minlength=owners)
    place_N = np.arange(len(owner_N)) - np.repeat(np.cumsum(count) - count, count)
    rows = np.full((owners, int(count.max(initial=0))), nothing)
    rows[owner_N, place_N] = value_N
    return rows
