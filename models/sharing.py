"""States of nodes that many plans of one job have in common, so that they are computed once.

A plan changes only where operators sit. The state of a host depends on which replicas are on it, that of an operator on
its host's and on those upstream of it: among 10,000 plans of a query there are a few hundred different hosts, and
different operators only where the streams come together. Sharing is a matter of whole numbers, the same for all
networks.

Axes: P plans, O operators in data-flow order, H hosts, U different hosts, R hosts of one operator, N rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from twin.deployment import Deployment
from twin.errors import BadInput, suggest
from twin.plan import ExecutionPlan, Location
from twin.rates.placements import Placements

CHUNK = 16_384
"""Number of plans scored at a time: the more, the more they have in common, but their states must fit in memory."""
SPARSE = 8
"""Possible keys a row up to which equal rows are found by counting instead of sorting."""


@dataclass(frozen=True)
class Flowing:
    """N different states of one operator after the messages from upstream.

    producers: the operators that it reads. rows_SxN: for each of these, rows of its states. own_N: rows of this
    operator's `SharedStates.hosts_NxR`. kind_P: index of its state under each plan.
    """

    producers: tuple[int, ...]
    rows_SxN: np.ndarray
    own_N: np.ndarray
    kind_P: np.ndarray


@dataclass(frozen=True)
class SharedStates:
    """Different states under many plans. plan_U, host_U, counts_UxO: the different hosts, a plan that has each, and the
    replicas on it. hosts_NxR: by operator, the different sets of hosts that it is on, and plan_N a plan of each.
    used_PxK: the hosts in use under each plan. Rows with fewer hosts than columns are filled up with U."""

    plan_U: np.ndarray
    host_U: np.ndarray
    counts_UxO: np.ndarray
    hosts_NxR: tuple[np.ndarray, ...]
    plan_N: tuple[np.ndarray, ...]
    used_PxK: np.ndarray
    flowing: tuple[Flowing, ...]

    @property
    def plans(self) -> int:
        """Number P of plans."""
        return len(self.used_PxK)


def share(counts_PxOxH: np.ndarray, streams: Sequence[tuple[int, int]], inputs_P: np.ndarray) -> SharedStates:
    """Different states, from the replicas of each operator on each host. streams: (producer, consumer). inputs_P: equal
    for plans under which all nodes have the same inputs, apart from those that follow from these replicas."""
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
    return SharedStates(*kinds, tuple(placed), tuple(placed_plan), used_PxK, tuple(flowing))


def in_rows(owner_N: np.ndarray, value_N: np.ndarray, owners: int, nothing: int) -> np.ndarray:
    """[owners, most values of one] each owner's values in a row, filled up with `nothing`. `owner_N` ascends."""
    count = np.bincount(owner_N, minlength=owners)
    place_N = np.arange(len(owner_N)) - np.repeat(np.cumsum(count) - count, count)
    rows = np.full((owners, int(count.max(initial=0))), nothing)
    rows[owner_N, place_N] = value_N
    return rows


def distinct(columns: Iterable[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """Row of each different kind [U], and each row's kind [N]. columns: at least one, each [N] integers >= 0."""
    first_N, *others = columns
    key_N, span = first_N.astype(np.int64), int(first_N.max(initial=0)) + 1
    for column_N in others:
        size = int(column_N.max(initial=0)) + 1
        if span > 2**62 // size:
            row_U, key_N = _by_sorting(key_N)
            span = len(row_U)
        key_N = key_N * size + column_N
        span *= size
    return _by_counting(key_N, span) if span <= SPARSE * len(key_N) else _by_sorting(key_N)


def _by_counting(key_N: np.ndarray, span: int) -> tuple[np.ndarray, np.ndarray]:
    row_K = np.full(span, -1)
    row_K[key_N] = np.arange(len(key_N))
    there_K = row_K >= 0
    return row_K[there_K], (np.cumsum(there_K) - 1)[key_N]


def _by_sorting(key_N: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    order_N = np.argsort(key_N)
    new_N = np.diff(key_N[order_N], prepend=-1) > 0
    kind_N = np.empty(len(key_N), np.int64)
    kind_N[order_N] = np.cumsum(new_N) - 1
    return order_N[new_N], kind_N


def groups(
    deployment: Deployment, plans: Sequence[ExecutionPlan]
) -> Iterator[tuple[np.ndarray, Sequence[ExecutionPlan]]]:
    """Yields rows and plans with the same replicas, `CHUNK` at most. Raises BadInput for a plan that does not fit."""
    for rows in [np.arange(len(plans))] if isinstance(plans, Placements) else _same_replicas(deployment, plans):
        for part in np.split(rows, range(CHUNK, len(rows), CHUNK)):
            if len(part):
                yield part, plans.take(part) if isinstance(plans, Placements) else [plans[row] for row in part]


def _same_replicas(deployment: Deployment, plans: Sequence[ExecutionPlan]) -> list[np.ndarray]:
    names = [operator.name for operator in deployment.query.operators]
    hosts = {host.name for host in deployment.cluster.hosts}
    groups: dict[tuple[int, ...], list[int]] = {}
    for row, plan in enumerate(plans):
        try:
            places = [plan.placement[name] for name in names]
        except KeyError as error:
            raise BadInput(f"plan {row} places nothing for operator {error}; add it") from None
        for text in {text for place in places for text in place}:
            host = Location.parse(text).host
            if host not in hosts:
                raise BadInput(f"plan {row} uses the unknown host {host!r}; {suggest(host, hosts)}")
        groups.setdefault(tuple(map(len, places)), []).append(row)
    return [np.array(rows) for rows in groups.values()]
