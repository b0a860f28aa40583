"""Reads the records of a published run graph, with checks: hosts, operators with their replicas' reports, streams.

Rates were measured by ZeroTune's changed Flink (class StreamMonitor): each replica counts its tuples for 30 s,
starting with its own first one, and reports both counts over that time. A replica that saw no tuple, or not 30 s of
them before the run was stopped, never reports; so there can be fewer reports than replicas.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeVar

from streamtwin.connect.importers.graph_text import Graph, GraphEdge, parse_records
from twin.errors import BadInput, suggest
from twin.kinds.registry import SOURCES

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
    """Report of one replica over its 30 s; in_per_s is None for sources."""

    host: str
    in_per_s: float | None
    out_per_s: float


@dataclass(frozen=True, slots=True)
class OperatorRecord:
    """Operator with its reports. index: the number that ends its id. parallelism: replicas that were deployed."""

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
        """Output rate of all replicas: a source's replicas all produce, so those without a report count as the average.

        Replicas of other operators may be silent because they got no key; their rate is the sum of the reports.
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
            notes.append(f"{operator.name}: the edges to its hosts count other replicas than its reports; reports win")
    return notes
