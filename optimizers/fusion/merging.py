"""Components that grow: what the algorithms of fusion share while they run."""

from __future__ import annotations

from typing import NamedTuple

from optimizers.fusion.components import Component, Fusion, Splits
from optimizers.fusion.job import Job


class Edge(NamedTuple):
    """A transfer between operators by their numbers in the job."""

    producer: int
    consumer: int
    rate_per_s: float


class Merging:
    """Every operator begins alone; a component has the number of one of its operators.

    edges: in the order in which Algorithm 1 looks at them, by producers. masks: PA of each component, a bit an
    attribute.
    """

    def __init__(self, job: Job) -> None:
        self._job, self._splits, self._names = job, Splits(job), list(job.by_name)
        number = {name: index for index, name in enumerate(self._names)}
        bit = {each: 1 << index for index, each in enumerate(sorted(set().union(*self._splits.attributes.values())))}
        edges = (Edge(number[each.producer], number[each.consumer], each.rate_per_s) for each in job.transfers)
        self.edges: tuple[Edge, ...] = tuple(sorted(edges, key=lambda edge: edge.producer))
        self.masks = [sum(bit[each] for each in self._splits.attributes[name]) for name in self._names]
        self.members = [[index] for index in range(len(self._names))]
        self._wanted = [operator.replicas for operator in job.operators]
        self._of = list(range(len(self._names)))

    def component(self, operator: int) -> int:
        """The component that an operator is in."""
        return self._of[operator]

    def common(self, one: int, other: int) -> int:
        """How many attributes two components have in common."""
        return (self.masks[one] & self.masks[other]).bit_count()

    def fit(self, one: int, other: int) -> bool:
        """Whether two components can be one, with as many replicas as either wants.

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
        return kept, gone

    def result(self) -> Fusion:
        """What has grown so far. Raises BadInput if an operator alone wants more replicas than it can be split into."""
        groups = (tuple(self._names[each] for each in sorted(group)) for group in self.members if group)
        found = []
        for group in sorted(groups, key=lambda group: self._names.index(group[0])):
            self._splits.check(group)
            found.append(Component(group, self._splits.common(group), self._splits.cardinality(group)))
        return Fusion(self._job, tuple(found))

    def _cardinality(self, members: list[int]) -> float:
        return self._splits.cardinality([self._names[each] for each in members])
