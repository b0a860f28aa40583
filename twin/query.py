"""Queries, the computations of stream jobs: operators joined by streams into a directed acyclic graph, checked also
where windows are over event time."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping
from functools import cached_property
from graphlib import CycleError, TopologicalSorter
from heapq import heappop, heappush
from typing import TYPE_CHECKING, Annotated, Literal, Self

from pydantic import BeforeValidator, Field, model_validator

from twin.errors import BadInput, suggest
from twin.key_skew import Alignment, alignment_by_name
from twin.kinds.aggregate import Aggregate, AggregateFunction
from twin.kinds.basic import Filter, FilterFunction, Map, Sink, Source
from twin.kinds.flow import Columns, DataType
from twin.kinds.join import Join
from twin.kinds.mechanism import Reading
from twin.kinds.operator import Fraction, Name
from twin.kinds.registry import KINDS, AnyOperator, Operator
from twin.kinds.windowed import EventTimed, Windowed
from twin.partitionings import HASH, PARTITIONINGS, REBALANCE, Partitioning, PartitioningName
from twin.spec import Spec
from twin.windows import CountWindow, EventWindow, Panes, TimeWindow, Window, completed, form, instance, panes_of

if TYPE_CHECKING:
    from twin.plan import ExecutionPlan

__all__ = [
    "KINDS",
    "Aggregate",
    "AggregateFunction",
    "Alignment",
    "AnyOperator",
    "Columns",
    "CountWindow",
    "DataType",
    "EventTimed",
    "Filter",
    "FilterFunction",
    "Fraction",
    "Join",
    "Map",
    "Name",
    "Operator",
    "Overflow",
    "Partitioning",
    "PartitioningName",
    "Query",
    "Sink",
    "Source",
    "Stream",
    "TimeWindow",
    "Window",
    "Windowed",
]

# queries -------------------------------------------------------------------------------------------------------------


Overflow = Literal["block", "drop"]


def in_order(upstream: Mapping[str, Collection[str]]) -> list[str]:
    """Names in an order in which each follows those upstream of it; ties by name.

    Raises graphlib.CycleError, with a cycle in the direction of the data, if there is no such order.
    """
    sorter = TopologicalSorter(upstream)
    sorter.prepare()
    found, free = [], sorted(sorter.get_ready())
    while free:
        found.append(heappop(free))
        sorter.done(found[-1])
        for name in sorter.get_ready():
            heappush(free, name)
    return found


def _grouped(streams: Iterable[Stream], key: Callable[[Stream], str]) -> dict[str, tuple[Stream, ...]]:
    """Groups streams by an end, in their order."""
    found: dict[str, list[Stream]] = {}
    for stream in streams:
        found.setdefault(key(stream), []).append(stream)
    return {name: tuple(several) for name, several in found.items()}


class Stream(Spec):
    """Stream of records from every subtask of `producer` to the subtasks of `consumer`."""

    producer: str
    consumer: str
    partitioning: Annotated[
        PartitioningName | None, Field(description="absent: hash into joins and keyed operators, else rebalance")
    ] = None
    overflow: Annotated[
        Overflow, Field(description="what a full channel does to the next record: hold its producer up, or lose it")
    ] = "block"
    alignment: Annotated[
        Alignment | None,
        BeforeValidator(alignment_by_name, json_schema_input_type=str | Alignment | None),
        Field(
            exclude_if=lambda alignment: alignment is None,
            description="which key groups of the consumer hear of which of the producer; absent: all of all",
        ),
    ] = None
    input: Annotated[
        Name | None,
        Field(
            exclude_if=lambda name: name is None,
            description="name of the consumer's input, where several streams come from one producer; absent: that of "
            "the producer",
        ),
    ] = None

    @property
    def side(self) -> str:
        """Name of the consumer's input; its inputs are in the order of these names."""
        return self.input or self.producer

    @property
    def key(self) -> tuple[str, ...]:
        """What no other stream of a query has: the names of both ends, and of the input if it has one of its own."""
        return (self.producer, self.consumer) if self.input is None else (self.producer, self.consumer, self.input)


class Query(Spec):
    """Query: a validated DAG, in which every operator is fed by sources and reaches a sink."""

    operators: Annotated[tuple[Operator, ...], Field(min_length=2)]
    streams: tuple[Stream, ...]

    @model_validator(mode="after")
    def _check(self) -> Self:
        names = [operator.name for operator in self.operators]
        times = Counter(names)
        for name in names:
            if times[name] > 1:
                raise ValueError(f"operator name {name!r} is used {times[name]} times; names must be unique")
        seen: set[tuple[str, str]] = set()
        ends: set[tuple[str, str]] = set()
        for stream in self.streams:
            for end in (stream.producer, stream.consumer):
                if end not in times:
                    raise ValueError(f"stream names unknown operator {end!r}; {suggest(end, names)}")
            told = f"stream {stream.producer!r} -> {stream.consumer!r}"
            if (stream.side, stream.consumer) in seen:
                what = "is given twice" if stream.input is None else f"has the input {stream.input!r}, as another has"
                raise ValueError(f"{told} {what}; remove one, or give one an input of its own")
            seen.add((stream.side, stream.consumer))
            again = (stream.producer, stream.consumer) in ends
            if again and self.operator(stream.producer).share_to(stream.consumer) != 1.0:
                raise ValueError(f"{told} is given twice, and is for a share of what comes; remove one")
            ends.add((stream.producer, stream.consumer))
        self._check_shape()
        return self

    def _check_shape(self) -> None:
        try:
            in_order(self.upstream)
        except CycleError as error:
            raise ValueError(f"the query has a cycle: {' -> '.join(error.args[1])}; a query must be acyclic") from None
        for kind, found in (("source", self.sources), ("sink", self.sinks)):
            if not found:
                raise ValueError(f"the query has no {kind}; add an operator of kind {kind}")
        for operator in self.operators:
            inputs, outputs = len(self.inputs(operator.name)), len(self.outputs(operator.name))
            name = f"{operator.kind} {operator.name!r}"
            if operator.is_source and inputs:
                raise ValueError(f"{name} has {inputs} input streams; a source has none")
            if operator.joins and inputs < 2:
                raise ValueError(f"{name} has {inputs} input streams; a join has at least 2")
            if not operator.is_source and not inputs:
                raise ValueError(f"{name} has no input stream; add a stream with consumer {operator.name!r}")
            if operator.is_sink and outputs:
                raise ValueError(f"{name} has {outputs} output streams; a sink has none")
            if not operator.is_sink and not outputs:
                raise ValueError(f"{name} leads to no sink; add a stream with producer {operator.name!r}")
            wrong = operator.why_not_to([stream.consumer for stream in self.outputs(operator.name)])
            wrong = wrong or operator.why_not_from([stream.side for stream in self.inputs(operator.name)])
            wrong = wrong or operator.why_not_before(
                [self.operator(each.consumer) for each in self.outputs(operator.name)]
            )
            wrong = wrong or operator.why_not_behind(
                [self.operator(each.producer) for each in self.inputs(operator.name)]
            )
            if wrong:
                raise ValueError(f"{name} {wrong}")
            self._check_partitioning(operator, name)
        check_event_time(self)

    def _check_partitioning(self, operator: AnyOperator, name: str) -> None:
        used = dict.fromkeys(self.partitioning(stream) for stream in self.inputs(operator.name))
        for how in used:
            if how.by_key and not how.keeps_keys and operator.joins:
                raise ValueError(f"{how} into {name} sends records that match to different subtasks; use {HASH}")
            if how.one_queue and operator.keyed:
                raise ValueError(f"{how} into {name} sends records of one key to different subtasks; use {HASH}")
            if how.alone and len(used) > 1:
                raise ValueError(f"{name} has {how} and other inputs; make all of its inputs {how} or none")
        others = ", ".join(sorted(how.name for how in used if not how.by_key))
        if (operator.keeps_rows or getattr(operator, "key_groups", None) is not None) and others:
            by_key = " or ".join(how.name for how in PARTITIONINGS.values() if how.by_key)
            raise ValueError(f"{name} has key groups and a {others} input; use {by_key}")

    @cached_property
    def upstream(self) -> dict[str, set[str]]:
        """Producers of each operator."""
        found: dict[str, set[str]] = {operator.name: set() for operator in self.operators}
        for stream in self.streams:
            found[stream.consumer].add(stream.producer)
        return found

    def ancestors(self, name: str) -> set[str]:
        """All operators from which some path of streams leads to operator `name`."""
        found: set[str] = set()
        ahead = [name]
        while ahead:
            new = self.upstream[ahead.pop()] - found
            found |= new
            ahead.extend(new)
        return found

    @cached_property
    def before_joins_of_copies(self) -> frozenset[str]:
        """Operators before joins of two inputs to which both may bring copies of one record."""
        found = set[str]()
        for name in (each.name for each in self.operators if each.joins and len(self.inputs(each.name)) == 2):
            one, other = (self.ancestors(each.producer) | {each.producer} for each in self.inputs(name))
            found |= one | other if one & other else set()
        return frozenset(found)

    @cached_property
    def holding_up(self) -> set[str]:
        """Operators that can block a source; the others lie behind streams that drop records if there is no room."""
        found: set[str] = set()
        for operator in self.topological:
            inputs = self.inputs(operator.name)
            if not inputs or any(each.producer in found and each.overflow == "block" for each in inputs):
                found.add(operator.name)
        return found

    @cached_property
    def topological(self) -> tuple[AnyOperator, ...]:
        """Operators in data-flow order; ties by name, as nothing may depend on the order in which they are listed."""
        return tuple(self.operator(name) for name in in_order(self.upstream))

    @cached_property
    def _by_name(self) -> dict[str, AnyOperator]:
        return {operator.name: operator for operator in self.operators}

    @cached_property
    def slot_sharing_groups(self) -> dict[str, str]:
        """Slot sharing group of each operator. If none is given, that of its inputs if they share one, as in Flink."""
        found: dict[str, str] = {}
        for operator in self.topological:
            inherited = {found[producer] for producer in self.upstream[operator.name]}
            known = next(iter(inherited)) if len(inherited) == 1 else "default"
            found[operator.name] = operator.slot_sharing_group or known
        return found

    def operator(self, name: str) -> AnyOperator:
        """Operator of that name. Raises KeyError if there is none."""
        return self._by_name[name]

    @property
    def one_sided(self) -> tuple[str, ...]:
        """Operators that keep the records of some inputs, and pass those of others on."""
        kept = [stream for stream in self.streams if self.operator(stream.consumer).passed_from(stream.side) < 1.0]
        return tuple(dict.fromkeys(each.consumer for each in kept))

    @property
    def sources(self) -> tuple[AnyOperator, ...]:
        """All sources, in data-flow order."""
        return tuple(operator for operator in self.topological if operator.is_source)

    @property
    def sinks(self) -> tuple[AnyOperator, ...]:
        """All sinks, in data-flow order."""
        return tuple(operator for operator in self.topological if operator.is_sink)

    @cached_property
    def result_sinks(self) -> tuple[AnyOperator, ...]:
        """Sinks of the results, in data-flow order: all but those to which nothing but late records comes (`late_to`),
        which are a stream of their own and may never come."""
        found: set[str] = set()
        for each in self.topological:
            before = [self.operator(producer) for producer in sorted(self.upstream[each.name])]
            if not before or any(one.name in found and getattr(one, "late_to", None) != each.name for one in before):
                found.add(each.name)
        return tuple(sink for sink in self.sinks if sink.name in found)

    @property
    def streams_by_name(self) -> tuple[Stream, ...]:
        """All streams, in the order of their producers', then their consumers', and then their inputs' names."""
        return tuple(sorted(self.streams, key=lambda stream: stream.key))

    @cached_property
    def _into(self) -> dict[str, tuple[Stream, ...]]:
        return _grouped(sorted(self.streams, key=lambda each: each.side), lambda each: each.consumer)

    @cached_property
    def _out_of(self) -> dict[str, tuple[Stream, ...]]:
        return _grouped(sorted(self.streams, key=lambda each: each.key[1:]), lambda each: each.producer)

    def inputs(self, name: str) -> tuple[Stream, ...]:
        """Streams into operator `name`, by the names of its inputs, whatever a join's first side."""
        return self._into.get(name, ())

    def outputs(self, name: str) -> tuple[Stream, ...]:
        """Streams out of operator `name`, by the names of their consumers."""
        return self._out_of.get(name, ())

    def feeds(self, name: str) -> tuple[str, ...]:
        """Producers whose records operator `name` takes, by name; for a source, its own name."""
        return tuple(stream.producer for stream in self.inputs(name)) or (name,)

    def partitioning(self, stream: Stream) -> Partitioning:
        """Partitioning of a stream: how its records are dealt to the consumer's subtasks."""
        if stream.partitioning is not None:
            return PARTITIONINGS[stream.partitioning]
        consumer = self.operator(stream.consumer)
        return HASH if consumer.keyed else REBALANCE

    @cached_property
    def columns_out(self) -> dict[str, Columns]:
        """Columns of each operator's output. A join keeps one copy of its key; an aggregate emits key and value."""
        columns: dict[str, Columns] = {}
        for operator in self.topological:
            inputs = [columns[stream.producer] for stream in self.inputs(operator.name)]
            columns[operator.name] = operator.columns_out(inputs)
        return columns


# checks of windows over event time -----------------------------------------------------------------------------------
# Checks of queries with windows over event time: how their operators must fit together (Enorm, Sections 4.2, 4.3).
#
# Enorm's Fig. 5 has four configurations: partial results into consolidates (5.1), complete windows into anything (5.2),
# complete windows into consolidates of longer ones (5.3), and records at once (5.4). Everything else is refused here.


PHASES = 1000
"""Most instances of a window that are checked to be tiled by shorter ones."""


def check_event_time(query: Query) -> None:
    """Raises ValueError, with the remedy, if an operator over event time does not fit its neighbours."""
    if not any(operator.needs_event_time for operator in query.operators):
        return
    for stream in query.streams:
        if query.partitioning(stream).one_queue:
            raise ValueError(
                f"stream {stream.producer} -> {stream.consumer}: where windows are over event time, subtasks cannot "
                "share a queue, in which punctuations would be overtaken; use rebalance"
            )
    for operator in query.operators:
        if operator.needs_event_time:
            _check_way(query, operator)
        consumers = [query.operator(stream.consumer) for stream in query.outputs(operator.name)]
        for consumer in consumers:
            if operator.hands_over == "partials" and not consumer.merges:
                raise ValueError(
                    f"{operator.name!r} hands partial results to {consumer.name!r}, which does not merge them; give it "
                    "windows instead of partial_s, or a consolidate behind it"
                )
        if operator.merges:
            _check_merging(query, operator)
        late_to = getattr(operator, "late_to", None)
        for other in query.operators if late_to is not None else ():
            if other.needs_event_time and late_to in (other.name, *query.ancestors(other.name)):
                raise ValueError(
                    f"{operator.name!r} sends late records to {late_to!r}, and they are late for {other.name!r} as "
                    "well; send them to operators that do not use event time"
                )


def check_together(query: Query, plan: ExecutionPlan) -> None:
    """Raises ValueError unless a consolidate that is combined with its compute has its key groups where that has
    them."""
    for operator in query.operators:
        if not getattr(operator, "combined", False):
            continue
        name = operator.name
        producers = [query.operator(stream.producer) for stream in query.inputs(name)]
        if len(producers) != 1 or producers[0].hands_over != "partials" or len(query.outputs(producers[0].name)) != 1:
            raise ValueError(
                f"{name!r} is combined, which takes one compute that nobody else reads; leave combined out"
            )
        compute = producers[0].name
        if plan.locations(name) != plan.locations(compute):
            raise ValueError(f"plan.placement.{name}: it is combined with {compute!r}; give both the same subtasks")
        if plan.key_groups.get(name) != plan.key_groups.get(compute):
            raise ValueError(f"plan.key_groups.{name}: it is combined with {compute!r}; give both the same owners")


def partial_panes(query: Query, name: str) -> Panes:
    """Panes of an operator that hands over partial results: those of all windows that are made of them."""
    return panes_of(merged_windows(query, name), getattr(query.operator(name), "partial_s", None))


def merged_windows(query: Query, name: str) -> tuple[EventWindow, ...]:
    """All windows that are made of an operator's results; for one that emits windows, its own."""
    operator = query.operator(name)
    if operator.hands_over != "partials":
        return operator.event_windows
    behind = [query.operator(stream.consumer) for stream in query.outputs(name)]
    return tuple(dict.fromkeys(window for each in behind for window in each.event_windows))


def in_time(query: Query, name: str) -> bool:
    """Whether the slack of all sources covers the disorder of their records, and none is left behind as idle."""
    reads = [each for other in query.ancestors(name) if isinstance(each := query.operator(other).mechanism, Reading)]
    return all(each.slack_s >= each.disorder_s and each.idle_s is None for each in reads)


def _check_way(query: Query, operator: AnyOperator) -> None:
    """Raises ValueError unless event times reach the operator, and all records of a key reach one subtask."""
    for stream in query.inputs(operator.name):
        how = query.partitioning(stream)
        if not how.keeps_keys:
            raise ValueError(f"{how} into {operator.name!r} sends records of one key to different subtasks; use hash")
        if stream.overflow == "drop" and operator.merges:
            raise ValueError(f"stream {stream.producer} -> {stream.consumer}: partial results cannot be dropped; block")


def _check_merging(query: Query, operator: AnyOperator) -> None:
    mine: tuple[EventWindow, ...] = operator.event_windows
    for stream in query.inputs(operator.name):
        producer = query.operator(stream.producer)
        if producer.hands_over != "partials" and not producer.merges:
            raise ValueError(
                f"{operator.name!r} merges partial results, and {producer.name!r} sends none; put a compute with "
                "partial_s before it"
            )
        for field in ("keys", "key_groups"):
            if getattr(producer, field) != getattr(operator, field):
                raise ValueError(
                    f"{operator.name!r} has {getattr(operator, field)} {field} and {producer.name!r}, whose results it "
                    f"merges, has {getattr(producer, field)}; give both the same"
                )
        try:
            if producer.merges:
                _check_tiled(mine, producer.event_windows, producer.name)
            else:
                partial_panes(query, producer.name)
        except BadInput as error:
            raise ValueError(f"{operator.name!r} after {producer.name!r}: {error}") from None


def _check_tiled(longer: tuple[EventWindow, ...], shorter: tuple[EventWindow, ...], name: str) -> None:
    """Raises BadInput unless every instance of the longer windows is made of whole instances of the shorter ones."""
    panes = panes_of([*longer, *shorter])
    again_us = math.lcm(*(window.every_us for window in (*longer, *shorter)))
    for window in longer:
        for number in range(min(PHASES, again_us // window.every_us)):
            due = instance(window, number)
            ends: dict[int, list[int]] = {}
            for other in shorter:
                for piece in map(panes.of, completed(other, due.start, due.end)):
                    ends.setdefault(piece.start, []).append(piece.end)
            try:
                form([panes.of(due)], ends)
            except BadInput:
                raise BadInput(
                    f"a window of {window.length_s:g} s is not made of whole windows of {name!r}; give {name!r} "
                    "windows that tile it"
                ) from None
