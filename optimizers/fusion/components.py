"""Components: operators that are split by the same attributes and run as one (Enorm, Section 4.4).

Two operators that name an attribute alike may mean different values: a map between them may compute it anew. So an
attribute is followed from its source. It keeps its name as long as every operator on the way passes it on; where
operator `splitter` makes it, or misses it in some of its inputs, it is `word of splitter`; where inputs disagree it is
`word into join`.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import networkx as nx

from optimizers.fusion.job import FusionJob, FusionOperator
from twin.errors import BadInput, suggest

Lineage = str


def attribute_of(lineage: Lineage) -> str:
    """Name that operators give an attribute; names have no spaces."""
    return lineage.partition(" ")[0]


def origins(job: FusionJob) -> dict[str, dict[str, Lineage]]:
    """Lineage of each attribute of an operator's input, by operator."""
    taken: dict[str, dict[str, Lineage]] = {}
    given: dict[str, dict[str, Lineage]] = {}
    for operator in job.topological:
        inputs = _different([given[name] for name in job.producers[operator.name]])
        taken[operator.name] = {name: _merged(operator, name, inputs) for name in operator.schema_in}
        passed = {name for name in operator.passed if all(name in each for each in inputs)}
        given[operator.name] = {
            name: taken[operator.name][name] if name in passed else _made(operator, name)
            for name in operator.schema_out
        }
    return taken


def _different(inputs: list[dict[str, Lineage]]) -> list[dict[str, Lineage]]:
    """Distinct ones of the producers' lineages; mostly all producers give the same."""
    found: list[dict[str, Lineage]] = []
    for each in inputs:
        if each not in found:
            found.append(each)
    return found


def _merged(operator: FusionOperator, attribute: str, inputs: list[dict[str, Lineage]]) -> Lineage:
    found = {each[attribute] for each in inputs if attribute in each}
    if not inputs:
        return attribute
    return found.pop() if len(found) == 1 else f"{attribute} into {operator.name}"


def _made(operator: FusionOperator, attribute: str) -> Lineage:
    return attribute if operator.kind == "source" else f"{attribute} of {operator.name}"


def partition_attributes(job: FusionJob) -> dict[str, frozenset[Lineage]]:
    """Partition attributes (PA) of every operator, as lineages: two operators can be fused if they have one in common.

    An operator that takes its tuples however they are split may also stay with any of its producers, so it has their
    attributes as well, and can be fused with them even where its input has none of these. A source has none: the broker
    decides what each of its replicas reads.
    """
    taken, found = origins(job), dict[str, frozenset[Lineage]]()
    for operator in job.topological:
        own = {taken[operator.name][name] for name in operator.attributes}
        if operator.free:
            own |= {each for producer in job.producers[operator.name] for each in found[producer]}
        found[operator.name] = frozenset(own)
    return found


class Splits:
    """Ways to split the operators of a job, derived once."""

    def __init__(self, job: FusionJob) -> None:
        self.job = job
        self.attributes = partition_attributes(job)

    def common(self, members: Iterable[str]) -> frozenset[Lineage]:
        """PA(C): partition attributes that all members have."""
        return frozenset.intersection(*(self.attributes[name] for name in members))

    def cardinality(self, members: Sequence[str]) -> float:
        """PA^c(C): number of partitions into which the members can be split together; inf if any number.

        It is the product of the numbers of values of their common attributes; 1 if they have none. There is no limit if
        all members are split by their whole input, which tells tuples apart.
        """
        if not any(isinstance(self.job.by_name[name].partition_by, tuple) for name in members):
            return math.inf
        return math.prod(self.job.distinct.get(attribute_of(each), math.inf) for each in self.common(members))

    def check(self, members: Sequence[str]) -> None:
        """Raises BadInput if the members cannot be one component, or not with as many replicas as they want."""
        if len(members) > 1 and not self.common(members):
            first, second = next(self._strangers(members), (members[0], members[-1]))
            raise BadInput(
                f"{self._split(first)} and {self._split(second)} cannot be in one component: "
                f"no attribute splits {', '.join(members)} alike; put them into different components"
            )
        most = max((self.job.by_name[name] for name in members), key=lambda operator: operator.replicas)
        if most.replicas > (limit := self.cardinality(members)):
            together = f" with {', '.join(each for each in members if each != most.name)}" if len(members) > 1 else ""
            raise BadInput(
                f"{most.what} wants {most.replicas} replicas, but{together} it can be split into {limit:g} at most "
                f"({self._split(most.name)}); ask for fewer, or for other partition attributes"
            )

    def _strangers(self, members: Sequence[str]) -> Iterator[tuple[str, str]]:
        return (
            (one, other)
            for number, one in enumerate(members)
            for other in members[number + 1 :]
            if not self.attributes[one] & self.attributes[other]
        )

    def _split(self, name: str) -> str:
        by = ", ".join(sorted(self.attributes[name])) or "nothing"
        return f"{name!r}, split by {by}" if self.job.by_name[name].kind != "source" else f"source {name!r}"


@dataclass(frozen=True)
class FusedComponent:
    """Component of a fusion. operators: in the job's order. attributes: PA(C). cardinality: PA^c(C)."""

    operators: tuple[str, ...]
    attributes: frozenset[Lineage]
    cardinality: float


@dataclass(frozen=True)
class Fusion:
    """Partition of a job's operators into components, in the order of their first operators."""

    job: FusionJob
    components: tuple[FusedComponent, ...]

    @cached_property
    def component_of(self) -> dict[str, int]:
        """Number of each operator's component, by operator."""
        return {name: number for number, each in enumerate(self.components) for name in each.operators}

    @property
    def between_per_s(self) -> float:
        """Tuples a second that are sent from component to component."""
        of = self.component_of
        crossing = (each for each in self.job.transfers if of[each.producer] != of[each.consumer])
        return sum(transfer.rate_per_s for transfer in crossing)

    @property
    def communication(self) -> float:
        """Share of all transfers that go from component to component (Enorm, Fig. 15); 0 if nothing is sent."""
        return self.between_per_s / self.job.rate_per_s if self.job.rate_per_s else 0.0

    @cached_property
    def graph(self) -> nx.DiGraph[int]:
        """Graph of components, with an edge where tuples go from one to another."""
        graph: nx.DiGraph[int] = nx.DiGraph()
        graph.add_nodes_from(range(len(self.components)))
        ends = ((self.component_of[each.producer], self.component_of[each.consumer]) for each in self.job.transfers)
        graph.add_edges_from((one, other) for one, other in ends if one != other)
        return graph

    @property
    def cyclic(self) -> bool:
        """Whether components wait for each other in a circle: with bounded channels they can come to a standstill."""
        return not nx.is_directed_acyclic_graph(self.graph)


def fused(job: FusionJob, groups: Iterable[Sequence[str]]) -> Fusion:
    """Fusion with each group of operators as one component; operators that are in no group stay alone.

    Raises BadInput if a group names an unknown operator or one that is in another group, or if its operators cannot be
    split alike.
    """
    splits, given = Splits(job), [tuple(group) for group in groups]
    named = [name for group in given for name in group]
    for name in named:
        if name not in job.by_name:
            raise BadInput(f"a component names unknown operator {name!r}; {suggest(name, job.by_name)}")
        if named.count(name) > 1:
            raise BadInput(f"operator {name!r} is in components {named.count(name)} times; name it once")
    alone = [(name,) for name in job.by_name.keys() - set(named)]
    place = {name: number for number, name in enumerate(job.by_name)}.__getitem__
    members = [tuple(sorted(group, key=place)) for group in (*given, *alone) if group]
    members.sort(key=lambda group: place(group[0]))
    for group in members:
        splits.check(group)
    return Fusion(job, tuple(FusedComponent(each, splits.common(each), splits.cardinality(each)) for each in members))
