"""Skew in the rate model: how much more than its share the busiest replica gets, by key groups and by partitions of
sources.

If that replica cannot keep up, it holds sources back for all of them. Letters at the end of a name are the axes of
`twin.rates.layout`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from twin.key_skew import KeySkew, zipf_shares
from twin.keys import contiguous, distinct_values, group_count
from twin.partitionings.traits import Ends
from twin.partitions import counts
from twin.randomness import random_stream
from twin.rates.placements import distinct_rows
from twin.rates.seats import EVEN, Seats

if TYPE_CHECKING:
    from twin.rates.arrays import JobArrays
    from twin.rates.chaining import Fusing

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
        before = [p for s in ways if (p := job.producer_s[s]) in shares]
        keyed = group_count(job.deployment.query, name, 1) is not None
        if not (keyed or before or near or job.operators[o].parts is not None or _unlike(job, o)):
            continue
        replicas_n = seats[o].replicas_n.astype(int)
        owners = {n: owners[name] for n, owners in owners_n.items() if name in owners} if keyed else {}
        numbers = {each: 1 + number for number, each in enumerate(dict.fromkeys(owners.values()))}
        which_n = np.array([numbers[owners[n]] if n in owners else 0 for n in range(len(replicas_n))])
        ends = {o, *(job.producer_s[s] for s in near)} if near else set()
        differs = [replicas_n, which_n, *(kind_on[p] for p in before), *(seats[p].way_n for p in ends)]
        chained_n = np.zeros(len(replicas_n), dtype=bool)
        if fusing is not None and inner:
            chained_n = fusing.inner_sn[inner[0]]
            differs.append(chained_n)
        first_u, kind_on[o] = distinct_rows(np.stack(differs, axis=1))
        shares[o] = []
        for n in first_u.tolist():
            count = int(replicas_n[n])
            if keyed:
                shares[o].append(_of_key_groups(job, o, count, owners.get(n, ())))
                continue
            upstream = {p: shares[p][kind_on[p][n]] for p in before}
            hosts = {p: job.places.host_l[seats[p].sockets(n)] for p in ends}
            shares[o].append(_of_inputs(job, o, count, upstream, hosts, bool(chained_n[n])))
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
    chained: bool,
) -> SubtaskShares:
    """Shares of an operator without key groups. upstream: those of producers that may send unevenly. hosts: host of
    each subtask at both ends of local streams. chained: whether it is behind its producer in a chain."""
    operator, taken = job.operators[o], np.zeros(count)
    if operator.parts is not None:
        taken = np.array(counts(operator.parts, count)) / operator.parts
    for s in job.inputs[o]:
        producer, values = job.producer_s[s], operator.values(count)
        before = upstream[producer].emitted if producer in upstream else None
        if job.hows[s].near and before is not None and not upstream[producer].known:
            before = np.full(len(before), before.mean())  # it is not known which host sends most
        straight = chained or job.dealing.forward_s[s]
        sent = before if straight else None
        if job.hows[s].near and not straight:
            near = [tuple(np.flatnonzero(hosts[o] == host).tolist()) for host in hosts[producer]]
            rows = [job.hows[s].shares(Ends(p, count, values, each)) for p, each in enumerate(near)]
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
    if operator.hands_over == "tuples":
        return SubtaskShares(taken, taken, skew.placed)
    held = np.bincount(owner, values, minlength=count) / values.sum()  # a window gives one result for each group
    return SubtaskShares(taken, np.mean([held[rank] for rank in ranked], axis=0), skew.placed)
