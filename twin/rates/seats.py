"""Seats: the sockets of an operator's subtasks under N plans at once, and how unevenly work falls on them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple, Self, overload

import numpy as np

from twin.chaining import still_fused
from twin.deployment import Deployment
from twin.key_skew import KeySkew, zipf_shares
from twin.partitionings import Ends
from twin.plan import ExecutionPlan, Location
from twin.randomness import random_stream
from twin.workload import contiguous, distinct_values, group_count, read_shares

if TYPE_CHECKING:
    from twin.rates.arrays import JobArrays
    from twin.rates.chaining import Fusing


# placements ----------------------------------------------------------------------------------------------------------
# Plans of one job as one array, which optimizers enumerate and cost models estimate.
#
# Building and checking a plan object takes a fifth of a millisecond, more than estimating it; here an object is made
# only of a plan that somebody asks for.


class Placements(Sequence[ExecutionPlan]):
    """Plans that put all subtasks of an operator on one host, on its socket 0; as many subtasks as the job's plan has,
    and its assignment of key groups.

    hosts_po: for each plan and each operator, in the order of `query.operators`, an index into the cluster's hosts.
    """

    def __init__(self, deployment: Deployment, hosts_po: np.ndarray) -> None:
        self.operators = tuple(operator.name for operator in deployment.query.operators)
        self.hosts = tuple(host.name for host in deployment.cluster.hosts)
        self.given = deployment.plan
        self.parallelism = tuple(self.given.parallelism(name) for name in self.operators)
        self.hosts_po = np.asarray(hosts_po, np.int64).reshape(-1, len(self.operators))

    def __len__(self) -> int:
        return len(self.hosts_po)

    @overload
    def __getitem__(self, index: int) -> ExecutionPlan: ...

    @overload
    def __getitem__(self, index: slice) -> Placements: ...

    def __getitem__(self, index: int | slice) -> ExecutionPlan | Placements:
        if isinstance(index, slice):
            return self.take(np.arange(len(self))[index])
        return self.given.with_placement(
            {
                name: (self.hosts[host],) * count
                for name, host, count in zip(self.operators, self.hosts_po[index], self.parallelism, strict=True)
            }
        )

    def take(self, rows: np.ndarray) -> Placements:
        """Plans of these rows (indices or a boolean mask)."""
        part = object.__new__(Placements)
        part.operators, part.hosts, part.parallelism, part.given = (
            self.operators,
            self.hosts,
            self.parallelism,
            self.given,
        )
        part.hosts_po = self.hosts_po[rows]
        return part

    def subtask_counts(self, operators: Sequence[str]) -> np.ndarray:
        """Numbers of subtasks [plans, operators, hosts], the operators in the order given."""
        columns = [self.operators.index(name) for name in operators]
        here_poh = self.hosts_po[:, columns, None] == np.arange(len(self.hosts))
        return here_poh * np.array(self.parallelism, np.float32)[columns][:, None]

    def socket_counts(self, deployment: Deployment) -> np.ndarray:
        """Numbers of subtasks [plans, operators in data-flow order, sockets of all hosts in a row]."""
        sockets = [host.socket_count for host in deployment.cluster.hosts]
        counts = self.subtask_counts([operator.name for operator in deployment.query.topological])
        columns = np.cumsum([0, *sockets[:-1]])
        all_sockets = np.zeros((*counts.shape[:2], sum(sockets)), np.float32)
        all_sockets[:, :, columns] = counts
        return all_sockets


class CountedPlans(Sequence[ExecutionPlan]):
    """Plans of any number of subtasks on any sockets: counts_pol by plan, operator in data-flow order, and socket.

    Sockets are those of all hosts in a row; subtasks of an operator come in their order. An operator with as many
    subtasks as in the job's plan keeps the assignment of its key groups.
    """

    def __init__(self, deployment: Deployment, counts_pol: np.ndarray) -> None:
        self._deployment, self.given = deployment, deployment.plan
        self.counts_pol = np.asarray(counts_pol, np.int64)
        hosts = deployment.cluster.hosts
        self._places = [str(Location(host.name, socket)) for host in hosts for socket in range(host.socket_count)]
        self._row = {operator.name: o for o, operator in enumerate(deployment.query.topological)}

    def __len__(self) -> int:
        return len(self.counts_pol)

    @overload
    def __getitem__(self, index: int) -> ExecutionPlan: ...

    @overload
    def __getitem__(self, index: slice) -> CountedPlans: ...

    def __getitem__(self, index: int | slice) -> ExecutionPlan | CountedPlans:
        if isinstance(index, slice):
            return CountedPlans(self._deployment, self.counts_pol[index])
        names = [operator.name for operator in self._deployment.query.operators]
        counts_ol = self.counts_pol[index]
        placement = {name: tuple(np.repeat(self._places, counts_ol[self._row[name]]).tolist()) for name in names}
        return still_fused(self._deployment.query, self.given.with_placement(placement))

    def socket_counts(self, deployment: Deployment) -> np.ndarray:
        """Numbers of subtasks [plans, operators in data-flow order, sockets of all hosts in a row]."""
        return self.counts_pol


def distinct_rows(values_nc: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Finds the different rows of small whole numbers >= 0: the first row of each kind, and each row's kind.

    Returns (first_u, kind_n) with values_nc[first_u][kind_n] == values_nc. Rows are packed into single numbers, which
    sort many times faster than rows.
    """
    key_n, span = np.zeros(len(values_nc), np.int64), 1
    for column_n in values_nc.T:
        size = int(column_n.max(initial=0)) + 1
        if span > 2**62 // size:
            key_n = np.unique(key_n, return_inverse=True)[1].astype(np.int64)
            span = int(key_n.max(initial=0)) + 1
        key_n = key_n * size + column_n
        span *= size
    _, first_u, kind_n = np.unique(key_n, return_index=True, return_inverse=True)
    return first_u, kind_n


# skew ----------------------------------------------------------------------------------------------------------------
# Skew in the rate model: how much more than its share the busiest subtask gets, by key groups and by partitions of
# sources.
#
# If that subtask cannot keep up, it holds sources back for all of them. Letters at the end of a name are the axes of
# `twin.rates.layout`.


ORDERS = 16
"""Number of random orders of frequency to average over, as only a run's seed decides which key groups are frequent."""


class SubtaskShares(NamedTuple):
    """Shares of each subtask in the operator's input and output [R]; known: whether they are in the order of subtasks,
    or in any other, as only a run's seed decides which subtask gets which."""

    taken: np.ndarray
    emitted: np.ndarray
    known: bool


def uneven_shares(
    job: JobArrays,
    seats: Sequence[Seats],
    owners_n: Mapping[int, Mapping[str, tuple[int, ...]]],
    fusing: Fusing | None = None,
) -> dict[int, tuple[list[SubtaskShares], np.ndarray]]:
    """Shares of operators' subtasks, and which of these each plan has [N], by operator; only operators with uneven
    ones.

    Shares are by partitions of sources, by key groups, by few values of a key, and by forward and local streams, and
    those within chains, from uneven subtasks. seats: by operator. owners_n: by plan and operator, the subtask of each
    key group, unless they are in contiguous ranges.
    """
    shares: dict[int, list[SubtaskShares]] = {}
    kind_on: dict[int, np.ndarray] = {}  # index of an operator's shares under each plan
    for o, name in enumerate(job.names):
        near = [s for s in job.inputs[o] if job.hows[s].near]
        inner = [s for s in job.inputs[o] if fusing is not None and fusing.inner_sn[s].any()]
        ways = [s for s in job.inputs[o] if job.dealing.forward_s[s] or s in near or s in inner]
        wired = [s for s in job.inputs[o] if job.hows[s].pointwise and not job.dealing.forward_s[s]]
        before = [p for s in {*ways, *wired} if (p := job.producer_s[s]) in shares]
        keyed = group_count(job.deployment.query, name, 1) is not None
        if not (keyed or before or near or wired or job.operators[o].parts is not None or _unlike(job, o)):
            continue
        subtasks_n = seats[o].subtasks_n.astype(int)
        owners = {n: owners[name] for n, owners in owners_n.items() if name in owners} if keyed else {}
        numbers = {each: 1 + number for number, each in enumerate(dict.fromkeys(owners.values()))}
        which_n = np.array([numbers[owners[n]] if n in owners else 0 for n in range(len(subtasks_n))])
        ends = {o, *(job.producer_s[s] for s in near)} if near else set()
        differs = [subtasks_n, which_n, *(kind_on[p] for p in before), *(seats[p].way_n for p in ends)]
        differs += [seats[job.producer_s[s]].subtasks_n for s in wired]
        chained_n = np.zeros(len(subtasks_n), dtype=bool)
        if fusing is not None and inner:
            chained_n = fusing.inner_sn[inner[0]]
            differs.append(chained_n)
        first_u, kind_on[o] = distinct_rows(np.stack(differs, axis=1))
        shares[o] = []
        for n in first_u.tolist():
            count = int(subtasks_n[n])
            if keyed:
                shares[o].append(_of_key_groups(job, o, count, owners.get(n, ())))
                continue
            upstream = {p: shares[p][kind_on[p][n]] for p in before}
            hosts = {p: job.places.host_l[seats[p].sockets(n)] for p in ends}
            senders = {s: int(seats[job.producer_s[s]].subtasks_n[n]) for s in wired}
            shares[o].append(_of_inputs(job, o, count, upstream, hosts, senders, bool(chained_n[n])))
    uneven = {o for o, found in shares.items() if any(len(each.taken) * each.taken.max() > EVEN for each in found)}
    return {o: (shares[o], kind_on[o]) for o in sorted(uneven)}


def _unlike(job: JobArrays, o: int) -> bool:
    """Whether subtasks may get unlike shares: by a key with a known number of values, or as the partitioning says."""
    counted = job.operators[o].counted is not None
    return any(job.hows[s].by_key and (counted or not job.hows[s].even) for s in job.inputs[o])


def _of_inputs(
    job: JobArrays,
    o: int,
    count: int,
    upstream: Mapping[int, SubtaskShares],
    hosts: Mapping[int, np.ndarray],
    senders: Mapping[int, int],
    chained: bool,
) -> SubtaskShares:
    """Shares of an operator without key groups. upstream: those of producers that may send unevenly. hosts: host of
    each subtask at both ends of local streams. senders: subtasks of the producers of rescaled streams. chained: whether
    it is behind its producer in a chain."""
    operator, taken = job.operators[o], np.zeros(count)
    if operator.parts is not None:
        taken = read_shares(operator, count)
    for s in job.inputs[o]:
        producer, values = job.producer_s[s], operator.values(count)
        before = upstream[producer].emitted if producer in upstream else None
        if (job.hows[s].near or s in senders) and before is not None and not upstream[producer].known:
            before = np.full(len(before), before.mean())  # it is not known which subtask sends most
        straight = chained or job.dealing.forward_s[s]
        sent = before if straight else None
        if job.hows[s].near and not straight:
            near = [tuple(np.flatnonzero(hosts[o] == host).tolist()) for host in hosts[producer]]
            rows = [job.hows[s].shares(Ends(p, count, values, each)) for p, each in enumerate(near)]
            sent = (np.full(len(rows), 1.0 / len(rows)) if before is None else before) @ np.array(rows)
        elif s in senders:
            rows = [job.hows[s].shares(Ends(p, count, values, (), senders[s])) for p in range(senders[s])]
            sent = (np.full(len(rows), 1.0 / len(rows)) if before is None else before) @ np.array(rows)
        elif sent is None:  # all producer subtasks send with the same shares
            row = np.array(job.hows[s].shares(Ends(0, count, values)))
            sent = np.full(count, 1.0 / count) if straight else row / row.sum()
        taken[: len(sent)] += job.offered_sent_s[s] * sent[:count]
    taken = taken / max(taken.sum(), 1e-300)
    return SubtaskShares(taken, taken, all(each.known for each in upstream.values()))


def _of_key_groups(job: JobArrays, o: int, count: int, owners: tuple[int, ...]) -> SubtaskShares:
    """Shares of an operator with key groups. If it is not known which of them are frequent, subtasks are in the order
    of their input."""
    query, skew, operator = (
        job.deployment.query,
        job.deployment.workload.keys.get(job.names[o], KeySkew()),
        job.operators[o],
    )
    groups = group_count(query, operator.name, count)
    assert groups is not None
    values = distinct_values(operator, skew, groups)
    populated = np.flatnonzero(values)
    shares = np.sort(skew.by_group(groups))[::-1] if skew.placed else zipf_shares(len(populated), skew.zipf)
    if any(job.hows[s].two_choices for s in job.inputs[o]):
        # even, unless the most frequent key group alone brings more to its two candidates
        most = max(1.0 / count, float(shares[0]) / min(2, count))
        taken = np.array([most, *[(1.0 - most) / max(count - 1, 1)] * (count - 1)])
        return SubtaskShares(taken, taken, known=False)
    owner = np.array(owners or contiguous(groups, count))
    if skew.placed:
        order = np.argsort(-skew.by_group(groups), kind="stable")[: np.count_nonzero(shares)]
        shares, orders = shares[: len(order)], [order]
    else:
        rng = random_stream(0, "rate-keys")
        ranks = [rng.permutation(len(populated)) for _ in range(ORDERS)]
        orders = [populated[np.argsort(each)] for each in ranks]
    loads = [np.bincount(owner[order], shares, minlength=count) for order in orders]
    ranked = [np.arange(count) if skew.placed else np.argsort(-load, kind="stable") for load in loads]
    taken = np.mean([load[rank] for load, rank in zip(loads, ranked, strict=True)], axis=0)
    if operator.hands_over == "records":
        return SubtaskShares(taken, taken, skew.placed)
    held = np.bincount(owner, values, minlength=count) / values.sum()  # a window gives one result for each group
    return SubtaskShares(taken, np.mean([held[rank] for rank in ranked], axis=0), skew.placed)


# seats ---------------------------------------------------------------------------------------------------------------
# Seats: the sockets of an operator's subtasks under N plans at once, in cells of subtasks with equal loads.
#
# Letters at the end of a name are its axes, as in `twin.rates.layout`; v is one of the different ways in which an
# operator's subtasks sit, k a cell of the operator.


EVEN = 1.0 + 1e-9
"""Factor up to which two subtasks count as equally busy: they differ by rounding."""


class Seats(NamedTuple):
    """Sockets of the subtasks of an operator that get any records. count_vl: number on each socket; code_n: the way v
    of each plan; sockets_v: their sockets in the order of subtasks, None if that is the order of sockets."""

    count_vl: np.ndarray
    code_n: np.ndarray
    sockets_v: list[np.ndarray] | None

    @classmethod
    def of_plans(cls, job: JobArrays, o: int, plans: Sequence[ExecutionPlan]) -> Self:
        """Seats of an operator under plans. Raises KeyError if a plan does not fit the deployment."""
        placements = [plan.placement[job.names[o]] for plan in plans]
        ways = {placement: v for v, placement in enumerate(dict.fromkeys(placements))}
        column, fed = job.places.column, job.dealing.fed_o[o]
        sockets_v = [
            np.array([column[Location.parse(text)] for text in way[: int(min(len(way), fed))]], dtype=int)
            for way in ways
        ]
        count_vl = np.zeros((len(sockets_v), len(column)))
        for row, each in zip(count_vl, sockets_v, strict=True):
            np.add.at(row, each, 1.0)
        return cls(count_vl, np.array([ways[each] for each in placements], dtype=int), sockets_v)

    @classmethod
    def of_counts(cls, job: JobArrays, o: int, count_nl: np.ndarray) -> Self:
        """Seats of an operator from numbers of subtasks. count_nl: by plan and socket."""
        count_nl, fed = np.asarray(count_nl, dtype=float), job.dealing.fed_o[o]
        if np.isfinite(fed):  # only the first subtasks get records
            count_nl = np.clip(fed - (np.cumsum(count_nl, axis=1) - count_nl), 0.0, count_nl)
        return cls(count_nl, np.arange(len(count_nl)), None)

    @property
    def subtasks_n(self) -> np.ndarray:
        """Number of these subtasks. [N]"""
        return np.asarray(self.count_vl.sum(axis=1)[self.code_n])

    @property
    def way_n(self) -> np.ndarray:
        """Number of the way in which the subtasks sit, equal for plans with the same way. [N]"""
        return self.code_n if self.sockets_v is not None else distinct_rows(self.count_vl.astype(int))[1]

    def sockets(self, n: int) -> np.ndarray:
        """Socket of each subtask under a plan. [R]"""
        v = int(self.code_n[n])
        if self.sockets_v is not None:
            return self.sockets_v[v]
        return np.repeat(np.arange(self.count_vl.shape[1]), self.count_vl[v].astype(int))

    def select(self, rows: np.ndarray) -> Self:
        """Seats under some of the plans (a boolean mask [N])."""
        return self._replace(code_n=self.code_n[rows])

    def sockets_nr(self) -> np.ndarray:
        """Socket of each subtask under all plans, -1 where a plan has fewer. [N, R]"""
        if self.sockets_v is not None:
            size_v, each = np.array([len(way) for way in self.sockets_v]), np.concatenate(self.sockets_v)
        else:
            count_vl = self.count_vl.astype(int)
            size_v = count_vl.sum(axis=1)
            each = np.repeat(np.tile(np.arange(count_vl.shape[1]), len(count_vl)), count_vl.ravel())
        found_vr = np.full((len(size_v), size_v.max(initial=0)), -1)
        found_vr[np.arange(found_vr.shape[1]) < size_v[:, None]] = each
        return found_vr[self.code_n]


class Group(NamedTuple):
    """Cells of an operator. [K, N] each

    taken_kn, emitted_kn: their shares of its input and output. busiest_kn: expected decrease of the number of busiest
    subtasks on the socket if one subtask of the cell is left out; that of the others is one less this. 1 and 0 if it is
    known which subtasks these are.
    """

    socket_kn: np.ndarray
    count_kn: np.ndarray
    taken_kn: np.ndarray
    emitted_kn: np.ndarray
    busiest_kn: np.ndarray


def alike_cells(seats: Seats) -> Group:
    """Cells of an operator all of whose subtasks get the same: one a socket, empty if a plan does not need it."""
    most = max(1, int((seats.count_vl > 0).sum(axis=1).max(initial=1)))
    chosen_vk = np.argsort(-seats.count_vl, axis=1, kind="stable")[:, :most]
    socket_kn = chosen_vk.T[:, seats.code_n]
    count_kn = np.take_along_axis(seats.count_vl, chosen_vk, axis=1).T[:, seats.code_n]
    share_kn = count_kn / count_kn.sum(axis=0)
    return Group(socket_kn, count_kn, share_kn, share_kn, np.zeros_like(count_kn))


def uneven_cells(seats: Seats, shares: Sequence[SubtaskShares], kind_n: np.ndarray) -> Group:
    """Cells of an operator with uneven subtasks: two a socket, of the busiest there, and of the others.

    kind_n: which of the shares the subtasks have under each plan.
    """
    first_u, group_n = distinct_rows(np.stack([seats.way_n, kind_n], axis=1))
    groups = [_cells_of(seats.sockets(n), shares[kind_n[n]]) for n in first_u.tolist()]
    cells = max(len(each) for each in groups)
    padded = np.stack([np.vstack([each, np.zeros((cells - len(each), 5))]) for each in groups])
    socket_kn, *others = padded[group_n].transpose(2, 1, 0)
    return Group(socket_kn.astype(int), *others)


def _cells_of(sockets: np.ndarray, shares: SubtaskShares) -> np.ndarray:
    """Fields of `Group`, one row a cell. [2 for each socket in use, 5]"""
    taken, emitted = shares.taken, shares.emitted
    size, top = len(sockets), _busiest(taken)
    rows = []
    for socket in np.unique(sockets).tolist():
        mine = np.flatnonzero(sockets == socket)
        if shares.known:
            first = mine[_busiest(taken[mine])]
            count, all_, own = float(len(first)), [taken[mine].sum(), emitted[mine].sum()], (1.0, 0.0)
            sums = [taken[first].sum(), emitted[first].sum()]
        else:  # any subtask may be one of the busiest, so all sockets have their part of those
            here, others = len(mine) / size, (len(mine) - 1) / max(size - 1, 1)
            count, all_ = here * len(top), [here, here]
            # expected beside one of the busiest, and beside another (hypergeometric): others * (top - 1), others * top
            own = count - others * (len(top) - 1), count - others * len(top)
            sums = [here * taken[top].sum(), here * emitted[top].sum()]
        rows.append([socket, count, *sums, own[0]])
        rows.append([socket, len(mine) - count, all_[0] - sums[0], all_[1] - sums[1], own[1]])
    return np.array(rows)


def _busiest(taken: np.ndarray) -> np.ndarray:
    """Subtasks that get as much as the busiest."""
    return np.flatnonzero(taken * EVEN >= taken.max())
