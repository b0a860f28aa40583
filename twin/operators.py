"""The kinds of operators that a query is made of."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from twin.columns import Columns, DataType
from twin.spec import Spec
from twin.windows import Window

FilterFunction = Literal["<", ">", "<=", ">=", "!=", "startswith", "endswith"]
AggregateFunction = Literal["min", "max", "mean", "avg", "sum", "count"]

Name = Annotated[
    str, Field(min_length=1, pattern=r"^[A-Za-z0-9_.:@#-]+$", description="letters, digits and _ . : @ # -")
]
Fraction = Annotated[float, Field(ge=0, le=1)]


class OperatorBase(Spec):
    """What all operators share. A given service time replaces what the engine profile would charge."""

    name: Name
    service_time_s: Annotated[
        float | None, Field(ge=0, le=10**7, description="mean CPU seconds per input tuple on one reference core")
    ] = None
    service_scv: Annotated[
        float | None, Field(ge=0, le=100, description="squared coefficient of variation of the service time")
    ] = None
    tuple_bytes: Annotated[
        float | None, Field(ge=1e-3, le=10**9, description="size of an emitted tuple; absent: by its columns")
    ] = None
    memory_bytes: Annotated[
        float | None, Field(ge=0, le=10**9, description="local memory traffic per input tuple; absent: by the engine")
    ] = None


class KeyedOperator(OperatorBase):
    """What operators share that may keep state by key. Tuples come by key group, and state moves by key group."""

    key_groups: Annotated[
        int | None, Field(ge=1, le=10**6, description="absent: replicas share the input evenly and nothing can move")
    ] = None
    state_bytes_per_group: Annotated[
        float, Field(ge=0, le=10**15, description="held for each key group beside the content of a window")
    ] = 0.0

    @model_validator(mode="after")
    def _check_keys(self) -> Self:
        if self.state_bytes_per_group and self.key_groups is None:
            raise ValueError(f"{self.name!r}: state_bytes_per_group needs key_groups; give their number")
        return self


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


class Map(KeyedOperator):
    """Emits `selectivity` tuples per input tuple: 1 is a map, above 1 a flat map (a word splitter emits 10)."""

    kind: Literal["map"] = "map"
    selectivity: Annotated[float, Field(ge=0, le=10**6)] = 1.0
    columns: Annotated[Columns | None, Field(description="of the output; absent: as the input")] = None


class Aggregate(KeyedOperator):
    """At each evaluation of its window, emits one tuple per distinct group in it."""

    kind: Literal["aggregate"] = "aggregate"
    window: Window
    function: AggregateFunction = "mean"
    value_type: DataType = "double"
    group_by: DataType | None = None
    groups: Annotated[int, Field(ge=1, le=10**9, description="distinct group-by values in the stream")] = 1

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.group_by is None and self.groups != 1:
            raise ValueError(f"groups must be 1 without group_by, got {self.groups}; give group_by a data type")
        if self.group_by is None and self.key_groups is not None:
            raise ValueError(f"aggregate {self.name!r}: key_groups needs group_by; give group_by a data type")
        return self


class Join(KeyedOperator):
    """Joins its two or more inputs at each evaluation of their common window: one tuple of each a match.

    Either `selectivity`, matches / (|W1| |W2| ...) (Costream, Definition 7), or `amplification`, output tuples per
    input tuple as measured on a running engine, where the window contents are unknown.
    """

    kind: Literal["join"] = "join"
    window: Window
    key_type: DataType = "int"
    selectivity: Fraction | None = None
    amplification: Annotated[float | None, Field(ge=0, le=10**6)] = None

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


def columns_out(operator: AnyOperator, inputs: list[Columns]) -> Columns:
    """Columns of an operator's output, given those of its inputs, whose order does not matter.

    A join keeps one copy of its key. What passes tuples of several inputs on has room for the columns of each.
    """
    match operator:
        case Source():
            return operator.columns
        case Map(columns=Columns() as columns):
            return columns
        case Aggregate():
            key = Columns() if operator.group_by is None else Columns.one(operator.group_by)
            return key + Columns(doubles=1)
        case Join():
            joined = sum(inputs[1:], inputs[0])
            kept = max(0, joined.count(operator.key_type) - (len(inputs) - 1))
            return joined.model_copy(update={f"{operator.key_type}s": kept})
        case _:
            return Columns(
                ints=max(each.ints for each in inputs),
                strings=max(each.strings for each in inputs),
                doubles=max(each.doubles for each in inputs),
            )
