"""Job for fusion: operators as fusion sees them, transfers between them, and numbers of values of attributes."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property
from typing import Annotated, Literal, Self

import networkx as nx
from pydantic import AfterValidator, Field, model_validator

from twin.errors import suggest
from twin.kinds.operator import Name
from twin.spec import Spec
from twin.windows import EventWindow

# the job -------------------------------------------------------------------------------------------------------------


Kind = Literal["source", "map", "compute", "consolidate", "sink"]
STATEFUL: frozenset[Kind] = frozenset({"compute", "consolidate"})


def _once(names: tuple[str, ...]) -> tuple[str, ...]:
    for name in names:
        if names.count(name) > 1:
            raise ValueError(f"attribute {name!r} is named {names.count(name)} times; name it once")
    return names


Schema = Annotated[tuple[Name, ...], AfterValidator(_once)]


class FusionOperator(Spec):
    """Operator <IS, OS, PA> of Enorm, Section 4.3, with kind, windows and subtasks.

    schema_in, schema_out: attributes of the records that it takes and gives; a source takes none, a sink gives none.
    partition_by: PA, attributes of its input by which it may be split, all of which decide where its state is; `all`:
    it takes its records however they are split (the default of maps and sinks; a stateful operator must name its own).
    Empty: it cannot be split. passes: attributes whose values its output has unchanged; absent: all that are in both
    schemas. windows: those that a consolidate forms, or a compute whose results are complete windows. subtasks: number
    that is wanted.
    """

    name: Name
    kind: Kind
    schema_in: Schema = ()
    schema_out: Schema = ()
    partition_by: Literal["all"] | Schema | None = None
    passes: Schema | None = None
    windows: tuple[EventWindow, ...] = ()
    parallelism: Annotated[int, Field(ge=1, le=100_000)] = 1

    @model_validator(mode="after")
    def _check(self) -> Self:
        self._check_schemas()
        if self.partition_by is None and self.kind in STATEFUL:
            raise ValueError(f"{self.what} has no partition_by; name its keys, or [] if its state is for all records")
        if self.partition_by is not None and self.kind == "source":
            raise ValueError(f"{self.what} has partition_by; the broker decides what a source reads, leave it out")
        if self.kind == "consolidate" and not self.windows:
            raise ValueError(f"{self.what} has no windows; say which ones it forms")
        if self.kind not in STATEFUL and self.windows:
            raise ValueError(f"{self.what} has windows; only compute and consolidate keep state for them")
        return self

    def _check_schemas(self) -> None:
        if (self.kind == "source") == bool(self.schema_in):
            raise ValueError(f"{self.what}: schema_in must be empty for a source, and for nothing else")
        if (self.kind == "sink") == bool(self.schema_out):
            raise ValueError(f"{self.what}: schema_out must be empty for a sink, and for nothing else")
        if isinstance(self.partition_by, tuple):
            self._check_known("partition_by", self.partition_by, self.schema_in)
        self._check_known("passes", self.passes or (), [name for name in self.schema_in if name in self.schema_out])

    def _check_known(self, where: str, names: Iterable[str], known: Iterable[str]) -> None:
        for name in names:
            if name not in set(known):
                raise ValueError(f"{self.what}: {where} names {name!r}; {suggest(name, known)}")

    @property
    def what(self) -> str:
        """Kind and name of the operator, for messages."""
        return f"{self.kind} {self.name!r}"

    @property
    def free(self) -> bool:
        """Whether the operator takes its records however they are split and keeps no state: it may also stay with its
        producer."""
        return self.kind in ("map", "sink") and self.partition_by in ("all", None)

    @property
    def attributes(self) -> tuple[str, ...]:
        """PA(O): attributes of the operator's input by which it may be split; a source has none."""
        return self.partition_by if isinstance(self.partition_by, tuple) else self.schema_in

    @cached_property
    def sent(self) -> frozenset[str]:
        """Attributes of the operator's output."""
        return frozenset(self.schema_out)

    @cached_property
    def passed(self) -> frozenset[str]:
        """Attributes whose values are the same in the operator's output as in its input."""
        both = self.sent & frozenset(self.schema_in)
        return both if self.passes is None else frozenset(self.passes)


class Transfer(Spec):
    """Records that `producer` sends to `consumer`."""

    producer: Name
    consumer: Name
    rate_per_s: Annotated[float, Field(ge=0, le=10**15)]


class FusionJob(Spec):
    """Job for fusion: a validated DAG <O, E> (Enorm, Section 4.3).

    distinct: number of values that occur, by attribute; unlimited for an attribute that is not named.
    """

    operators: Annotated[tuple[FusionOperator, ...], Field(min_length=1)]
    transfers: tuple[Transfer, ...] = ()
    distinct: dict[Name, Annotated[int, Field(ge=1)]] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _check(self) -> Self:
        names = [operator.name for operator in self.operators]
        if len(set(names)) < len(names):
            twice = next(name for name in names if names.count(name) > 1)
            raise ValueError(f"operator name {twice!r} is used {names.count(twice)} times; names must be unique")
        for transfer in self.transfers:
            for end in (transfer.producer, transfer.consumer):
                if end not in self.by_name:
                    raise ValueError(f"a transfer names unknown operator {end!r}; {suggest(end, names)}")
        if len(self.graph.edges) < len(self.transfers):
            raise ValueError("two transfers have the same producer and consumer; add their rates in one")
        if not nx.is_directed_acyclic_graph(self.graph):
            cycle = [edge[0] for edge in nx.find_cycle(self.graph)]
            raise ValueError(f"the job has a cycle: {' -> '.join([*cycle, cycle[0]])}; a job must be acyclic")
        self._check_attributes()
        for operator in self.operators:
            self._check_inputs(operator)
        return self

    def _check_attributes(self) -> None:
        known = {name for operator in self.operators for name in (*operator.schema_in, *operator.schema_out)}
        for name in self.distinct:
            if name not in known:
                raise ValueError(f"distinct names unknown attribute {name!r}; {suggest(name, known)}")

    def _check_inputs(self, operator: FusionOperator) -> None:
        producers = [self.by_name[name] for name in self.producers[operator.name]]
        if operator.kind == "source" and producers:
            raise ValueError(f"{operator.what} takes records of {producers[0].name!r}; a source takes none")
        if operator.kind == "consolidate" and not producers:
            raise ValueError(f"{operator.what} has no producer; let a compute or consolidate send to it")
        for producer in producers:
            if producer.kind == "sink":
                raise ValueError(f"{operator.what} takes records of {producer.what}; a sink gives none")
            if operator.kind == "consolidate" and producer.kind not in STATEFUL:
                raise ValueError(f"{operator.what} takes records of {producer.what}, but merges windows alone")
            lacking = frozenset() if operator.free else frozenset(operator.attributes) - producer.sent
            if lacking:
                raise ValueError(
                    f"{operator.what} is partitioned by {min(lacking)!r}, which {producer.what} does not send; "
                    "add it to that one's schema_out, or leave it out of partition_by"
                )
        missing = frozenset(operator.schema_in).difference(*(producer.sent for producer in producers))
        if producers and missing:
            raise ValueError(f"{operator.what} needs {min(missing)!r}, which none of its producers sends")

    @cached_property
    def by_name(self) -> dict[str, FusionOperator]:
        """Operators by name, in the job's order."""
        return {operator.name: operator for operator in self.operators}

    @cached_property
    def graph(self) -> nx.DiGraph[str]:
        """Operators as nodes, transfers as edges."""
        graph: nx.DiGraph[str] = nx.DiGraph()
        graph.add_nodes_from(operator.name for operator in self.operators)
        graph.add_edges_from((transfer.producer, transfer.consumer) for transfer in self.transfers)
        return graph

    @cached_property
    def producers(self) -> dict[str, tuple[str, ...]]:
        """Producers of each operator."""
        return {name: tuple(self.graph.predecessors(name)) for name in self.graph}

    @cached_property
    def consumers(self) -> dict[str, tuple[str, ...]]:
        """Consumers of each operator."""
        return {name: tuple(self.graph.successors(name)) for name in self.graph}

    @property
    def topological(self) -> tuple[FusionOperator, ...]:
        """Operators in data-flow order; ties by name."""
        return tuple(self.by_name[name] for name in nx.lexicographical_topological_sort(self.graph))

    @property
    def rate_per_s(self) -> float:
        """Records a second of all transfers together."""
        return sum(transfer.rate_per_s for transfer in self.transfers)
