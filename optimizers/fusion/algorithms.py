"""Algorithm 1 of Enorm: merge the two components with the largest score, as long as two fit; and its baseline.

By COMM the score is the rate from operator to operator (line 16); by PA it is the number of attributes in common, so
that much can still be merged afterwards. Both have the result of the paper's loop, which looks at all transfers after
each merge.

Components that send to each other in a circle would wait for timestamps that wait for their own, and bounded channels
could come to a standstill: `by_communication` can do without. The baseline grows components from random operators
(Section 7.6).
"""

from __future__ import annotations

import heapq
from typing import NamedTuple

import numpy as np

from optimizers.fusion.components import FusedComponent, Fusion, Splits
from optimizers.fusion.job import FusionJob


class TransferEdge(NamedTuple):
    """A transfer between operators by their numbers in the job."""

    producer: int
    consumer: int
    rate_per_s: float


class Merging:
    """Components while they are merged: every operator begins alone; a component is numbered as one of its operators.

    edges: in the order in which Algorithm 1 looks at them, by producers. masks: attributes (PA) of each component, a
    bit an attribute.
    """

    def __init__(self, job: FusionJob) -> None:
        self._job, self._splits, self._names = job, Splits(job), list(job.by_name)
        number = {name: index for index, name in enumerate(self._names)}
        bit = {each: 1 << index for index, each in enumerate(sorted(set().union(*self._splits.attributes.values())))}
        edges = (TransferEdge(number[each.producer], number[each.consumer], each.rate_per_s) for each in job.transfers)
        self.edges: tuple[TransferEdge, ...] = tuple(sorted(edges, key=lambda edge: edge.producer))
        self.masks = [sum(bit[each] for each in self._splits.attributes[name]) for name in self._names]
        self.members = [[index] for index in range(len(self._names))]
        self._wanted = [operator.replicas for operator in job.operators]
        self._of = list(range(len(self._names)))
        self._next: list[set[int]] = [set() for _ in self._names]
        for edge in self.edges:
            self._next[edge.producer].add(edge.consumer)

    def component(self, operator: int) -> int:
        """Number of the component that an operator is in."""
        return self._of[operator]

    def common(self, one: int, other: int) -> int:
        """Number of attributes that two components have in common."""
        return (self.masks[one] & self.masks[other]).bit_count()

    def fit(self, one: int, other: int) -> bool:
        """Whether two components can be merged, with as many replicas as either wants.

        What does not fit never will: merging only takes attributes away.
        """
        if one == other or not self.masks[one] & self.masks[other]:
            return False
        wanted = max(self._wanted[one], self._wanted[other])
        return wanted == 1 or self._cardinality(self.members[one] + self.members[other]) >= wanted

    def merge(self, one: int, other: int) -> tuple[int, int]:
        """Makes two components one. Returns the number that it has from now on, and the one that is no more."""
        kept, gone = (one, other) if len(self.members[one]) >= len(self.members[other]) else (other, one)
        for operator in self.members[gone]:
            self._of[operator] = kept
        self.members[kept] += self.members[gone]
        self.members[gone] = []
        self.masks[kept] &= self.masks[gone]
        self._wanted[kept] = max(self._wanted[kept], self._wanted[gone])
        self._next[kept] |= self._next[gone]
        return kept, gone

    def path_around(self, one: int, other: int) -> bool:
        """Whether a path leads from one component to the other over a third."""
        waiting = list(self._after(one) - {other})
        seen = {one, *waiting}
        while waiting:
            after = self._after(waiting.pop())
            if other in after:
                return True
            waiting += after - seen
            seen |= after
        return False

    def _after(self, component: int) -> set[int]:
        """Components that a component sends to."""
        self._next[component] = {self._of[each] for each in self._next[component]} - {component}
        return self._next[component]

    def result(self) -> Fusion:
        """Fusion of the components merged so far. Raises BadInput if an operator alone wants more replicas than it can
        be split into."""
        groups = (tuple(self._names[each] for each in sorted(group)) for group in self.members if group)
        found = []
        for group in sorted(groups, key=lambda group: self._names.index(group[0])):
            self._splits.check(group)
            found.append(FusedComponent(group, self._splits.common(group), self._splits.cardinality(group)))
        return Fusion(self._job, tuple(found))

    def _cardinality(self, members: list[int]) -> float:
        return self._splits.cardinality([self._names[each] for each in members])


def by_communication(job: FusionJob, *, acyclic: bool = False) -> Fusion:
    """Fusion by score COMM. One pass, the largest rate first, suffices: neither rates nor what does not fit ever
    change.

    acyclic: no component may send to itself over others. Merging two ends of a transfer closes a circle exactly if
    another path leads from one to the other; what that prevents is tried again until nothing changes, as a merge may
    have shortened the other path to nothing.
    """
    merging, changed = Merging(job), True
    waiting = [edge for edge in sorted(merging.edges, key=lambda edge: -edge.rate_per_s) if edge.rate_per_s]
    while changed:
        changed, refused = False, []
        for edge in waiting:
            one, other = merging.component(edge.producer), merging.component(edge.consumer)
            if not merging.fit(one, other):
                continue
            if acyclic and merging.path_around(one, other):
                refused.append(edge)
            else:
                merging.merge(one, other)
                changed = True
        waiting = refused
    return merging.result()


def by_attributes(job: FusionJob) -> Fusion:
    """Fusion by score PA. Scores only fall, so an earlier one is an upper bound; it is computed anew before it is
    used."""
    merging = Merging(job)
    scores = [(-merging.common(edge.producer, edge.consumer), index) for index, edge in enumerate(merging.edges)]
    heapq.heapify(scores)
    while scores:
        noted, index = heapq.heappop(scores)
        edge = merging.edges[index]
        one, other = merging.component(edge.producer), merging.component(edge.consumer)
        if not merging.fit(one, other):
            continue
        score = -merging.common(one, other)
        if score == noted:
            merging.merge(one, other)
        else:
            heapq.heappush(scores, (score, index))
    return merging.result()


def baseline(job: FusionJob, rng: np.random.Generator, *, whole: bool = True) -> Fusion:
    """Fusion by the baseline: a component takes in downstream operators, the one with most attributes in common first.

    Components grow while one fits, from the first operator, then from random ones that are still alone. whole: an
    operator taken in may already be part of a component, which then comes along. The paper does not say; only so has
    COMM the most components, as it reports.
    """
    merging = Merging(job)
    consumers: list[list[int]] = [[] for _ in job.operators]
    for edge in merging.edges:
        consumers[edge.producer].append(edge.consumer)
    for start in [0, *rng.permutation(np.arange(1, len(consumers))).tolist()]:
        if len(merging.members[merging.component(start)]) == 1:
            _grow(merging, start, consumers, whole)
    return merging.result()


def _grow(merging: Merging, start: int, consumers: list[list[int]], whole: bool) -> None:
    while True:
        grown = merging.component(start)
        downstream = (merging.component(each) for member in merging.members[grown] for each in consumers[member])
        fitting = [
            each for each in downstream if merging.fit(grown, each) and (whole or len(merging.members[each]) == 1)
        ]
        if not fitting:
            return
        merging.merge(grown, max(fitting, key=lambda each: merging.common(grown, each)))
