"""Reads the records of a published run graph, with checks, and turns its operators into the twin's."""

from __future__ import annotations

import math
import re
import string
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TypeVar, get_args

from twin.errors import BadInput, suggest
from twin.key_skew import KeySkew
from twin.kinds.registry import SOURCES
from twin.query import (
    Aggregate,
    AggregateFunction,
    AnyOperator,
    Columns,
    CountWindow,
    DataType,
    Filter,
    FilterFunction,
    Join,
    Source,
    TimeWindow,
)

# the text ------------------------------------------------------------------------------------------------------------
# Reads the Graphviz dialect of published run graphs: nodes, edges, and lists of records inside attributes.
#
#     graph {
#         "a" ["key"="text","count"=3,"instances"="[{host=h1, outputRate=1.5}, {host=h2, outputRate=1.4}]"];
#         "a" -- "b" ["occurences"=2];
#     }
#
# Edges have the direction in which they are written, although `--` has none in Graphviz.


_TOKEN = re.compile(
    r'"(?P<quoted>(?:[^"\\]|\\.)*)"|(?P<mark>--|->|[\[\]{}=,;])|(?P<word>[^\s"\[\]{}=,;]+)|(?P<end>\Z)', re.DOTALL
)
_SPACE = re.compile(r"\s*")


@dataclass(frozen=True, slots=True)
class GraphEdge:
    """Edge from `start` to `end`, by their names in the text."""

    start: str
    end: str
    attributes: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Graph:
    """Graph: attributes by node, in the order of the text, and edges."""

    nodes: Mapping[str, Mapping[str, str]]
    edges: tuple[GraphEdge, ...]


def parse_graph(text: str, where: str) -> Graph:
    """Graph in a text; `where` names the text in errors. Raises BadInput, with the line, if it is no graph."""
    reader = _TokenReader(text, where)
    if reader.text != "graph":
        raise reader.error("a run graph begins with 'graph {'")
    reader.step()
    if reader.is_name:
        reader.step()
    reader.mark("{")
    nodes: dict[str, Mapping[str, str]] = {}
    edges: list[GraphEdge] = []
    while not reader.passed("}"):
        start = reader.name()
        if reader.passed("--"):
            edges.append(GraphEdge(start, reader.name(), _attributes(reader)))
        elif start in nodes:
            raise reader.error(f"node {start!r} is described twice")
        else:
            nodes[start] = _attributes(reader)
        reader.passed(";")
    if not reader.is_end:
        raise reader.error("nothing may follow the closing brace")
    return Graph(nodes, tuple(edges))


def _attributes(reader: _TokenReader) -> dict[str, str]:
    """Reads attributes, if there are any: ['[' (name '=' name [','])* ']']."""
    attributes: dict[str, str] = {}
    if reader.passed("["):
        while not reader.passed("]"):
            key = reader.name()
            reader.mark("=")
            attributes[key] = reader.name()
            reader.passed(",")
    return attributes


def parse_records(text: str, where: str) -> tuple[dict[str, str], ...]:
    """Dictionaries in `[{key=value, key=value}, {...}]`. Raises BadInput for anything else."""
    body = text.strip()
    if not (body.startswith("[") and body.endswith("]")):
        raise BadInput(f"{where}: expected a list of records '[{{key=value, ...}}, ...]', got {body[:40]!r}")
    inside = body[1:-1].strip()
    if not inside:
        return ()
    if not (inside.startswith("{") and inside.endswith("}")):
        raise BadInput(f"{where}: expected records in braces, got {inside[:40]!r}")
    return tuple(_record(each, where) for each in re.split(r"\}\s*,\s*\{", inside[1:-1]))


def _record(text: str, where: str) -> dict[str, str]:
    record: dict[str, str] = {}
    for pair in text.split(","):
        key, equals, value = pair.partition("=")
        if not equals or not key.strip() or "{" in pair or "}" in pair:
            raise BadInput(f"{where}: expected 'key=value', got {pair.strip()[:40]!r}")
        record[key.strip()] = value.strip()
    return record


class _TokenReader:
    """Reads a text token by token. text: of the next token, which is a name (quoted or not), a mark, or the end."""

    def __init__(self, content: str, where: str) -> None:
        self._content, self._where, self._end = content, where, 0
        self.step()

    def step(self) -> None:
        """Steps to the next token."""
        self._start = _SPACE.match(self._content, self._end).end()  # type: ignore[union-attr]  # it matches anywhere
        token = _TOKEN.match(self._content, self._start)
        if token is None:
            raise BadInput(f"{self._place}: a quote is opened and never closed; is the file cut off?")
        self._end, quoted = token.end(), token["quoted"]
        self.is_end, self.is_name = token["end"] is not None, token["word"] is not None or quoted is not None
        plain = token.group() if quoted is None else re.sub(r"\\(.)", r"\1", quoted)
        self.text = "the end of the file" if self.is_end else plain

    def passed(self, mark: str) -> bool:
        """Steps over a mark, and returns true, if it is the next token."""
        found = not self.is_name and self.text == mark
        if found:
            self.step()
        return found

    def mark(self, mark: str) -> None:
        """Steps over a mark. Raises BadInput if it is not the next token."""
        if not self.passed(mark):
            raise self.error(f"expected {mark!r}")

    def name(self) -> str:
        """Steps over a name, and returns it. Raises BadInput if the next token is none."""
        if not self.is_name:
            raise self.error("expected a name")
        text = self.text
        self.step()
        return text

    @property
    def _place(self) -> str:
        return f"{self._where}: line {1 + self._content.count(chr(10), 0, self._start)}"

    def error(self, expected: str) -> BadInput:
        """Error that names the expected and the next token, with the line."""
        return BadInput(f"{self._place}: {expected}, got {self.text[:40]!r}")


# records -------------------------------------------------------------------------------------------------------------
# Reads the records of a published run graph, with checks: hosts, operators with their subtasks' reports, streams.
#
# Rates were measured by ZeroTune's changed Flink (class StreamMonitor): each subtask counts its records for 30 s,
# starting with its own first one, and reports both counts over that time. A subtask that saw no record, or not 30 s of
# them before the run was stopped, never reports; so there can be fewer reports than subtasks.


KINDS = {
    "SourceOperator": "source",
    "FilterOperator": "filter",
    "WindowedJoinOperator": "join",
    "WindowedAggregateOperator": "aggregate",
    "PhysicalNode": "host",
}
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Fields:
    """Attributes of one node (or report), each read as a type. Methods raise BadInput, beginning with `where`."""

    attributes: Mapping[str, str]
    where: str

    def text(self, key: str) -> str:
        """Attribute as text."""
        if key not in self.attributes:
            raise BadInput(f"{self.where} has no {key!r}; it is needed")
        return self.attributes[key]

    def number(self, key: str, positive: bool = True) -> float:
        """Attribute as a finite number, > 0 if `positive`, else >= 0."""
        text = self.text(key)
        try:
            value = float(text)
        except ValueError:
            value = math.nan
        if not math.isfinite(value) or value < 0 or (positive and value == 0):
            raise BadInput(f"{self.where}: {key} must be a number {'>' if positive else '>='} 0, got {text!r}")
        return value

    def choice(self, key: str, table: Mapping[str, T]) -> T:
        """Value that the table holds for the attribute."""
        text = self.text(key)
        if text not in table:
            raise BadInput(f"{self.where} has {key} {text!r}; {suggest(text, table)}")
        return table[text]


@dataclass(frozen=True, slots=True)
class HostRecord:
    """Machine as reported. clock_hz: at the time of the report. memory_bytes: of the whole machine."""

    id: str
    cores: int
    clock_hz: float
    memory_bytes: float
    link_mbps: float


@dataclass(frozen=True, slots=True)
class Report:
    """Report of one subtask over its 30 s; in_per_s is None for sources."""

    host: str
    in_per_s: float | None
    out_per_s: float


@dataclass(frozen=True, slots=True)
class OperatorRecord:
    """Operator with its reports. index: the number that ends its id. parallelism: subtasks that were deployed."""

    id: str
    index: int
    kind: str
    parallelism: int
    fields: Fields
    reports: tuple[Report, ...]

    @property
    def name(self) -> str:
        """Readable, unique name: kind and index."""
        return f"{self.kind}-{self.index}"

    @property
    def in_per_s(self) -> float | None:
        """Input rate, summed over all reports; None for a source."""
        rates = [report.in_per_s for report in self.reports if report.in_per_s is not None]
        return math.fsum(rates) if rates else None

    @property
    def out_per_s(self) -> float:
        """Output rate, summed over all reports."""
        return math.fsum(report.out_per_s for report in self.reports)

    @property
    def sent_per_s(self) -> float:
        """Output rate of all subtasks: a source's subtasks all produce, so those without a report count as the average.

        Subtasks of other operators may be silent because they got no key; their rate is the sum of the reports.
        """
        return self.out_per_s * (self.parallelism / len(self.reports) if self.kind in SOURCES else 1.0)


@dataclass(frozen=True, slots=True)
class RunRecords:
    """Records of a run: operators by index, hosts as listed, streams as (producer id, consumer id), and notes on what
    was mended."""

    operators: tuple[OperatorRecord, ...]
    hosts: tuple[HostRecord, ...]
    streams: tuple[tuple[str, str], ...]
    notes: tuple[str, ...]


def read_records(graph: Graph, where: str) -> RunRecords:
    """Records in a graph, with checks. Raises BadInput, naming file and node, for anything that is no run."""
    hosts: dict[str, HostRecord] = {}
    operators: list[OperatorRecord] = []
    for node, attributes in graph.nodes.items():
        fields = Fields(attributes, f"{where}: node {node!r}")
        kind = fields.choice("operatorType", KINDS)
        if kind == "host":
            hosts[node] = _host(node, fields)
        else:
            operators.append(_operator(node, kind, fields))
    if not operators:
        raise BadInput(f"{where}: there is no operator in this graph; is it a run graph?")
    operators.sort(key=lambda operator: operator.index)
    _check(operators, hosts, graph.edges, where)
    streams, loops = _streams(operators, graph.edges, where)
    notes = [*loops, *_disagreements(operators, hosts, graph.edges)]
    return RunRecords(tuple(operators), tuple(hosts.values()), streams, tuple(notes))


def _host(node: str, fields: Fields) -> HostRecord:
    return HostRecord(
        id=node,
        cores=int(fields.number("physicalCPUCores")),
        clock_hz=fields.number("maxCPUFreq"),
        memory_bytes=fields.number("totalMemory"),
        link_mbps=fields.number("networkLinkSpeed"),
    )


def _operator(node: str, kind: str, fields: Fields) -> OperatorRecord:
    ending = node.rsplit("-", 1)[-1]
    if not ending.isdigit():
        raise BadInput(f"{fields.where}: an operator's id ends in '-' and its number; rename the node")
    records = parse_records(fields.attributes.get("instances", "[]"), f"{fields.where}: instances")
    if not records:
        raise BadInput(f"{fields.where} has no instances, so nothing is known of its rates and hosts")
    reports = []
    for place, record in enumerate(records):
        each = Fields(record, f"{fields.where}: instance {place}")
        in_per_s = None if kind in SOURCES else each.number("inputRate", positive=False)
        reports.append(Report(each.text("host"), in_per_s, each.number("outputRate", positive=False)))
    parallelism = max(int(fields.number("parallelism")), len(reports))
    return OperatorRecord(node, int(ending), kind, parallelism, fields, tuple(reports))


def _check(
    operators: list[OperatorRecord], hosts: Mapping[str, HostRecord], edges: tuple[GraphEdge, ...], where: str
) -> None:
    names = [operator.name for operator in operators]
    for name in names:
        if names.count(name) > 1:
            raise BadInput(f"{where}: two operators are called {name!r}; their ids must end in different numbers")
    for operator in operators:
        for report in operator.reports:
            if report.host not in hosts:
                raise BadInput(f"{where}: node {operator.id!r}: instance on unknown host {report.host!r}; add its node")
    known = {operator.id for operator in operators} | set(hosts)
    for edge in edges:
        for end in (edge.start, edge.end):
            if end not in known:
                raise BadInput(f"{where}: edge {edge.start!r} -- {edge.end!r}: there is no node {end!r}")


def _streams(
    operators: list[OperatorRecord], edges: tuple[GraphEdge, ...], where: str
) -> tuple[tuple[tuple[str, str], ...], list[str]]:
    """Streams (producer id, consumer id), and notes on those mended.

    Some published chains hold an edge from an operator to itself in place of the edge from the operator before it.
    It is replaced where only one reading makes a chain: nothing else feeds the operator, and the one before it, by
    number, feeds nothing else. Any other loop is left, and refused with the rest of the query's checks.
    """
    by_id = {operator.id: operator for operator in operators}
    streams = [(edge.start, edge.end) for edge in edges if edge.start in by_id and edge.end in by_id]
    if not streams:
        raise BadInput(f"{where}: no edge joins two operators, so it is unknown who feeds whom")
    notes = []
    for place, (start, end) in enumerate(streams):
        before = [operator for operator in operators if operator.index < by_id[end].index][-1:]
        if start != end or not before:
            continue
        others = [other for at, other in enumerate(streams) if at != place]
        fed = any(consumer == end for _, consumer in others)
        feeds = any(producer == before[0].id and consumer != before[0].id for producer, consumer in others)
        if not fed and not feeds:
            streams[place] = (before[0].id, end)
            notes.append(f"{by_id[end].name} fed itself, read as {before[0].name} -> {by_id[end].name}")
    return tuple(streams), notes


def _disagreements(
    operators: list[OperatorRecord], hosts: Mapping[str, HostRecord], edges: tuple[GraphEdge, ...]
) -> list[str]:
    """Notes where counts on the edges to hosts differ from the reports, which count, as each names its own host."""
    counts: Counter[tuple[str, str]] = Counter()
    for edge in edges:
        ends = (edge.start, edge.end) if edge.end in hosts else (edge.end, edge.start)
        text = edge.attributes.get("occurences", "1")
        counts[ends] += int(text) if text.isdigit() else 1
    notes = []
    for operator in operators:
        reported = Counter(report.host for report in operator.reports)
        if any(counts[operator.id, host] not in (0, reported[host]) for host in hosts):
            notes.append(f"{operator.name}: the edges to its hosts count other subtasks than its reports; reports win")
    return notes


# operators -----------------------------------------------------------------------------------------------------------
# Turns operators of a published run graph into the twin's.


TYPES: Mapping[str, DataType] = {"Integer": "int", "Double": "double", "String": "string", "Timestamp": "string"}
FILTERS: Mapping[str, FilterFunction] = {
    "lessThan": "<",
    "lessEquals": "<=",
    "greaterThan": ">",
    "greaterEquals": ">=",
    "notEquals": "!=",
    "startsWith": "startswith",
    "startsNotWith": "startswith",
    "contains": "startswith",  # the strings are one character long
    "endsWith": "endswith",
    "endsNotWith": "endswith",
}
AGGREGATES: Mapping[str, AggregateFunction] = {name: name for name in get_args(AggregateFunction)}
COUNT_POLICY: Mapping[str, bool] = {"count": True, "duration": False}

DIGITS = string.digits
CHARACTERS = string.ascii_letters + string.digits


def _skew(made: Iterable[int | float | str]) -> KeySkew:
    counts = Counter(made)
    alike = len(set(counts.values())) == 1
    return KeySkew(keys=tuple(counts), shares=() if alike else tuple(float(each) for each in counts.values()))


KEYS: Mapping[str, KeySkew] = {
    "String": _skew(character + digit for character in CHARACTERS for digit in DIGITS),
    "Integer": _skew(value * ord(digit) for value in range(-10, 11) for digit in DIGITS),
    "Double": _skew(value / 100 * ord(digit) for value in range(-5, 6) for digit in DIGITS),
    "Timestamp": _skew(first + second for first in DIGITS for second in DIGITS),
}
"""Keys that the generator of the published runs makes, by class (ZeroTune: DataTuple, AbstractQueryBuilder.getKey). A
key is the record's first value of the class combined with the last digit d of its time stamp: one of 62 characters
followed by d; an integer in -10..10, or hundredths in -0.05..0.05, times the character code of d (48..57). Without a
class, it is the last two digits of the time stamp. Digits and values are equally frequent; products are not."""
KEY_FIELDS: Mapping[str, str] = {"join": "joinKeyClass", "aggregate": "keyByClass"}
"""Field with the class of an operator's keys, by kind."""


def twin_operator(record: OperatorRecord, given_per_s: float) -> AnyOperator:
    """Operator of the twin; `given_per_s` is the input against which the output of a filter or join is read.

    Raises BadInput if an attribute is missing or unknown, or the ratio has no denominator.
    """
    return BUILDERS[record.kind](record, given_per_s)


def _source(record: OperatorRecord, _: float) -> Source:
    if not record.out_per_s > 0:
        raise BadInput(f"{record.fields.where}: no output was measured; a source needs a rate")
    return Source(name=record.name, columns=_columns(record))


def _filter(record: OperatorRecord, given_per_s: float) -> Filter:
    return Filter(
        name=record.name,
        selectivity=min(1.0, _ratio(record, given_per_s)),
        function=record.fields.choice("filterFunction", FILTERS),
        literal_type=record.fields.choice("filterClass", TYPES),
    )


def _join(record: OperatorRecord, given_per_s: float) -> Join:
    return Join(
        name=record.name,
        window=_window(record),
        key_type=record.fields.choice("joinKeyClass", TYPES),
        amplification=_ratio(record, given_per_s),
    )


def _aggregate(record: OperatorRecord, _: float) -> Aggregate:
    fields, window = record.fields, _window(record)
    # Flink's count windows hold one key each: one result a firing. Time windows of all keys fire together.
    return Aggregate(
        name=record.name,
        window=window,
        function=fields.choice("aggFunction", AGGREGATES),
        value_type=fields.choice("aggClass", TYPES),
        group_by=fields.choice("keyByClass", TYPES),
        groups=1 if window.policy == "count" else fields.choice("keyByClass", KEYS).key_count,
    )


BUILDERS: Mapping[str, Callable[[OperatorRecord, float], AnyOperator]] = {
    "source": _source,
    "filter": _filter,
    "join": _join,
    "aggregate": _aggregate,
}


def _ratio(record: OperatorRecord, given_per_s: float) -> float:
    if not given_per_s > 0:
        raise BadInput(f"{record.fields.where}: no input was measured, so its output per input is unknown")
    return record.out_per_s / given_per_s


def _columns(record: OperatorRecord) -> Columns:
    ints, doubles, strings = (
        int(record.fields.number(key, positive=False)) for key in ("numInteger", "numDouble", "numString")
    )
    return Columns(ints=ints, doubles=doubles, strings=strings + 1)  # each record also carries its time stamp, as text


def _window(record: OperatorRecord) -> CountWindow | TimeWindow:
    size, slide = (record.fields.number(key) for key in ("windowLength", "slidingLength"))
    if slide > size:
        raise BadInput(f"{record.fields.where}: slidingLength {slide:g} is longer than windowLength {size:g}")
    hops = None if slide == size else slide
    if record.fields.choice("windowPolicy", COUNT_POLICY):
        return CountWindow(size_records=int(size), slide_records=None if hops is None else int(hops))
    return TimeWindow(size_s=size / 1000, slide_s=None if hops is None else hops / 1000)
