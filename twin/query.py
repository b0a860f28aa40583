"""What a stream job computes: operators joined by streams into a directed acyclic graph."""

from __future__ import annotations

from functools import cached_property
from typing import Annotated, Literal, Self

import networkx as nx
from pydantic import Field, model_validator

from twin.errors import suggest
from twin.spec import Spec

DataType = Literal["int", "string", "double"]
FilterFunction = Literal["<", ">", "<=", ">=", "!=", "startswith", "endswith"]
AggregateFunction = Literal["min", "max", "mean", "avg", "sum", "count"]
Partitioning = Literal["forward", "rebalance", "hash", "broadcast", "global"]

Name = Annotated[
    str, Field(min_length=1, pattern=r"^[A-Za-z0-9_.:@#-]+$", description="letters, digits and _ . : @ # -")
]
Fraction = Annotated[float, Field(ge=0, le=1)]


class Columns(Spec):
    """How many values of each data type a tuple holds. `width` is their number (Costream, Table I)."""

    ints: Annotated[int, Field(ge=0)] = 0
    strings: Annotated[int, Field(ge=0)] = 0
    doubles: Annotated[int, Field(ge=0)] = 0

    @classmethod
    def one(cls, data_type: DataType) -> Columns:
        """A single value."""
        return cls(**{f"{data_type}s": 1})

    def count(self, data_type: DataType) -> int:
        """Values of one type."""
        return int(getattr(self, f"{data_type}s"))

    @property
    def width(self) -> int:
        """Values in a tuple."""
        return self.ints + self.strings + self.doubles

    def __add__(self, other: Columns) -> Columns:
        return Columns(
            ints=self.ints + other.ints, strings=self.strings + other.strings, doubles=self.doubles + other.doubles
        )


class CountWindow(Spec):
    """The last `size_tuples` tuples of all inputs together, evaluated every `slide_tuples` tuples."""

    policy: Literal["count"] = "count"
    size_tuples: Annotated[int, Field(gt=0, le=10**9)]
    slide_tuples: Annotated[int | None, Field(gt=0, description="absent: tumbling, slide = size")] = None

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.slide_tuples is not None and self.slide_tuples > self.size_tuples:
            raise ValueError(f"slide_tuples must be <= size_tuples ({self.size_tuples}), got {self.slide_tuples}")
        return self

    @property
    def size(self) -> float:
        """Length in the window's own unit: tuples."""
        return self.size_tuples

    @property
    def slide(self) -> float:
        """Slide in the window's own unit: tuples."""
        return self.size_tuples if self.slide_tuples is None else self.slide_tuples

    @property
    def tumbling(self) -> bool:
        """Whether windows do not overlap."""
        return self.slide == self.size


class TimeWindow(Spec):
    """The tuples processed within the last `size_s` seconds, evaluated every `slide_s` seconds."""

    policy: Literal["time"] = "time"
    size_s: Annotated[float, Field(gt=0, le=10**9)]
    slide_s: Annotated[float | None, Field(gt=0, description="absent: tumbling, slide = size")] = None

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.slide_s is not None and self.slide_s > self.size_s:
            raise ValueError(f"slide_s must be <= size_s ({self.size_s}), got {self.slide_s}")
        return self

    @property
    def size(self) -> float:
        """Length in the window's own unit: seconds."""
        return self.size_s

    @property
    def slide(self) -> float:
        """Slide in the window's own unit: seconds."""
        return self.size_s if self.slide_s is None else self.slide_s

    @property
    def tumbling(self) -> bool:
        """Whether windows do not overlap."""
        return self.slide == self.size


Window = Annotated[CountWindow | TimeWindow, Field(discriminator="policy")]


class OperatorBase(Spec):
    """What all operators share. A given service time replaces what the engine profile would charge."""

    name: Name
    service_time_s: Annotated[
        float | None, Field(ge=0, description="mean CPU seconds per input tuple on one reference core")
    ] = None
    service_scv: Annotated[
        float | None, Field(ge=0, le=100, description="squared coefficient of variation of the service time")
    ] = None


class Source(OperatorBase):
    """Polls a broker and emits its tuples."""

    kind: Literal["source"] = "source"
    columns: Columns = Columns(ints=1, strings=1, doubles=1)


class Filter(OperatorBase):
    """Passes a share `selectivity` of its input (Costream, Definition 6)."""

    kind: Literal["filter"] = "filter"
    selectivity: Fraction
    function: FilterFunction = "<"
    literal_type: DataType = "int"


class Map(OperatorBase):
    """Emits `selectivity` tuples per input tuple: 1 is a map, above 1 a flat map (a word splitter emits 10)."""

    kind: Literal["map"] = "map"
    selectivity: Annotated[float, Field(ge=0, le=10**6)] = 1.0
    columns: Annotated[Columns | None, Field(description="of the output; absent: as the input")] = None
    key_groups: Annotated[
        int | None, Field(ge=1, le=10**6, description="parts into which the operator's keys and state are split")
    ] = None
    state_bytes_per_group: Annotated[float, Field(ge=0, description="state besides windows, a key group")] = 0.0


class Aggregate(OperatorBase):
    """At each evaluation of its window, emits one tuple per distinct group in it."""

    kind: Literal["aggregate"] = "aggregate"
    window: Window
    function: AggregateFunction = "mean"
    value_type: DataType = "double"
    group_by: DataType | None = None
    groups: Annotated[int, Field(ge=1, le=10**9, description="distinct group-by values in the stream")] = 1
    key_groups: Annotated[
        int | None, Field(ge=1, le=10**6, description="parts into which the operator's keys and state are split")
    ] = None
    state_bytes_per_group: Annotated[float, Field(ge=0, description="state besides windows, a key group")] = 0.0

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.group_by is None and self.groups != 1:
            raise ValueError(f"groups must be 1 without group_by, got {self.groups}; give group_by a data type")
        return self


class Join(OperatorBase):
    """Joins its two inputs at each evaluation of their common window.

    Either `selectivity`, matches / (|W1| |W2|) (Costream, Definition 7), or `amplification`, output tuples per
    input tuple as measured on a running engine, where the window contents are unknown.
    """

    kind: Literal["join"] = "join"
    window: Window
    key_type: DataType = "int"
    selectivity: Fraction | None = None
    amplification: Annotated[float | None, Field(ge=0, le=10**6)] = None
    key_groups: Annotated[
        int | None, Field(ge=1, le=10**6, description="parts into which the operator's keys and state are split")
    ] = None
    state_bytes_per_group: Annotated[float, Field(ge=0, description="state besides windows, a key group")] = 0.0

    @model_validator(mode="after")
    def _check(self) -> Self:
        if (self.selectivity is None) == (self.amplification is None):
            raise ValueError(f"join {self.name!r}: give either selectivity or amplification")
        return self


class Sink(OperatorBase):
    """Where results arrive; latency and throughput are measured here."""

    kind: Literal["sink"] = "sink"


Operator = Annotated[Source | Filter | Map | Aggregate | Join | Sink, Field(discriminator="kind")]
AnyOperator = Source | Filter | Map | Aggregate | Join | Sink
KINDS: tuple[str, ...] = ("source", "filter", "map", "aggregate", "join", "sink")


class Stream(Spec):
    """Tuples from every replica of `producer` to the replicas of `consumer`."""

    producer: str
    consumer: str
    partitioning: Annotated[
        Partitioning | None, Field(description="absent: hash into joins and grouped aggregates, else rebalance")
    ] = None


class Query(Spec):
    """A validated DAG: every operator is fed by sources and reaches a sink."""

    operators: Annotated[tuple[Operator, ...], Field(min_length=2)]
    streams: tuple[Stream, ...]

    @model_validator(mode="after")
    def _check(self) -> Self:
        names = [operator.name for operator in self.operators]
        for name in names:
            if names.count(name) > 1:
                raise ValueError(f"operator name {name!r} is used {names.count(name)} times; names must be unique")
        seen: set[tuple[str, str]] = set()
        for stream in self.streams:
            for end in (stream.producer, stream.consumer):
                if end not in names:
                    raise ValueError(f"stream names unknown operator {end!r}; {suggest(end, names)}")
            if (stream.producer, stream.consumer) in seen:
                raise ValueError(f"stream {stream.producer!r} -> {stream.consumer!r} is given twice; remove one")
            seen.add((stream.producer, stream.consumer))
        self._check_shape()
        return self

    def _check_shape(self) -> None:
        if not nx.is_directed_acyclic_graph(self.graph):
            cycle = [edge[0] for edge in nx.find_cycle(self.graph)]
            raise ValueError(f"the query has a cycle: {' -> '.join([*cycle, cycle[0]])}; a query must be acyclic")
        for kind in ("source", "sink"):
            if not any(operator.kind == kind for operator in self.operators):
                raise ValueError(f"the query has no {kind}; add an operator of kind {kind}")
        for operator in self.operators:
            inputs, outputs = self.graph.in_degree(operator.name), self.graph.out_degree(operator.name)
            name = f"{operator.kind} {operator.name!r}"
            if operator.kind == "source" and inputs:
                raise ValueError(f"{name} has {inputs} input streams; a source has none")
            if operator.kind == "join" and inputs != 2:
                raise ValueError(f"{name} has {inputs} input streams; a join has exactly 2 (chain joins for more)")
            if operator.kind != "source" and not inputs:
                raise ValueError(f"{name} has no input stream; add a stream with consumer {operator.name!r}")
            if operator.kind == "sink" and outputs:
                raise ValueError(f"{name} has {outputs} output streams; a sink has none")
            if operator.kind != "sink" and not outputs:
                raise ValueError(f"{name} leads to no sink; add a stream with producer {operator.name!r}")

    @cached_property
    def graph(self) -> nx.DiGraph[str]:
        """Operators as nodes, streams as edges."""
        graph: nx.DiGraph[str] = nx.DiGraph()
        graph.add_nodes_from(operator.name for operator in self.operators)
        graph.add_edges_from((stream.producer, stream.consumer) for stream in self.streams)
        return graph

    @cached_property
    def topological(self) -> tuple[AnyOperator, ...]:
        """Operators in data-flow order; ties in the order in which they are listed."""
        rank = {operator.name: index for index, operator in enumerate(self.operators)}
        return tuple(self.operator(name) for name in nx.lexicographical_topological_sort(self.graph, rank.__getitem__))

    @cached_property
    def _by_name(self) -> dict[str, AnyOperator]:
        return {operator.name: operator for operator in self.operators}

    def operator(self, name: str) -> AnyOperator:
        """The operator of that name. Raises KeyError if there is none."""
        return self._by_name[name]

    @property
    def sources(self) -> tuple[Source, ...]:
        """All sources, as listed."""
        return tuple(operator for operator in self.operators if isinstance(operator, Source))

    @property
    def sinks(self) -> tuple[Sink, ...]:
        """All sinks, as listed."""
        return tuple(operator for operator in self.operators if isinstance(operator, Sink))

    def inputs(self, name: str) -> tuple[Stream, ...]:
        """Streams into operator `name`, as listed (a join's first is its left side)."""
        return tuple(stream for stream in self.streams if stream.consumer == name)

    def outputs(self, name: str) -> tuple[Stream, ...]:
        """Streams out of operator `name`, as listed."""
        return tuple(stream for stream in self.streams if stream.producer == name)

    def partitioning(self, stream: Stream) -> Partitioning:
        """How the stream's tuples are dealt to the consumer's replicas."""
        if stream.partitioning is not None:
            return stream.partitioning
        consumer = self.operator(stream.consumer)
        keyed = isinstance(consumer, Join) or (isinstance(consumer, Aggregate) and consumer.group_by is not None)
        keyed = keyed or getattr(consumer, "key_groups", None) is not None
        return "hash" if keyed else "rebalance"

    @cached_property
    def columns_out(self) -> dict[str, Columns]:
        """Columns of each operator's output. A join keeps one copy of its key; an aggregate emits key and value."""
        columns: dict[str, Columns] = {}
        for operator in self.topological:
            inputs = [columns[stream.producer] for stream in self.inputs(operator.name)]
            columns[operator.name] = _columns_out(operator, inputs)
        return columns

    @cached_property
    def columns_in(self) -> dict[str, Columns]:
        """Columns of an input tuple; of the first input where there are several."""
        columns: dict[str, Columns] = {}
        for operator in self.operators:
            inputs = [self.columns_out[stream.producer] for stream in self.inputs(operator.name)]
            columns[operator.name] = inputs[0] if inputs else self.columns_out[operator.name]
        return columns


def _columns_out(operator: AnyOperator, inputs: list[Columns]) -> Columns:
    match operator:
        case Source():
            return operator.columns
        case Map(columns=Columns() as columns):
            return columns
        case Aggregate():
            key = Columns() if operator.group_by is None else Columns.one(operator.group_by)
            return key + Columns(doubles=1)
        case Join():
            both = inputs[0] + inputs[1]
            kept = max(0, both.count(operator.key_type) - 1)
            return both.model_copy(update={f"{operator.key_type}s": kept})
        case _:
            return inputs[0]
