"""Components of operators that run as one, and the algorithms that make them (Enorm, Section 4.4)."""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import networkx as nx
import numpy as np

from optimizers.fusion.job import FusionJob, FusionOperator
from optimizers.program import Program, ProgramLimits, ProgramOutcome, summed
from twin.errors import BadInput, suggest

# components ----------------------------------------------------------------------------------------------------------
# Components: operators that are split by the same attributes and run as one (Enorm, Section 4.4).
#
# Two operators that name an attribute alike may mean different values: a map between them may compute it anew. So an
# attribute is followed from its source. It keeps its name as long as every operator on the way passes it on; where
# operator `splitter` makes it, or misses it in some of its inputs, it is `word of splitter`; where inputs disagree it
# is `word into join`.


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

    An operator that takes its records however they are split may also stay with any of its producers, so it has their
    attributes as well, and can be fused with them even where its input has none of these. A source has none: the broker
    decides what each of its subtasks reads.
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
        all members are split by their whole input, which tells records apart.
        """
        if not any(isinstance(self.job.by_name[name].partition_by, tuple) for name in members):
            return math.inf
        return math.prod(self.job.distinct.get(attribute_of(each), math.inf) for each in self.common(members))

    def check(self, members: Sequence[str]) -> None:
        """Raises BadInput if the members cannot be one component, or not with as many subtasks as they want."""
        if len(members) > 1 and not self.common(members):
            first, second = next(self._strangers(members), (members[0], members[-1]))
            raise BadInput(
                f"{self._split(first)} and {self._split(second)} cannot be in one component: "
                f"no attribute splits {', '.join(members)} alike; put them into different components"
            )
        most = max((self.job.by_name[name] for name in members), key=lambda operator: operator.parallelism)
        if most.parallelism > (limit := self.cardinality(members)):
            together = f" with {', '.join(each for each in members if each != most.name)}" if len(members) > 1 else ""
            raise BadInput(
                f"{most.what} wants {most.parallelism} subtasks, but{together} it can be split into {limit:g} at most "
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
        """Records a second that are sent from component to component."""
        of = self.component_of
        crossing = (each for each in self.job.transfers if of[each.producer] != of[each.consumer])
        return sum(transfer.rate_per_s for transfer in crossing)

    @property
    def communication(self) -> float:
        """Share of all transfers that go from component to component (Enorm, Fig. 15); 0 if nothing is sent."""
        return self.between_per_s / self.job.rate_per_s if self.job.rate_per_s else 0.0

    @cached_property
    def graph(self) -> nx.DiGraph[int]:
        """Graph of components, with an edge where records go from one to another."""
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


# Algorithm 1 and its baseline ----------------------------------------------------------------------------------------
# Algorithm 1 of Enorm: merge the two components with the largest score, as long as two fit; and its baseline.
#
# By COMM the score is the rate from operator to operator (line 16); by PA it is the number of attributes in common, so
# that much can still be merged afterwards. Both have the result of the paper's loop, which looks at all transfers
# after each merge.
#
# Components that send to each other in a circle would wait for timestamps that wait for their own, and bounded
# channels could come to a standstill: `by_communication` can do without. The baseline grows components from random
# operators (Section 7.6).


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
        self._wanted = [operator.parallelism for operator in job.operators]
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
        """Whether two components can be merged, with as many subtasks as either wants.

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
        """Fusion of the components merged so far. Raises BadInput if an operator alone wants more subtasks than it can
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


# the optimum ---------------------------------------------------------------------------------------------------------
# The least communication that any fusion leaves, as an integer program; for jobs of some dozen operators.
#
# The operators of a component have an attribute in common. Each operator chooses one of its attributes, and a transfer
# is saved if both of its ends choose the same one. This labelling problem has the relaxation of Kleinberg and Tardos
# (2002). Circles of components are allowed, as in Algorithm 1.


@dataclass(frozen=True)
class Exact:
    """Answer of the exact solution. fusion: the best one found. bound: least communication of any fusion, as a share of
    all transfers. proved: whether no fusion is better, within the solver's tolerance of 1e-6 of all transfers."""

    fusion: Fusion
    bound: float
    proved: bool


def least_communication(job: FusionJob, *, seconds: float = 60.0) -> Exact:
    """Fusion with the least communication, found by HiGHS, which stops after `seconds`.

    Raises BadInput if `seconds` is not above 0, or if an attribute has fewer values than an operator has subtasks, as
    the program does not limit components by subtasks.
    """
    if not seconds > 0.0:
        raise BadInput(f"seconds must be > 0, got {seconds}")
    splits = Splits(job)
    _check_subtasks(job)
    choices = [(operator.name, each) for operator in job.operators for each in sorted(splits.attributes[operator.name])]
    saved = [
        (transfer, each)
        for transfer in job.transfers
        if transfer.rate_per_s
        for each in sorted(splits.common((transfer.producer, transfer.consumer)))
    ]
    if not saved:
        return Exact(alone := fused(job, ()), alone.communication, proved=True)
    number = {name: row for row, name in enumerate(dict.fromkeys(name for name, _ in choices))}
    program = Program()
    chosen = program.variables((len(choices),), upper=1.0, integer=True)
    column = dict(zip(choices, chosen.tolist(), strict=True))
    program.rows(
        (chosen, summed(np.array([number[name] for name, _ in choices]), np.ones(len(choices)))), low=1, high=1
    )
    both = program.variables((len(saved), 1), upper=1.0)
    for end in ("producer", "consumer"):
        ends = [column[getattr(transfer, end), attribute] for transfer, attribute in saved]
        program.rows((both, 1.0), (np.array(ends)[:, None], -1.0), high=0.0)
    worth = np.array([transfer.rate_per_s for transfer, _ in saved]) / job.rate_per_s
    program.costs(both, -worth[:, None])
    found = program.solve(ProgramLimits(seconds=seconds, gap=0.0))
    bound = max(0.0, 1.0 + found.bound)
    if found.values is None:
        return Exact(fused(job, ()), bound, proved=False)
    taken = dict(choice for choice, index in column.items() if found.values[index] > 0.5)
    return Exact(fused(job, _pieces(job, taken)), bound, proved=found.outcome is ProgramOutcome.SOLVED)


def _pieces(job: FusionJob, chosen: dict[str, Lineage]) -> Iterator[tuple[str, ...]]:
    """Groups of operators that are joined by transfers and have chosen the same attribute."""
    graph: nx.Graph[str] = nx.Graph()
    graph.add_edges_from(
        (each.producer, each.consumer)
        for each in job.transfers
        if each.producer in chosen and chosen[each.producer] == chosen.get(each.consumer)
    )
    return (tuple(piece) for piece in nx.connected_components(graph))


def _check_subtasks(job: FusionJob) -> None:
    most = max(job.operators, key=lambda operator: operator.parallelism)
    fewest = min((count for count in job.distinct.values()), default=None)
    if fewest is not None and fewest < most.parallelism:
        name = min(job.distinct, key=lambda each: job.distinct[each])
        raise BadInput(
            f"the exact solution does not limit components by subtasks: {most.what} wants {most.parallelism}, and "
            f"attribute {attribute_of(name)!r} has {fewest} values; ask for fewer subtasks, or fuse by Algorithm 1"
        )
