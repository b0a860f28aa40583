"""Makes scenarios of published graphs of real Flink runs (ZeroTune's form), with the rates that were measured.

The twin is given the sources' measured output, the filters' measured selectivity, the joins' measured amplification.
Everything else that was measured is kept beside the scenario, to compare. See docs/real-runs.md.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from pydantic import ValidationError

from scenarios.files.documents import CLOSED
from streamtwin.connect.importers.graph_text import parse_graph
from streamtwin.connect.importers.run_operators import KEY_FIELDS, KEYS, twin_operator
from streamtwin.connect.importers.run_records import HostRecord, OperatorRecord, RunRecords, read_records
from twin.cluster import Cluster, Host
from twin.errors import BadInput
from twin.flink_keys import default_key_groups
from twin.key_skew import KeySkew
from twin.kinds.registry import BY_KIND, SOURCES
from twin.plan import ExecutionPlan
from twin.profiles import FLINK
from twin.query import AnyOperator, Query, Sink, Stream, Windowed
from twin.scenario import RunSettings, Scenario
from twin.workload import Constant, Workload

REFERENCE_CLOCK_HZ = 2.0e9
"""Clock of a reference core: the nominal one of the 8-core machines in the published runs."""
LATENCY_MS = 0.1
"""Assumed latency between hosts of one data centre, which the graphs do not record."""
SETTINGS = RunSettings(horizon_s=60.0, warmup_s=20.0, period_s=10.0)
"""Settings of runs: long enough for a dozen firings of the longest window (3 s), short enough for dozens a minute."""

JoinInput = Literal["sent", "received"]
"""Denominator of a join's amplification: what its producers sent, or what it reports to have received."""
Dealt = Literal["evenly", "hashed"]
"""Distribution to replicas of joins and time windows: even, or as Flink hashes keys; that of count windows is even."""


@dataclass(frozen=True, slots=True)
class MeasuredOperator:
    """Rates of one operator, tuples/s, summed over the replicas that reported (`reports` of `replicas`).

    in_per_s is None for sources, offered_per_s for all others.
    """

    operator: str
    kind: str
    in_per_s: float | None
    out_per_s: float
    offered_per_s: float | None
    replicas: int
    reports: int


@CLOSED
@dataclass(frozen=True, slots=True)
class ImportedRun:
    """The answer of `twin import run-graph`: a run as a scenario, with measurements (a row an operator, without the
    added sink), and notes on what was mended."""

    scenario: Scenario
    measured: tuple[MeasuredOperator, ...]
    notes: tuple[str, ...] = ()


def read_run_graph(path: str | Path, join_input: JoinInput = "sent", dealt: Dealt = "evenly") -> ImportedRun:
    """Reads the run in a graph file. Raises BadInput (file, what, why) if it cannot be read as one."""
    file = Path(path)
    try:
        text = file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is not text in UTF-8"
        raise BadInput(f"{file} cannot be read: {why}; name a .graph file") from None
    records = read_records(parse_graph(text, str(file)), str(file))
    notes = (*records.notes, *_scaled(records))
    return ImportedRun(_scenario(file, records, notes, join_input, dealt), _measured(records), notes)


def _scaled(records: RunRecords) -> list[str]:
    return [
        f"{each.name}: {len(each.reports)} of {each.parallelism} replicas reported, its rate is scaled up to all"
        for each in records.operators
        if each.kind in SOURCES and len(each.reports) < each.parallelism
    ]


def _measured(records: RunRecords) -> tuple[MeasuredOperator, ...]:
    return tuple(
        MeasuredOperator(
            operator=each.name,
            kind=each.kind,
            in_per_s=each.in_per_s,
            out_per_s=each.out_per_s,
            offered_per_s=each.fields.number("confEventRate") if each.kind in SOURCES else None,
            replicas=each.parallelism,
            reports=len(each.reports),
        )
        for each in records.operators
    )


def _scenario(file: Path, records: RunRecords, notes: tuple[str, ...], join_input: JoinInput, dealt: Dealt) -> Scenario:
    names = {host.id: f"host-{number}" for number, host in enumerate(records.hosts, start=1)}
    hosts = "; ".join(f"{name} was {host}" for host, name in names.items())
    mended = f" Mended: {'; '.join(notes)}." if notes else ""
    sources = [each for each in records.operators if each.kind in SOURCES]
    keys = _keys(records) if dealt == "hashed" else {}
    try:
        return Scenario(
            name=file.stem,
            description=f"A real Flink run, imported from {file.name}. Hosts: {hosts}.{mended}",
            query=_query(records, join_input, keys),
            cluster=Cluster(hosts=tuple(_host(host, names[host.id]) for host in records.hosts)),
            plan=ExecutionPlan(placement=_placement(records, names)),
            workload=Workload(
                arrivals={each.name: Constant(rate_per_s=each.sent_per_s) for each in sources}, keys=keys
            ),
            engine=FLINK,
            run=SETTINGS,
        )
    except ValidationError as error:
        reason = error.errors()[0]["msg"].removeprefix("Value error, ")
        raise BadInput(f"{file}: this graph is not a query that can run: {reason}") from None


def _host(record: HostRecord, name: str) -> Host:
    core_percent = 100.0 * record.clock_hz / REFERENCE_CLOCK_HZ
    return Host(
        name=name,
        cpu_percent=core_percent * record.cores,
        core_percent=core_percent,
        ram_mb=record.memory_bytes / 1e6,
        bandwidth_mbps=record.link_mbps,
        latency_ms=LATENCY_MS,
    )


def _placement(records: RunRecords, names: Mapping[str, str]) -> dict[str, tuple[str, ...]]:
    """Hosts of all replicas: those that reported are where they reported from; others go, one by one, where there are

    fewest. The sink gets one replica on each host of the last operators.
    """
    placement = {}
    for operator in records.operators:
        counts = Counter({host.id: 0 for host in records.hosts})
        counts.update(report.host for report in operator.reports)
        for _ in range(operator.parallelism - len(operator.reports)):
            counts[min(counts, key=counts.__getitem__)] += 1
        placement[operator.name] = tuple(names[host] for host, count in counts.items() for _ in range(count))
    ends = {host for operator in _last(records) for host in placement[operator.name]}
    placement["sink"] = tuple(name for name in names.values() if name in ends)
    return placement


def _last(records: RunRecords) -> list[OperatorRecord]:
    producers = {producer for producer, _ in records.streams}
    return [operator for operator in records.operators if operator.id not in producers]


def _keys(records: RunRecords) -> dict[str, KeySkew]:
    """Key skew of operators with keyed input, but for count windows."""
    keyed = [each for each in records.operators if each.kind in KEY_FIELDS]
    counting = [each for each in keyed if not BY_KIND[each.kind].joins and each.fields.text("windowPolicy") == "count"]
    return {each.name: each.fields.choice(KEY_FIELDS[each.kind], KEYS) for each in keyed if each not in counting}


def _query(records: RunRecords, join_input: JoinInput, keys: Mapping[str, KeySkew]) -> Query:
    by_id = {operator.id: operator for operator in records.operators}
    operators: list[AnyOperator] = []
    streams: list[Stream] = []
    for each in records.operators:
        producers = [by_id[producer] for producer, consumer in records.streams if consumer == each.id]
        sent_per_s = sum(producer.sent_per_s for producer in producers)
        by_sent = BY_KIND[each.kind].joins and join_input == "sent"
        operator = twin_operator(each, sent_per_s if by_sent else each.in_per_s or 0.0)
        if each.name in keys:
            operator = operator.model_copy(update={"key_groups": default_key_groups(each.parallelism)})
        operators.append(operator)
        # count windows count each key by itself, so the load of replicas does not depend on the number of keys
        counts = isinstance(operator, Windowed) and not operator.joins and operator.window.policy == "count"
        streams.extend(_stream(producer.name, each.name, counts) for producer in producers)
    streams.extend(_stream(each.name, "sink", False) for each in _last(records))
    return Query(operators=(*operators, Sink(name="sink")), streams=tuple(streams))


def _stream(producer: str, consumer: str, rebalance: bool) -> Stream:
    return Stream(producer=producer, consumer=consumer, partitioning="rebalance" if rebalance else None)
