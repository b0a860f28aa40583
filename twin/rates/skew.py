"""What the rate model knows of key groups, and of partitions of sources: how much more than its share the busiest
replica gets, beside all others, which are taken as alike.

Where it can't keep up it holds sources back for all of them: its channels are full, and the others' hardly ever hold a
tuple. Of a window's results it has fewer than of the tuples, as these are of few groups. Letters at the end of a name
are the axes of `twin.rates.layout`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple, Self

import numpy as np

from twin.deployment import Deployment
from twin.key_skew import KeySkew, zipf_shares
from twin.keys import contiguous, distinct_values, group_count
from twin.kinds.flow import KeySpread
from twin.kinds.windowed import Windowed
from twin.partitions import busiest
from twin.randomness import stream

if TYPE_CHECKING:
    from twin.rates.layout import Layout
    from twin.rates.load import Load

ORDERS = 16
"""Random orders of frequency averaged over: which key groups are frequent is known to a run's seed alone."""


class Crowding(NamedTuple):
    """more_on: input of an operator's busiest replica over the mean of all, >= 1. [O, N] placed: by operator, of each
    stratum of its `KeySpread`, the share that is on the busiest replica. [K, N]"""

    more_on: np.ndarray
    placed: Mapping[int, np.ndarray]

    def select(self, rows: np.ndarray) -> Crowding:
        """Under some of the plans (a boolean mask [N])."""
        return Crowding(self.more_on[:, rows], {o: each[:, rows] for o, each in self.placed.items()})


def crowding(
    deployment: Deployment,
    names: Sequence[str],
    replicas_on: np.ndarray,
    owners_n: Mapping[int, Mapping[str, tuple[int, ...]]],
) -> Crowding | None:
    """None if no operator has key groups, or partitions to read.

    owners_n: by plan, the replica of each key group of operators where they are not in contiguous ranges.
    """
    query = deployment.query
    keyed = [o for o, name in enumerate(names) if group_count(query, name, 1) is not None]
    read = {o: parts for o, name in enumerate(names) if (parts := query.operator(name).parts) is not None}
    if not keyed and not read:
        return None
    found, placed = np.ones_like(replicas_on), {}
    for o, parts in read.items():
        found[o] = [busiest(parts, count) for count in replicas_on[o].astype(int).tolist()]
    for o in keyed:
        known: dict[tuple[int, tuple[int, ...]], int] = {}
        each: list[tuple[float, np.ndarray]] = []
        which = np.zeros(replicas_on.shape[1], dtype=int)
        for number, count in enumerate(replicas_on[o].astype(int).tolist()):
            owners = owners_n.get(number, {}).get(names[o], ())
            if (count, owners) not in known:
                known[count, owners] = len(each)
                each.append(_crowding(deployment, names[o], count, owners))
            which[number] = known[count, owners]
        found[o] = np.array([more for more, _ in each])[which]
        placed[o] = np.stack([on for _, on in each], axis=1)[:, which]
    return Crowding(found, placed)


def spreads(deployment: Deployment, names: Sequence[str]) -> dict[str, KeySpread]:
    """How an aggregate's window is spread over its groups, by name, where that matters: keys are skewed, or come to
    several replicas. Key groups are put together: the most frequent, the next 2, 4 ..."""
    found = {}
    for name in names:
        operator, skew = deployment.query.operator(name), deployment.workload.keys.get(name, KeySkew())
        if not isinstance(operator, Windowed) or operator.joins:
            continue
        groups, places = group_count(deployment.query, name, deployment.plan.replicas(name)), _places(deployment, name)
        if groups is not None and (places > 1.0 or skew.uneven):
            found[name] = _spread(distinct_values(operator, skew, groups), skew, places)
        elif places > 1.0:
            found[name] = KeySpread(
                np.ones(1), np.array([float(operator.values(deployment.plan.replicas(name)))]), places
            )
    return found


def _places(deployment: Deployment, name: str) -> float:
    """Replicas to which the tuples of one group come, at most."""
    ways = [deployment.query.partitioning(each) for each in deployment.query.inputs(name)]
    return max(1.0 if way.whole or way.keeps_keys else 2.0 if way.two_choices else np.inf for way in ways)


def key_shares(values: np.ndarray, skew: KeySkew) -> tuple[np.ndarray, np.ndarray]:
    """Of key groups that have any, their shares of the input and distinct values, the most frequent first. [G]"""
    if skew.placed:
        shares = skew.by_group(len(values))
        order = np.argsort(-shares, kind="stable")[: np.count_nonzero(shares)]
        return shares[order], values[order]
    populated = values[values > 0]
    return zipf_shares(len(populated), skew.zipf), np.full(len(populated), populated.mean())


def _spread(values: np.ndarray, skew: KeySkew, places: float) -> KeySpread:
    shares, values = key_shares(values, skew)
    edges = _edges(len(shares))
    return KeySpread(np.add.reduceat(shares, edges), np.add.reduceat(values, edges), places)


def _edges(groups: int) -> list[int]:
    return [2**k - 1 for k in range(groups.bit_length() + 1) if 2**k - 1 < groups]


def _crowding(deployment: Deployment, name: str, replicas: int, owners: tuple[int, ...]) -> tuple[float, np.ndarray]:
    """Of the busiest replica: its input over the mean, and the share of each stratum of key groups that it has."""
    query, skew = deployment.query, deployment.workload.keys.get(name, KeySkew())
    groups = group_count(query, name, replicas)
    assert groups is not None
    populated = np.flatnonzero(distinct_values(query.operator(name), skew, groups))
    shares = np.sort(skew.by_group(groups))[::-1] if skew.placed else zipf_shares(len(populated), skew.zipf)
    if any(query.partitioning(each).two_choices for each in query.inputs(name)):
        # even, but for what the most frequent key group alone brings to its two candidates
        return max(1.0, replicas * float(shares[0]) / min(2, replicas)), np.full(1, 1.0 / replicas)
    placed = np.array(owners or contiguous(groups, replicas))
    if skew.placed:
        order = np.argsort(-skew.by_group(groups), kind="stable")[: np.count_nonzero(shares)]
        return _hottest(shares[: len(order)], [placed[order]], replicas)
    rng = stream(0, "rate-keys")
    ranks = [rng.permutation(len(populated)) for _ in range(ORDERS)]
    return _hottest(shares, [placed[populated][np.argsort(each)] for each in ranks], replicas)


def _hottest(shares: np.ndarray, owners: Sequence[np.ndarray], replicas: int) -> tuple[float, np.ndarray]:
    """shares: of key groups, the most frequent first; owners: their replicas, where they may be."""
    loads = [np.bincount(each, shares, minlength=replicas) for each in owners]
    on_it = np.mean([each == load.argmax() for each, load in zip(owners, loads, strict=True)], axis=0)
    edges = _edges(len(shares))
    sizes = np.diff([*edges, len(shares)])
    return replicas * float(np.mean([load.max() for load in loads])), np.add.reduceat(on_it, edges) / sizes


class Hottest(NamedTuple):
    """more, less: input of the busiest replica, and of each other, over the mean of all. share: of what leaves the
    operator, what comes from the busiest. [O, N] each"""

    more: np.ndarray
    less: np.ndarray
    share: np.ndarray

    def of(self, rows: np.ndarray | list[int]) -> Self:
        """Of some operators."""
        return self._replace(more=self.more[rows], less=self.less[rows], share=self.share[rows])

    def mean(self, load: np.ndarray, law: Callable[[np.ndarray], np.ndarray]) -> np.ndarray:
        """Over what leaves, of what follows from a replica's load. load: of all."""
        return self.share * law(load * self.more) + (1.0 - self.share) * law(load * self.less)


def hottest(layout: Layout, found: Load) -> Hottest | None:
    """Those of all operators; None if keys are even."""
    more = layout.crowding_on
    if more is None:
        return None
    share = more / layout.replicas_on
    less = (1.0 - share) * layout.replicas_on / np.maximum(layout.replicas_on - 1.0, 1.0)
    share = np.minimum(share, 1.0)
    assert layout.crowding is not None
    for o, placed in layout.crowding.placed.items():
        spread = layout.job.windows.spreads.get(layout.job.names[o])
        if spread is None or o in layout.job.windows.slides:
            continue
        groups = spread.by_stratum(found.window_on[o], layout.replicas_on[o])
        share[o] = (groups * placed).sum(axis=0) / np.maximum(groups.sum(axis=0), 1e-12)
    return Hottest(more, less, share)
